//! What a call means in the world, and on whose word: on which thing the effect is, for whom, in whose
//! name, in which system, for how long, and to what end.
//!
//! That a permit binds a call to the byte does not say that the call was on the right account; this
//! does. Nothing in it is the agent's word about itself: each aspect names who vouches for it. The gate
//! establishes it (`decide::meaning`); the vault holds it against its own copy of the policy and
//! the call that is performed ([`Meaning::agrees`]).
//!
//! What a person wanted beyond that, nobody can read off a call.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    id::{CredentialLabel, TenantName},
    json::Value,
    mutant::Mutant,
    policy::Policy,
    request::HttpRequest,
};

/// One side of what a call means.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// What it brings about, in the operator's words.
    Effect,
    /// The thing that the effect is on.
    Resource,
    /// The end user for whom it is.
    Subject,
    /// The system that it goes to: scheme, host and port.
    System,
    /// In whose name.
    Tenant,
    /// Until when the person's word is acted on, in milliseconds of CLOCK_BOOTTIME.
    Until,
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Effect => "effect",
            Self::Resource => "resource",
            Self::Subject => "subject",
            Self::System => "system",
            Self::Tenant => "tenant",
            Self::Until => "until",
        })
    }
}

/// Who vouches for an aspect. There is no word for the agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Voucher {
    /// The application that opened the session: a value, a set, the subject, the tenant.
    Application,
    /// The operator's policy.
    Operator,
    /// The person whose task it is, in so many words.
    Person,
    /// A person who approved exactly this call.
    Reviewer,
    /// A system's own field, in a record that the person's words selected.
    System,
}

impl Voucher {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Operator => "operator",
            Self::Person => "person",
            Self::Reviewer => "reviewer",
            Self::System => "system",
        }
    }
}

/// What is said of an aspect, and on whose word.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// On whose word.
    pub by: Voucher,
    /// What.
    pub value: Value,
}

/// What a call means. A permit carries it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Meaning(BTreeMap<Aspect, Said>);

/// Why what a permit says a call means is not what the call is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MeaningError {
    /// An aspect is missing that the policy wants, or is there and the policy has none.
    #[error("the permit does not say the call's {aspect}, or one that the policy does not know")]
    Aspect {
        /// Which.
        aspect: Aspect,
    },
    /// An aspect is another than the call's.
    #[error("the call's {aspect} is not the one that the permit says")]
    Other {
        /// Which.
        aspect: Aspect,
    },
    /// The person's word is too old.
    #[error("the time is over for which the person's word is acted on")]
    Over,
    /// The credential acts in other names.
    #[error("credential `{credential}` does not act in the name that the permit says")]
    Tenant {
        /// The credential.
        credential: CredentialLabel,
    },
}

impl Meaning {
    /// The most bytes of a resource in RFC 8785 form: a permit holds it whole.
    pub const RESOURCE_MAX: usize = 1 << 10;

    /// Says one aspect.
    pub(crate) fn say(&mut self, aspect: Aspect, by: Voucher, value: Value) {
        self.0.insert(aspect, Said { by, value });
    }

    /// What is said of an aspect.
    pub fn said(&self, aspect: Aspect) -> Option<&Said> {
        self.0.get(&aspect)
    }

    /// All that is said, in the order of the aspects' names.
    pub fn aspects(&self) -> impl Iterator<Item = (Aspect, &Said)> {
        self.0.iter().map(|(aspect, said)| (*aspect, said))
    }

    fn value(&self, aspect: Aspect) -> Option<&Value> {
        self.0.get(&aspect).map(|it| &it.value)
    }

    /// Whether this is what `call` means when it is performed as `request` at `now_ms` of
    /// CLOCK_BOOTTIME, as far as the policy and the call say it: the vault's own look.
    ///
    /// # Errors
    /// At the first aspect that is another, missing, or none of the policy's.
    pub fn agrees(
        &self,
        policy: &Policy,
        call: &Call,
        request: &HttpRequest,
        now_ms: u64,
    ) -> Result<(), MeaningError> {
        if Mutant::VaultMeaning.is_on() {
            return Ok(());
        }
        let Some(tool) = policy.tools().get(&call.tool) else {
            // A permit for a tool that the policy has not is refused before anybody asks this.
            return Err(MeaningError::Aspect {
                aspect: Aspect::Effect,
            });
        };
        let rules = tool.meaning.as_ref();
        let text = |text: &str| Value::Text(text.into());
        let resource = rules
            .and_then(|it| it.resource.as_ref())
            .and_then(|it| call.arguments.get(it));
        for (aspect, theirs) in [
            (Aspect::Effect, rules.map(|it| text(&it.effect))),
            (Aspect::Resource, resource.cloned()),
            (Aspect::System, Some(text(&request.origin.to_string()))),
        ] {
            if self.value(aspect) != theirs.as_ref() {
                return Err(MeaningError::Other { aspect });
            }
        }
        self.agrees_on_whose(policy, call)?;
        match (
            self.value(Aspect::Until),
            rules.and_then(|it| it.window_seconds),
        ) {
            (None, None) => Ok(()),
            (Some(Value::Int(until)), Some(_))
                if u64::try_from(until.get()).is_ok_and(|until| until > now_ms) =>
            {
                Ok(())
            }
            (Some(_), Some(_)) => Err(MeaningError::Over),
            (Some(_), None) | (None, Some(_)) => Err(MeaningError::Aspect {
                aspect: Aspect::Until,
            }),
        }
    }

    /// For whom and in whose name.
    fn agrees_on_whose(&self, policy: &Policy, call: &Call) -> Result<(), MeaningError> {
        let Some(tool) = policy.tools().get(&call.tool) else {
            return Ok(());
        };
        let missing = |aspect| Err(MeaningError::Aspect { aspect });
        let tenant = self.value(Aspect::Tenant);
        if let Some(credential) = policy.credential(&tool.credential)
            && !credential.tenants.is_empty()
        {
            let named =
                |it: &TenantName| matches!(tenant, Some(Value::Text(text)) if text == it.as_str());
            if !credential.tenants.iter().any(named) {
                return Err(MeaningError::Tenant {
                    credential: tool.credential.clone(),
                });
            }
        }
        let Some(rules) = &tool.meaning else {
            return Ok(());
        };
        if rules.subject && self.value(Aspect::Subject).is_none() {
            return missing(Aspect::Subject);
        }
        if rules.wants_tenant() && tenant.is_none() {
            return missing(Aspect::Tenant);
        }
        match &rules.tenant_argument {
            Some(argument) if call.arguments.get(argument) != tenant => Err(MeaningError::Other {
                aspect: Aspect::Tenant,
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// The end user for whom a session works: who he is, in the application's words.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subject(String);

/// Why a text names no subject.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a subject is 1 to {} bytes of text without control characters and without blanks at its ends",
    Subject::MAX
)]
pub struct SubjectError;

impl Subject {
    /// The most bytes.
    pub const MAX: usize = 256;

    /// Parses `text`.
    ///
    /// # Errors
    /// When it is empty, too long, has a control character, or blanks at its ends.
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        let plain = !text.is_empty()
            && text.len() <= Self::MAX
            && text.trim() == text
            && !text.contains(char::is_control);
        plain.then(|| Self(text.into())).ok_or(SubjectError)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Subject {
    type Error = SubjectError;

    fn try_from(text: String) -> Result<Self, SubjectError> {
        Self::parse(&text)
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

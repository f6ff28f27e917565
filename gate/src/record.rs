//! What the lines of both chains say: a decision record for every outcome, an intent and a receipt
//! for every effect.
//!
//! What an agent, an application or a server wrote stands in them only as JSON strings, escaped as
//! RFC 8785 says.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
};
use core::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    chain::{ChainName, Place},
    decide::{Allowed, Grounds, Refusal, Rule},
    digest::{Digest, Domain},
    id::{ArgumentName, CredentialLabel, OwnedName, PolicyName, SessionId, ToolName, ValueName},
    json::Value,
    nonce::Nonce,
    policy::{Label, Policy},
    session::{Facts, Taint},
};

/// What a line says.
pub trait Body: Serialize + DeserializeOwned {
    /// In which chain it stands.
    const CHAIN: ChainName;
}

/// Milliseconds since 1970 by the host's clock: for readers. Nothing is decided on it.
pub type UnixMillis = u64;

/// Why something ended as it did: a short sentence, maybe with another program's words in it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Why(String);

impl Why {
    /// The most bytes of a reason; the rest is cut off.
    pub const MAX: usize = 4 << 10;

    /// The reason as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Why {
    fn from(text: &str) -> Self {
        let mut kept = String::new();
        for character in text.chars() {
            if kept.len().saturating_add(character.len_utf8()) > Self::MAX {
                break;
            }
            // A NUL has no place in our JSON: a line with one could not be written.
            kept.push(if character == '\0' {
                char::REPLACEMENT_CHARACTER
            } else {
                character
            });
        }
        Self(kept)
    }
}

impl From<String> for Why {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A decision record, by the gate.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// A call was allowed; a permit that rests on this record follows.
    Allowed {
        /// When.
        at: UnixMillis,
        /// The complete call.
        call: Value,
        /// The credential that it is performed with.
        credential: CredentialLabel,
        /// The call's digest.
        digest: Digest,
        /// What the decision rests on.
        grounds: Grounds,
        /// The policy's digest.
        policy: Digest,
        /// The session.
        session: SessionId,
    },
    /// A session is over.
    Closed {
        /// When.
        at: UnixMillis,
        /// The session.
        session: SessionId,
        /// Why.
        why: Why,
    },
    /// The effect was performed. The result is recorded here before it is released to the agent.
    Done {
        /// When.
        at: UnixMillis,
        /// How many bytes the result has.
        bytes: u64,
        /// The call's digest.
        call: Digest,
        /// The record of the decision.
        decision: Place,
        /// Whose words the result is taken for.
        label: Label,
        /// The receipt's digest.
        receipt: Digest,
        /// The result's digest, as it is released.
        result: Digest,
        /// The session.
        session: SessionId,
        /// The status of the effect (HTTP: the status code).
        status: u16,
        /// The tool.
        tool: ToolName,
    },
    /// The effect failed, or may not have happened, or the vault did not act on the permit.
    Failed {
        /// When.
        at: UnixMillis,
        /// The call's digest.
        call: Digest,
        /// The record of the decision.
        decision: Place,
        /// Whether the effect may have happened.
        in_doubt: bool,
        /// The receipt's digest; none if the vault did not act.
        receipt: Option<Digest>,
        /// The session.
        session: SessionId,
        /// The tool.
        tool: ToolName,
        /// Why.
        why: Why,
    },
    /// A session was opened.
    Opened {
        /// When.
        at: UnixMillis,
        /// Who asked for it.
        caller_uid: u32,
        /// Each owned set and how many members it has.
        owned: BTreeMap<OwnedName, u64>,
        /// The policy's name.
        name: PolicyName,
        /// The policy's digest.
        policy: Digest,
        /// The session.
        session: SessionId,
        /// Why it is tainted from the start; empty if it is not.
        taint: BTreeSet<Taint>,
        /// What the person asked for.
        task: Option<String>,
        /// The trusted values.
        values: BTreeMap<ValueName, Value>,
    },
    /// A call was refused; nothing was performed.
    Refused {
        /// When.
        at: UnixMillis,
        /// Which argument, if one.
        argument: Option<ArgumentName>,
        /// The arguments as the agent wrote them; none if they could not be read.
        arguments: Option<Value>,
        /// The digest of the arguments' bytes.
        digest: Digest,
        /// The policy's digest.
        policy: Digest,
        /// The rule, by its stable name.
        rule: String,
        /// The session.
        session: SessionId,
        /// Why the session was tainted; empty if it was not.
        taint: BTreeSet<Taint>,
        /// The tool's name as the agent wrote it.
        tool: String,
        /// Why.
        why: Why,
    },
    /// The gate started. Every session of an earlier run is over.
    Started {
        /// When.
        at: UnixMillis,
        /// The id of the permit key of this run.
        permit_key: Digest,
        /// The program's version.
        version: String,
    },
}

impl Body for Decision {
    const CHAIN: ChainName = ChainName::Decisions;
}

/// Who calls, when and under what: stands in every record of a session.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// When.
    pub at: UnixMillis,
    /// The session's facts.
    pub facts: &'a Facts,
    /// Its policy's digest.
    pub policy: Digest,
    /// The session.
    pub session: SessionId,
}

impl Decision {
    /// The record of an allowed call.
    pub fn allowed(scene: &Scene<'_>, allowed: &Allowed) -> Self {
        Self::Allowed {
            at: scene.at,
            call: allowed.call().to_value(),
            credential: allowed.credential().clone(),
            digest: allowed.digest(),
            grounds: allowed.grounds().clone(),
            policy: allowed.policy(),
            session: scene.session,
        }
    }

    /// The record of a refused call. `arguments` are the bytes as they came, `read` what they say.
    pub fn refused(
        scene: &Scene<'_>,
        tool: &str,
        arguments: &[u8],
        read: Option<&Value>,
        refusal: &Refusal,
    ) -> Self {
        Self::refused_by(
            scene,
            tool,
            arguments,
            read,
            (refusal.rule.as_str(), refusal.argument.clone()),
            Why::from(refusal.why.as_str()),
        )
    }

    /// The record of a call that could not be read: rule `arguments`.
    pub fn unreadable(scene: &Scene<'_>, tool: &str, arguments: &[u8], why: Why) -> Self {
        let rule = (Rule::Arguments.as_str(), None);
        Self::refused_by(scene, tool, arguments, None, rule, why)
    }

    fn refused_by(
        scene: &Scene<'_>,
        tool: &str,
        arguments: &[u8],
        read: Option<&Value>,
        (rule, argument): (&str, Option<ArgumentName>),
        why: Why,
    ) -> Self {
        Self::Refused {
            at: scene.at,
            argument,
            arguments: read.cloned(),
            digest: Digest::of(Domain::Call, arguments),
            policy: scene.policy,
            rule: rule.into(),
            session: scene.session,
            taint: scene.facts.taint().clone(),
            // A NUL has no place in our JSON.
            tool: tool.replace('\0', "\u{fffd}"),
            why,
        }
    }

    /// The record of a session's opening.
    pub fn opened(scene: &Scene<'_>, policy: &Policy, caller_uid: u32) -> Self {
        Self::Opened {
            at: scene.at,
            caller_uid,
            owned: scene
                .facts
                .owned_sizes()
                .into_iter()
                .map(|(set, size)| (set, u64::try_from(size).unwrap_or(u64::MAX)))
                .collect(),
            name: policy.name().clone(),
            policy: scene.policy,
            session: scene.session,
            taint: scene.facts.taint().clone(),
            task: scene.facts.task().map(String::from),
            values: scene.facts.values().clone(),
        }
    }

    /// The session that the record is of; none for a start of the gate.
    pub const fn session(&self) -> Option<SessionId> {
        match self {
            Self::Allowed { session, .. }
            | Self::Closed { session, .. }
            | Self::Done { session, .. }
            | Self::Failed { session, .. }
            | Self::Opened { session, .. }
            | Self::Refused { session, .. } => Some(*session),
            Self::Started { .. } => None,
        }
    }
}

/// A line of the vault's chain.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// An effect that is not idempotent is about to be performed. If no receipt names this line,
    /// the effect is in doubt.
    Intent {
        /// When.
        at: UnixMillis,
        /// What is performed.
        effect: Bound,
    },
    /// What came of it.
    Receipt {
        /// When.
        at: UnixMillis,
        /// What was performed.
        effect: Bound,
        /// The intent, where there was one.
        intent: Option<Place>,
        /// What came of it.
        outcome: Outcome,
    },
    /// The vault started. Every permit of an earlier run is void.
    Started {
        /// When.
        at: UnixMillis,
        /// The run, as permits name it.
        epoch: Nonce,
        /// The program's version.
        version: String,
    },
}

impl Body for Effect {
    const CHAIN: ChainName = ChainName::Receipts;
}

/// What an effect is bound to.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The call's digest.
    pub call: Digest,
    /// The credential's label.
    pub credential: CredentialLabel,
    /// The record of the decision that it rests on.
    pub decision: Place,
    /// The permit's nonce.
    pub nonce: Nonce,
    /// The policy's digest.
    pub policy: Digest,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: ToolName,
}

impl Bound {
    /// What `permit` binds.
    pub fn of(permit: &crate::permit::Verified) -> Self {
        Self {
            call: permit.call(),
            credential: permit.credential().clone(),
            decision: Place {
                position: permit.position(),
                digest: permit.decision(),
            },
            nonce: Nonce(permit.nonce()),
            policy: permit.policy(),
            session: permit.session(),
            tool: permit.tool().clone(),
        }
    }
}

/// What came of an effect.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// The server answered.
    Done {
        /// How many bytes the result has.
        bytes: u64,
        /// The result's digest, after scrubbing.
        result: Digest,
        /// How many times the credential stood in the answer and was taken out.
        scrubbed: u32,
        /// The status code.
        status: u16,
    },
    /// Nothing was sent.
    Failed {
        /// Why.
        why: Why,
    },
    /// The effect may have happened.
    InDoubt {
        /// Why.
        why: Why,
    },
    /// The vault did not act on the permit.
    Refused {
        /// Why.
        why: Why,
    },
}

/// The digest of a result, as records and receipts name it.
pub fn result_digest(result: &[u8]) -> Digest {
    Digest::of(Domain::Result, result)
}

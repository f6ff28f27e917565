//! What a decision carries, and how it explains itself.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::{Rule, Verdict};
use crate::{
    call::Call,
    chain::Place,
    digest::Digest,
    id::{ArgumentName, CredentialLabel, ToolName},
    lease::Lease,
    meaning::Meaning,
    policy::{ActionClass, Authority, OnTaint, OriginClass, Risk, Role},
    record::Opening,
    session::Taint,
};

/// A complete call that was judged, and what the judgement rests on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Judged {
    pub(super) bytes: Vec<u8>,
    pub(super) call: Call,
    pub(super) credential: CredentialLabel,
    pub(super) digest: Digest,
    pub(super) grounds: Grounds,
    pub(super) idempotent: bool,
    pub(super) meaning: Meaning,
    pub(super) opens: Option<Opening>,
    pub(super) policy: Digest,
}

/// Proof that a call was allowed, and the only thing that a permit is made of. It carries the call
/// that was decided, so that what is performed cannot differ from what was judged.
///
/// ```compile_fail,E0451
/// # fn forge(it: gate::decide::Allowed) {
/// let forged = gate::decide::Allowed { judged: it.judged };
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Allowed {
    pub(super) judged: Judged,
}

impl Allowed {
    /// The complete call, injected values in.
    pub const fn call(&self) -> &Call {
        &self.judged.call
    }

    /// The complete call in RFC 8785 form: what the vault gets beside the permit.
    pub fn bytes(&self) -> &[u8] {
        &self.judged.bytes
    }

    /// The tool.
    pub const fn tool(&self) -> &ToolName {
        &self.judged.call.tool
    }

    /// The digest of the complete call.
    pub const fn digest(&self) -> Digest {
        self.judged.digest
    }

    /// The credential that it is performed with.
    pub const fn credential(&self) -> &CredentialLabel {
        &self.judged.credential
    }

    /// Whether it may be repeated without another effect.
    pub const fn idempotent(&self) -> bool {
        self.judged.idempotent
    }

    /// The lease that it needs; none where its answer is released whole.
    pub fn lease(&self) -> Option<&Lease> {
        self.opens().map(|it| &it.lease)
    }

    /// What is recorded of its opening; none where its answer is released whole.
    pub const fn opens(&self) -> Option<&Opening> {
        self.judged.opens.as_ref()
    }

    /// What it means, and on whose word.
    pub const fn meaning(&self) -> &Meaning {
        &self.judged.meaning
    }

    /// The policy that it was decided by.
    pub const fn policy(&self) -> Digest {
        self.judged.policy
    }

    /// What the decision rests on.
    pub const fn grounds(&self) -> &Grounds {
        &self.judged.grounds
    }

    /// The same, resting on the approval that is recorded at `approval`.
    #[must_use]
    pub fn resting_on(mut self, approval: Place) -> Self {
        self.judged.grounds.approval = Some(approval);
        self
    }
}

/// A call that nothing refused and something holds: a person, or the end of the turn. No permit is
/// made of it; it is decided again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    pub(super) judged: Judged,
    pub(super) reasons: Vec<Reason>,
}

impl Held {
    /// The complete call: what a person is shown.
    pub const fn call(&self) -> &Call {
        &self.judged.call
    }

    /// The complete call in RFC 8785 form.
    pub fn bytes(&self) -> &[u8] {
        &self.judged.bytes
    }

    /// The digest of the complete call: what an approval binds.
    pub const fn digest(&self) -> Digest {
        self.judged.digest
    }

    /// What it means, and on whose word.
    pub const fn meaning(&self) -> &Meaning {
        &self.judged.meaning
    }

    /// The policy that it was decided by.
    pub const fn policy(&self) -> Digest {
        self.judged.policy
    }

    /// What the decision rests on.
    pub const fn grounds(&self) -> &Grounds {
        &self.judged.grounds
    }

    /// Everything that holds it, in the order of the rules; never empty.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }
}

/// A refusal, with a reason that the agent or the operator can act on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The rule.
    pub rule: Rule,
    /// The argument, if it is one that the policy names.
    pub argument: Option<ArgumentName>,
    /// Why. Never repeats more than [`crate::excerpt::EXCERPT_MAX`] bytes of what the agent wrote,
    /// escaped.
    pub why: String,
    /// What would change it.
    pub change: String,
    /// What it rests on; none where the call was refused before anybody asked whose its values are.
    pub grounds: Option<Box<Grounds>>,
}

/// Why something is not let through: the rule, what it saw, and what would change it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The argument, if it is one that the policy names.
    pub argument: Option<ArgumentName>,
    /// What would change it.
    pub change: String,
    /// The rule.
    pub rule: Rule,
    /// Why.
    pub why: String,
}

/// What a decision rests on: enough to say later why.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grounds {
    /// The record of the approval that it rests on, if one lets it through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Place>,
    /// Who supplied each argument of the call, and from where its value comes.
    pub arguments: BTreeMap<ArgumentName, Ground>,
    /// The branch that the selector says, if the tool has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What the call does to the world: declared, computed and added.
    pub classes: BTreeSet<ActionClass>,
    /// What the policy says of this tool in a tainted session.
    pub on_taint: OnTaint,
    /// What is at stake.
    pub risk: Risk,
    /// Why the session was tainted; empty if it was not.
    pub taint: BTreeSet<Taint>,
}

/// What is known of one argument of a call.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ground {
    /// Who authored it.
    pub authority: Authority,
    /// Whether untrusted text has the value too that something better vouches for: it may have been
    /// chosen there. The last of the places that said it is of that text then.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub in_untrusted: bool,
    /// Where its value comes from; of several values, the worst. None where nobody had to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginClass>,
    /// What it is to the effect.
    pub role: Role,
    /// What said the value: a few of the places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said_by: Vec<String>,
}

/// A decision's answer, in a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWord {
    /// Let through.
    Allow,
    /// Until the end of the turn.
    Defer,
    /// Until a person answers.
    Hold,
    /// Let through, and what comes back is limited.
    Limit,
    /// Not let through.
    Refuse,
}

impl AnswerWord {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Defer => "defer",
            Self::Hold => "hold",
            Self::Limit => "limit",
            Self::Refuse => "refuse",
        }
    }
}

/// A decision, explained: what records keep and people are shown.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The answer.
    pub answer: AnswerWord,
    /// The digest of the complete call, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grounds: Option<Grounds>,
    /// What the call means, and on whose word; none where it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<Meaning>,
    /// Why it is not let through, in the order of the rules; empty if it is.
    pub reasons: Vec<Reason>,
}

impl Verdict {
    /// The answer, in a word.
    pub const fn answer(&self) -> AnswerWord {
        match self {
            Self::Allow(_) => AnswerWord::Allow,
            Self::Defer(_) => AnswerWord::Defer,
            Self::Hold(_) => AnswerWord::Hold,
            Self::Limit(_) => AnswerWord::Limit,
            Self::Refuse(_) => AnswerWord::Refuse,
        }
    }

    /// The decision, explained.
    pub fn explain(&self) -> Explanation {
        let (judged, grounds, reasons) = match self {
            Self::Allow(it) | Self::Limit(it) => (Some(&it.judged), None, Vec::new()),
            Self::Defer(it) | Self::Hold(it) => (Some(&it.judged), None, it.reasons.clone()),
            Self::Refuse(it) => (None, it.grounds.as_deref(), [it.reason()].into()),
        };
        Explanation {
            answer: self.answer(),
            digest: judged.map(|it| it.digest),
            grounds: judged.map(|it| &it.grounds).or(grounds).cloned(),
            meaning: judged.map(|it| it.meaning.clone()),
            reasons,
        }
    }
}

impl Refusal {
    /// The same as a reason.
    pub fn reason(&self) -> Reason {
        Reason {
            argument: self.argument.clone(),
            change: self.change.clone(),
            rule: self.rule,
            why: self.why.clone(),
        }
    }
}

//! The decision on one call.
//!
//! In this order, each answering before the next is asked: the tool's name is registered → the
//! fields are exact, each has its type and its bounds → each argument is authored by whom the
//! policy says → a tainted session may call this tool → the request stands on the floor. So a call
//! that is refused for what it says is refused for that, tainted or not.

mod rules;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    digest::Digest,
    id::{ArgumentName, CredentialLabel, ToolName},
    json::Value,
    policy::{Authority, OnTaint, Policy},
    session::{Facts, Taint},
};

/// What was decided on a call.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Verdict {
    /// It may be performed.
    Allow(Allowed),
    /// It may not.
    Refuse(Refusal),
}

/// Proof that a call was allowed, and the only thing that a permit is made of. It carries the call
/// that was decided, so that what is performed cannot differ from what was judged.
///
/// ```compile_fail,E0451
/// # fn forge(call: gate::call::Call, digest: gate::digest::Digest) {
/// let forged = gate::decide::Allowed { call, digest, ..todo!() };
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Allowed {
    bytes: Vec<u8>,
    call: Call,
    credential: CredentialLabel,
    digest: Digest,
    grounds: Grounds,
    idempotent: bool,
    policy: Digest,
}

impl Allowed {
    /// The complete call, injected values in.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// The complete call in RFC 8785 form: what the vault gets beside the permit.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The tool.
    pub const fn tool(&self) -> &ToolName {
        &self.call.tool
    }

    /// The digest of the complete call.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The credential that it is performed with.
    pub const fn credential(&self) -> &CredentialLabel {
        &self.credential
    }

    /// Whether it may be repeated without another effect.
    pub const fn idempotent(&self) -> bool {
        self.idempotent
    }

    /// The policy that it was decided by.
    pub const fn policy(&self) -> Digest {
        self.policy
    }

    /// What the decision rests on.
    pub const fn grounds(&self) -> &Grounds {
        &self.grounds
    }
}

/// What an allowance rests on: enough to say later why.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grounds {
    /// Who supplied each argument of the call.
    pub arguments: BTreeMap<ArgumentName, Authority>,
    /// What the policy says of this tool in a tainted session.
    pub on_taint: OnTaint,
    /// Why the session was tainted; empty if it was not.
    pub taint: BTreeSet<Taint>,
}

/// A refusal, with a reason that the agent or the operator can act on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The rule.
    pub rule: Rule,
    /// The argument, if it is one that the policy names.
    pub argument: Option<ArgumentName>,
    /// Why, and what to do. Never repeats more than [`crate::excerpt::EXCERPT_MAX`] bytes of what
    /// the agent wrote, escaped.
    pub why: String,
}

/// The rules, in the order in which they are asked. The names are stable.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The tool's name is registered, byte for byte.
    UnknownTool,
    /// The call carries exactly the arguments that the agent may author.
    Arguments,
    /// Each argument has its type.
    Type,
    /// Each argument is within its bounds.
    Bounds,
    /// What must be a trusted value is it.
    TrustedValue,
    /// What must be of an owned set is of it.
    OwnedSet,
    /// A tainted session calls only what its policy lets it.
    Taint,
    /// The call has a request, and it stands on the credential's floor.
    Request,
}

impl Rule {
    /// The rule's stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::Arguments => "arguments",
            Self::Type => "type",
            Self::Bounds => "bounds",
            Self::TrustedValue => "trusted_value",
            Self::OwnedSet => "owned_set",
            Self::Taint => "taint",
            Self::Request => "request",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides on the call of `tool` with `arguments`, as the agent wrote them. Total and
/// deterministic. Every rule is asked before anything is allowed, and the first that says no is
/// the answer.
pub fn decide(policy: &Policy, facts: &Facts, tool: &str, arguments: &Value) -> Verdict {
    match rules::allow(policy, facts, tool, arguments) {
        Ok(allowed) => Verdict::Allow(allowed),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

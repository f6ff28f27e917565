//! The rules, by their names.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The rules, in the order in which they are asked. The names are stable.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The tool's name is registered, byte for byte.
    UnknownTool,
    /// What the session has seen is remembered whole.
    Saturated,
    /// The call carries exactly the arguments that the agent may author.
    Arguments,
    /// The call carries the arguments of its branch alone.
    Branch,
    /// Each argument has its type.
    Type,
    /// Each argument is within its bounds.
    Bounds,
    /// What must be a trusted value is it.
    TrustedValue,
    /// What must be of an owned set is of it.
    OwnedSet,
    /// What must be named in a catalogue is, once.
    Catalogue,
    /// The task needs the tool, and not more of it.
    Scope,
    /// Somebody other than the agent vouches for what the call means.
    Meaning,
    /// A tainted session calls only what its policy lets it.
    Taint,
    /// In a tainted session each value comes from where the policy says.
    Origin,
    /// In a tainted session so does each address and link of what leaves.
    Links,
    /// In a tainted session the person's words ask for it.
    AskedBy,
    /// In a tainted session something in a call that changes something shows whose will it is.
    Anchor,
    /// In a tainted session a call of a gated class needs its release.
    WriteGate,
    /// The session has a role that the tool needs.
    Role,
    /// The tool reaches no further than the session.
    Boundary,
    /// The call goes to whom the tool may go.
    Recipients,
    /// The tool is not called too often in a while.
    Rate,
    /// The tool is not called too often, or for too much, in all.
    Total,
    /// The call has a request, and it stands on the credential's floor.
    Request,
    /// No reviewer refused exactly this call before.
    Reviewer,
    /// A person confirms what the policy says a person confirms.
    Confirmation,
    /// What is decided at the end of the turn waits for it.
    Turn,
    /// Of a result only what the policy says reaches the agent.
    Limits,
    /// The operator's own rules say nothing against it.
    Operator,
}

impl Rule {
    /// The rule's stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::Saturated => "saturated",
            Self::Arguments => "arguments",
            Self::Branch => "branch",
            Self::Type => "type",
            Self::Bounds => "bounds",
            Self::TrustedValue => "trusted_value",
            Self::OwnedSet => "owned_set",
            Self::Catalogue => "catalogue",
            Self::Scope => "scope",
            Self::Meaning => "meaning",
            Self::Taint => "taint",
            Self::Origin => "origin",
            Self::Links => "links",
            Self::AskedBy => "asked_by",
            Self::Anchor => "anchor",
            Self::WriteGate => "write_gate",
            Self::Role => "role",
            Self::Boundary => "boundary",
            Self::Recipients => "recipients",
            Self::Rate => "rate",
            Self::Total => "total",
            Self::Request => "request",
            Self::Reviewer => "reviewer",
            Self::Confirmation => "confirmation",
            Self::Turn => "turn",
            Self::Limits => "limits",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

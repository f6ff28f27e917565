//! What an MCP tool says of itself in its annotations: held against what is known, and never a proof.

use gate::{json::Value, policy::Risk};
use serde::Serialize;

use super::tier::Tier;
use crate::input::Tool;

/// One annotation, held against what is known. Always an unverified hint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assessment {
    /// Its key: foreign text where it is none of MCP's.
    pub hint: String,
    /// What it says.
    pub says: Says,
    /// How that stands to what is known.
    pub standing: Standing,
    /// Against what it was held.
    pub against: Against,
}

/// What an annotation says.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// `false`.
    No,
    /// Neither `true` nor `false`.
    Other,
    /// `true`.
    Yes,
}

/// How an annotation stands to what is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It says otherwise.
    Conflict,
    /// It says the same.
    Consistent,
    /// It has no meaning beside the others (MCP: `destructiveHint` and `idempotentHint` of a tool that only reads).
    Inapplicable,
    /// Nothing is known that it could be held against.
    Unresolved,
}

impl Standing {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Consistent => "consistent",
            Self::Inapplicable => "inapplicable",
            Self::Unresolved => "unresolved",
        }
    }
}

/// Against what an annotation was held.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// Arguments that reach out of the host: addresses, hosts, numbers.
    Arguments,
    /// A declaration.
    Declaration,
    /// The tool's name.
    Name,
    /// Nothing.
    Nothing,
}

impl Against {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Declaration => "declaration",
            Self::Name => "name",
            Self::Nothing => "nothing",
        }
    }
}

impl Says {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Other => "other",
            Self::Yes => "yes",
        }
    }
}

/// Whether a tool has an argument that reaches out of the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reach {
    NotSeen,
    Out,
}

/// The annotations of `tool`.
pub(super) fn of(tool: &Tool, declared: Tier, inferred: Tier, reach: Reach) -> Vec<Assessment> {
    let (tier, against) = match (declared, inferred) {
        (Tier::Known(_), _) => (declared, Against::Declaration),
        (Tier::Unknown, Tier::Known(_)) => (inferred, Against::Name),
        (Tier::Unknown, Tier::Unknown) => (Tier::Unknown, Against::Nothing),
    };
    let reads = tool.annotations.get("readOnlyHint") == Some(&Value::Bool(true));
    tool.annotations
        .iter()
        // What it is called, for people.
        .filter(|(key, value)| !(key.as_str() == "title" && matches!(value, Value::Text(_))))
        .map(|(key, value)| {
            let says = match value {
                Value::Bool(true) => Says::Yes,
                Value::Bool(false) => Says::No,
                Value::Int(_)
                | Value::List(_)
                | Value::Null
                | Value::Object(_)
                | Value::Real(_)
                | Value::Text(_) => Says::Other,
            };
            let standing = match (key.as_str(), says) {
                ("readOnlyHint", Says::Yes) => read_only(tier),
                ("readOnlyHint", Says::No) => not_read_only(tier),
                ("destructiveHint" | "idempotentHint", Says::Yes | Says::No) if reads => {
                    Standing::Inapplicable
                }
                ("destructiveHint", Says::Yes) => destructive(tier, against),
                ("destructiveHint", Says::No) => not_destructive(tier, against),
                ("openWorldHint", Says::Yes) if reach == Reach::Out => Standing::Consistent,
                ("openWorldHint", Says::No) if reach == Reach::Out => Standing::Conflict,
                (_, _) => Standing::Unresolved,
            };
            let against = match standing {
                Standing::Conflict | Standing::Consistent if key == "openWorldHint" => {
                    Against::Arguments
                }
                Standing::Conflict | Standing::Consistent => against,
                Standing::Inapplicable | Standing::Unresolved => Against::Nothing,
            };
            Assessment {
                hint: key.clone(),
                says,
                standing,
                against,
            }
        })
        .collect()
}

const fn read_only(tier: Tier) -> Standing {
    match tier {
        Tier::Known(Risk::Read) => Standing::Consistent,
        Tier::Known(Risk::Destructive | Risk::Execute | Risk::Financial | Risk::Write) => {
            Standing::Conflict
        }
        Tier::Unknown => Standing::Unresolved,
    }
}

const fn not_read_only(tier: Tier) -> Standing {
    match tier {
        Tier::Known(Risk::Read) => Standing::Conflict,
        Tier::Known(Risk::Destructive | Risk::Execute | Risk::Financial | Risk::Write) => {
            Standing::Consistent
        }
        Tier::Unknown => Standing::Unresolved,
    }
}

const fn destructive(tier: Tier, against: Against) -> Standing {
    match (tier, against) {
        (Tier::Known(Risk::Destructive), _) => Standing::Consistent,
        // A name that says "write" does not say that nothing is overwritten.
        (Tier::Known(Risk::Write), Against::Name) => Standing::Unresolved,
        (Tier::Known(Risk::Read | Risk::Write), _) => Standing::Conflict,
        // Both may destroy.
        (Tier::Known(Risk::Execute | Risk::Financial) | Tier::Unknown, _) => Standing::Unresolved,
    }
}

const fn not_destructive(tier: Tier, against: Against) -> Standing {
    match (tier, against) {
        (Tier::Known(Risk::Destructive), _) => Standing::Conflict,
        (Tier::Known(Risk::Write), Against::Name) => Standing::Unresolved,
        (Tier::Known(Risk::Read | Risk::Write), _) => Standing::Consistent,
        (Tier::Known(Risk::Execute | Risk::Financial) | Tier::Unknown, _) => Standing::Unresolved,
    }
}

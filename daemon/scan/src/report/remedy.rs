//! What to do about an argument.

use serde::Serialize;

use crate::{
    infer::{Authority, Confidence, Inferred},
    schema::Argument,
};

/// What to do.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Remedy {
    /// Whether it may be done as it is, or after a look.
    pub standing: Standing,
    /// The better way.
    pub preferred: Preferred,
    /// What else holds, best first: the authority that a policy gives the argument.
    pub fallback: Vec<Fallback>,
    /// The argument that it is done to, where this one stands inside it: a gate decides on whole arguments.
    pub applies_to: Option<String>,
}

/// Whether a remedy may be used as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It may.
    Recommended,
    /// A person looks first.
    ReviewFirst,
}

/// The better way.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preferred {
    /// Take the argument out of the schema that the model sees, and put its value in (`injected`).
    RemoveFromSchemaAndInject,
}

/// The authority that a policy gives an argument which stays in the schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// One of the operator's list.
    Catalogue,
    /// One of what the subject has.
    Owned,
    /// Exactly the application's value.
    Verified,
}

impl Fallback {
    /// Its word in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Catalogue => "catalogue",
            Self::Owned => "owned",
            Self::Verified => "verified",
        }
    }
}

impl Remedy {
    /// What to do about `argument`; none where anybody's words are meant to stand.
    pub(super) fn of(argument: &Argument, inferred: &Inferred, path: &str) -> Option<Self> {
        use Fallback::{Catalogue, Owned, Verified};
        match inferred.authority {
            Authority::Bounded | Authority::Payload => return None,
            Authority::Locked => {}
        }
        let chooses = inferred.reason.is_selector();
        let fallback = if chooses {
            vec![Owned, Verified, Catalogue]
        } else if argument.choice.is_some() {
            vec![Catalogue, Verified]
        } else {
            vec![Verified, Owned, Catalogue]
        };
        let first = |path: &str| path.split('/').nth(1).map(|step| format!("/{step}"));
        Some(Self {
            standing: match inferred.confidence {
                Confidence::High => Standing::Recommended,
                Confidence::Uncertain => Standing::ReviewFirst,
            },
            preferred: Preferred::RemoveFromSchemaAndInject,
            fallback,
            applies_to: if argument.is_nested() {
                first(path)
            } else {
                None
            },
        })
    }
}

//! What reading an effect back came to.

use serde::{Deserialize, Serialize};

use super::Why;

/// What reading back came to, in a word. The words are stable.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The target shows something else than the call says, or nothing.
    Mismatched,
    /// The target did not let us see.
    Unobservable,
    /// The tool has nothing to read it back by.
    Unsupported,
    /// The target shows what the call says.
    Verified,
    /// The read-back itself failed: it says nothing of the effect.
    VerifierFailure,
}

impl Finding {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mismatched => "mismatched",
            Self::Unobservable => "unobservable",
            Self::Unsupported => "unsupported",
            Self::Verified => "verified",
            Self::VerifierFailure => "verifier_failure",
        }
    }
}

/// What reading back came to. A status of 200 is none of these.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// In a word.
    pub finding: Finding,
    /// How often it was read.
    pub reads: u32,
    /// Why, where it is not verified.
    pub why: Option<Why>,
}

impl Verification {
    /// Of a tool that has nothing to read it back by, or of an effect that nobody claims.
    pub const UNSUPPORTED: Self = Self {
        finding: Finding::Unsupported,
        reads: 0,
        why: None,
    };

    /// Whether nothing was to be read.
    pub fn is_unsupported(&self) -> bool {
        self.finding == Finding::Unsupported
    }

    /// Why, or nothing.
    pub fn why(&self) -> &str {
        self.why.as_ref().map_or("", Why::as_str)
    }
}

impl Default for Verification {
    fn default() -> Self {
        Self::UNSUPPORTED
    }
}

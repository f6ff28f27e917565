//! What a person says to a call that is held: how often it may be performed, and the statement that he
//! signs where the policy wants his signature.
//!
//! An approval takes one thing away: that a call waits. What refuses a call refuses it approved or not.

mod base64;
mod needs;
mod sshsig;
mod statement;

use serde::{Deserialize, Serialize};

pub use needs::needs;
pub(crate) use needs::needs_of;
pub use sshsig::{KeyError, PublicKey, SshSigError, verify};
pub use statement::{Expect, FORMAT, LIFE_MAX, NAMESPACE, Statement, StatementError};

/// What it takes to let a held call through.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A reviewer's approval.
    Approval,
    /// A statement with a reviewer's signature: the vault itself verifies it.
    Signature,
}

impl Needs {
    /// The same in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Signature => "signature",
        }
    }
}

/// How far an approval goes. Never beyond its session.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Which calls.
    pub reach: Reach,
    /// Until when, exclusive, in milliseconds since 1970; without one, until the session ends.
    pub until: Option<u64>,
}

impl Scope {
    /// Exactly the call that was shown, once.
    pub const ONCE: Self = Self {
        reach: Reach::Once,
        until: None,
    };
}

/// Which calls an approval lets through.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Exactly the call that was shown, as often as the session makes it.
    Call,
    /// Exactly the call that was shown, once.
    Once,
    /// Calls of the same tool with the same value in every argument that is no payload: the same
    /// target, whatever is said there.
    Target,
}

impl Reach {
    /// The same in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Once => "once",
            Self::Target => "target",
        }
    }
}

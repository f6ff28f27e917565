//! What the lines of both chains say: a decision record for every outcome, an intent and a receipt
//! for every effect.
//!
//! What an agent, an application or a server wrote stands in them only as JSON strings, escaped as
//! RFC 8785 says.

mod decision;
mod effect;
mod stream;
mod verification;

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    chain::ChainName,
    digest::{Digest, Domain},
};

pub use decision::{Decision, Scene};
pub use effect::{Approval, Bound, Effect, Freshness, Outcome};
pub use stream::{Ended, Opening, Streamed};
pub use verification::{Finding, Verification};

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

/// A reviewer, as records name him.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewer {
    /// The fingerprint of the key that he signed with, by control's word: the receipt has the vault's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// His uid.
    pub uid: u32,
}

/// A statement that a reviewer signed, whole: whoever has his public key can verify it again.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SignedStatement {
    /// The statement's digest: what the permit and the receipt name.
    pub digest: Digest,
    /// The armoured signature (SSHSIG).
    pub signature: String,
    /// The statement, in RFC 8785 form.
    pub statement: String,
}

/// The digest of a result, as records and receipts name it.
pub fn result_digest(result: &[u8]) -> Digest {
    Digest::of(Domain::Result, result)
}

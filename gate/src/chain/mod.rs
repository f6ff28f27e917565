//! Append-only chains: each line bound to the one before by its digest, and signed by the next
//! checkpoint.
//!
//! A line is one JSON object in RFC 8785 form and a line feed. There are three kinds, and each names
//! its chain, the format, its position and the digest of the line before (`previous`):
//!
//! | kind | members besides | digest | position |
//! |---|---|---|---|
//! | record | `body`, `salt` | of its place and of its fields, each behind a salt ([`fields`]) | its own, from 1 |
//! | checkpoint | `checkpoint`, `signature` | of its bytes | of the record before it |
//! | keys | `keys`, `signatures` | of its bytes | of the record before it |
//!
//! A checkpoint is an in-toto statement about every record behind the checkpoint before it, signed as
//! DSSE wants it ([`statement`]). A record that no checkpoint follows is not signed, and the verifier
//! says which those are. At most [`GROUP_MAX`] records stand between two checkpoints.

mod checkpoint;
mod disclosed;
pub mod fields;
pub mod keys;
mod line;
mod sealed;
pub mod statement;
mod verify;

use alloc::vec::Vec;
use core::fmt;

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use crate::{
    digest::{Digest, Domain},
    json::Limits,
};

pub use checkpoint::{Checkpoint, Found, Lost, checkpoint};
pub use disclosed::Disclosed;
pub use line::{Salt, append, read_record, read_value, rests_on};
pub use sealed::{Opened, Sealed};
pub use verify::{BadLine, LineError, Seen, Verifier, Whole, verify};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// The longest line in bytes, its line feed not counted.
pub const LINE_MAX: usize = Limits::LINE.bytes;

/// The most records between two checkpoints: what a reader holds in memory, and what may stand at the
/// end without a signature.
pub const GROUP_MAX: usize = 256;

/// Which chain.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainName {
    /// The gate's decision records.
    Decisions,
    /// The vault's intents and receipts.
    Receipts,
}

impl ChainName {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Decisions, Self::Receipts];

    /// The chain's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Receipts => "receipts",
        }
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A record's place: its position, from 1, and its digest.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The record's digest.
    pub digest: Digest,
    /// Its position.
    pub position: u64,
}

impl Place {
    /// Before the first record.
    pub const START: Self = Self {
        digest: Digest::ZERO,
        position: 0,
    };
}

/// Where a chain ends: what the next line rests on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tip {
    /// The newest record.
    pub head: Place,
    /// The digest of the newest line: of that record, or of a line behind it that is signed itself.
    pub last: Digest,
}

impl Tip {
    /// Before the first line.
    pub const START: Self = Self {
        head: Place::START,
        last: Digest::ZERO,
    };

    /// Behind a line that is signed itself.
    fn behind(self, line: &[u8]) -> Self {
        Self {
            head: self.head,
            last: Digest::of(Domain::Signed, line),
        }
    }
}

/// The id of a key: how a signature names the key that made it.
pub fn key_id(key: &VerifyingKey) -> Digest {
    Digest::of(Domain::Key, key.as_bytes())
}

/// A signature in its one text form: 128 hexadecimal digits in lower case.
fn read_signature(text: &str) -> Option<ed25519_dalek::Signature> {
    let mut raw = [0; ed25519_dalek::Signature::BYTE_SIZE];
    hex::decode_to_slice(text, &mut raw).ok()?;
    (!text.bytes().any(|b| b.is_ascii_uppercase()))
        .then(|| ed25519_dalek::Signature::from_bytes(&raw))
}

fn with_line_feed(mut line: Vec<u8>) -> Vec<u8> {
    line.push(b'\n');
    line
}

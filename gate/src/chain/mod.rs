//! Append-only chains: each line signed, and bound to the one before by its digest.
//!
//! A line is one JSON object in RFC 8785 form and a line feed:
//! `{body, chain, format, key, position, previous, signature}`. The signature is Ed25519 (RFC 8032)
//! over the object without `signature`, behind a domain of its own; `previous` is the digest of
//! the whole line before, its signature included.

mod verify;

use alloc::{string::String, vec::Vec};
use core::fmt;

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::{
    digest::{Digest, Domain},
    json::{self, JsonError, Limits, Value},
    record::Body,
};

pub use verify::{BadLine, LineError, Verifier, Whole, verify};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// The longest line in bytes, its line feed not counted.
pub const LINE_MAX: usize = Limits::LINE.bytes;

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
    /// The chain's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Receipts => "receipts",
        }
    }

    /// Before what is signed, so that no line of one chain is one of the other.
    const fn domain(self) -> &'static [u8] {
        match self {
            Self::Decisions => b"custody decisions line v1\0",
            Self::Receipts => b"custody receipts line v1\0",
        }
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A line's place: its position, from 1, and its digest.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The line's digest.
    pub digest: Digest,
    /// Its position.
    pub position: u64,
}

impl Place {
    /// Before the first line.
    pub const START: Self = Self {
        digest: Digest::ZERO,
        position: 0,
    };
}

/// The id of a key: how a line names the key that signed it.
pub fn key_id(key: &VerifyingKey) -> Digest {
    Digest::of(Domain::Key, key.as_bytes())
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Unsigned {
    body: Value,
    chain: ChainName,
    format: u32,
    key: Digest,
    position: u64,
    previous: Digest,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    body: Value,
    chain: ChainName,
    format: u32,
    key: Digest,
    position: u64,
    previous: Digest,
    signature: String,
}

impl Unsigned {
    fn message(&self) -> Result<Vec<u8>, JsonError> {
        Ok([self.chain.domain(), &json::to_canonical(self)?].concat())
    }
}

/// The line with `body` behind `head`, its line feed included, and the new head.
///
/// # Errors
/// When the body has no RFC 8785 form within [`Limits::LINE`].
pub fn append<B: Body>(
    head: &Place,
    key: &SigningKey,
    body: &B,
) -> Result<(Vec<u8>, Place), JsonError> {
    let unsigned = Unsigned {
        body: json::to_value(body)?,
        chain: B::CHAIN,
        format: FORMAT,
        key: key_id(&key.verifying_key()),
        position: head.position.saturating_add(1),
        previous: head.digest,
    };
    let signature = key.sign(&unsigned.message()?);
    let mut line = json::to_canonical(&Signed {
        body: unsigned.body,
        chain: unsigned.chain,
        format: unsigned.format,
        key: unsigned.key,
        position: unsigned.position,
        previous: unsigned.previous,
        signature: hex::encode(signature.to_bytes()),
    })?;
    let place = Place {
        digest: Digest::of(Domain::Line, &line),
        position: unsigned.position,
    };
    line.push(b'\n');
    Ok((line, place))
}

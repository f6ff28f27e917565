//! Verifying a chain, line by line.

use alloc::vec::Vec;

use ed25519_dalek::{Signature, VerifyingKey};

use super::{ChainName, FORMAT, LINE_MAX, Place, Signed, Unsigned, key_id};
use crate::{
    digest::{Digest, Domain},
    json::{self, JsonError, Limits, Value},
    record::Body,
};

/// Why a line is not good.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LineError {
    /// The line is signed well and says what this version does not know.
    #[error("the body cannot be read: {0}")]
    Body(JsonError),
    /// A line of the other chain.
    #[error("the line is of chain `{found}`, not `{wanted}`")]
    Chain {
        /// Which it says.
        found: ChainName,
        /// Which it is in.
        wanted: ChainName,
    },
    /// A format that this version does not know.
    #[error("the line has format {found}; this version reads format {FORMAT}")]
    Format {
        /// Its format.
        found: u32,
    },
    /// Not of the form.
    #[error("the line cannot be read: {0}")]
    Json(JsonError),
    /// Signed with a key that is none of the chain's.
    #[error("the line names key {found}, which is not one of the chain's public keys")]
    Key {
        /// The key's id.
        found: Digest,
    },
    /// Longer than any line.
    #[error("the line is longer than {LINE_MAX} bytes")]
    Long,
    /// A line is missing, or stands twice.
    #[error("the line has position {found}, where {wanted} was due")]
    Position {
        /// Which it says.
        found: u64,
        /// Which was due.
        wanted: u64,
    },
    /// The line before is another than the one that this rests on.
    #[error("the line rests on another line before it: that one was changed")]
    Previous,
    /// The signature does not fit: the line was changed.
    #[error("the signature does not fit: the line was changed")]
    Signature,
}

/// Verifies a chain line by line.
#[derive(Clone, Debug)]
pub struct Verifier {
    chain: ChainName,
    head: Place,
    keys: Vec<VerifyingKey>,
}

impl Verifier {
    /// A verifier for the lines behind `head`, signed with one of `keys`.
    pub fn new(chain: ChainName, keys: &[VerifyingKey], head: Place) -> Self {
        Self {
            chain,
            head,
            keys: keys.to_vec(),
        }
    }

    /// The newest good line.
    pub const fn head(&self) -> Place {
        self.head
    }

    /// Verifies the next line, without its line feed, and says what stands in it.
    ///
    /// # Errors
    /// When the line is not the next good one. The head stays where it was.
    pub fn line<B: Body>(&mut self, line: &[u8]) -> Result<B, LineError> {
        if line.len() > LINE_MAX {
            return Err(LineError::Long);
        }
        // The format first, alone: a newer one may have another shape.
        let value = json::reparse(line, &Limits::LINE).map_err(LineError::Json)?;
        if let Value::Object(members) = &value
            && let Some(Value::Int(found)) = members.get("format")
            && let Ok(found) = u32::try_from(found.get())
            && found != FORMAT
        {
            return Err(LineError::Format { found });
        }
        let signed: Signed = json::from_canonical(line, &Limits::LINE).map_err(LineError::Json)?;
        if signed.chain != self.chain || B::CHAIN != self.chain {
            return Err(LineError::Chain {
                found: signed.chain,
                wanted: self.chain,
            });
        }
        let wanted = self.head.position.saturating_add(1);
        if signed.position != wanted {
            return Err(LineError::Position {
                found: signed.position,
                wanted,
            });
        }
        if signed.previous != self.head.digest {
            return Err(LineError::Previous);
        }
        let Some(key) = self.keys.iter().find(|it| key_id(it) == signed.key) else {
            return Err(LineError::Key { found: signed.key });
        };
        let signature = read_signature(&signed.signature).ok_or(LineError::Signature)?;
        let unsigned = Unsigned {
            body: signed.body,
            chain: signed.chain,
            format: signed.format,
            key: signed.key,
            position: signed.position,
            previous: signed.previous,
        };
        let message = unsigned.message().map_err(LineError::Json)?;
        key.verify_strict(&message, &signature)
            .map_err(|_not_signed| LineError::Signature)?;
        let body = json::canonical(&unsigned.body);
        let body = json::from_canonical(&body, &Limits::LINE).map_err(LineError::Body)?;
        self.head = Place {
            digest: Digest::of(Domain::Line, line),
            position: wanted,
        };
        Ok(body)
    }
}

fn read_signature(text: &str) -> Option<Signature> {
    let mut raw = [0; Signature::BYTE_SIZE];
    hex::decode_to_slice(text, &mut raw).ok()?;
    (!text.bytes().any(|b| b.is_ascii_uppercase())).then(|| Signature::from_bytes(&raw))
}

/// A chain that verifies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Whole {
    /// The newest line.
    pub head: Place,
    /// How many bytes stand behind the last line feed: a line that was being written when the
    /// power went. They are no part of the chain.
    pub partial_tail: usize,
}

/// The first bad line of a text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {number} (position {position} was due): {why}")]
pub struct BadLine {
    /// Which line of the text, from 1.
    pub number: usize,
    /// Which position was due.
    pub position: u64,
    /// Why it is bad.
    pub why: LineError,
}

/// Verifies the lines of `text` behind `head`, calling `seen` with each line's place and body.
///
/// # Errors
/// When a line is not good: the first one, and why.
pub fn verify<B: Body>(
    keys: &[VerifyingKey],
    head: Place,
    text: &[u8],
    mut seen: impl FnMut(Place, B),
) -> Result<Whole, BadLine> {
    let mut verifier = Verifier::new(B::CHAIN, keys, head);
    let mut partial_tail = 0;
    for (index, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            partial_tail = line.len();
            break;
        };
        let position = verifier.head().position.saturating_add(1);
        let body = verifier.line(line).map_err(|why| BadLine {
            number: index.saturating_add(1),
            position,
            why,
        })?;
        seen(verifier.head(), body);
    }
    Ok(Whole {
        head: verifier.head(),
        partial_tail,
    })
}

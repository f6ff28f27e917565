//! Verifying a chain, line by line.

use alloc::{boxed::Box, vec::Vec};

use ed25519_dalek::VerifyingKey;

use super::{
    ChainName, FORMAT, GROUP_MAX, LINE_MAX, Place, Tip,
    checkpoint::{self, Checkpoint, statement_of},
    keys::{self, KeyChange, Keyring},
    line::{self, Header},
    read_signature, statement,
};
use crate::{
    digest::Digest,
    json::{self, JsonError},
    mutant::Mutant,
    record::Body,
};

/// Why a line is not good.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LineError {
    /// The line is of the form and says what this version does not know.
    #[error("the body cannot be read: {0}")]
    Body(JsonError),
    /// The instance did not sign it.
    #[error("the certificate of key {key} is not signed by the instance's key that it names")]
    Certificate {
        /// The id of the certified key.
        key: Digest,
    },
    /// A line of the other chain.
    #[error("the line is of chain `{found}`, not `{wanted}`")]
    Chain {
        /// Which it says.
        found: ChainName,
        /// Which it is in.
        wanted: ChainName,
    },
    /// A checkpoint that is of another place.
    #[error(
        "the checkpoint is of position {found}, and stands behind position {wanted}, or the record there was changed"
    )]
    Checkpoint {
        /// Which it says.
        found: u64,
        /// Behind which it stands.
        wanted: u64,
    },
    /// A checkpoint of another epoch than the chain is in.
    #[error("the checkpoint is of key epoch {found}, where {wanted} was due")]
    Epoch {
        /// Which it says.
        found: u64,
        /// Which was due.
        wanted: u64,
    },
    /// A format that this version does not know.
    #[error("the line has format {found}; this version reads format {FORMAT}")]
    Format {
        /// Its format.
        found: i64,
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
    #[error(
        "the line rests on another line before it: one of the two was changed, moved or left out"
    )]
    Previous,
    /// A key that another has replaced.
    #[error("the checkpoint is signed by key {found}; key {wanted} signs here")]
    Replaced {
        /// Which signed.
        found: Digest,
        /// Which does.
        wanted: Digest,
    },
    /// A key that was revoked.
    #[error("key {key} was revoked, and counts only up to position {until}")]
    Revoked {
        /// The key's id.
        key: Digest,
        /// Up to where it counts.
        until: u64,
    },
    /// A change of keys that is none.
    #[error("the change of keys is not good: {why}")]
    Rotation {
        /// Why.
        why: &'static str,
    },
    /// The signature does not fit.
    #[error(
        "the checkpoint's signature does not fit: it, or a record behind the checkpoint before it, was changed"
    )]
    Signature,
    /// More records without a checkpoint than any writer leaves.
    #[error("more than {GROUP_MAX} records stand without a checkpoint: one was left out")]
    Unsigned,
}

/// What a line turned out to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Seen<B> {
    /// Every record up to here is signed.
    Checkpoint(Checkpoint),
    /// Keys changed.
    Keys(Box<KeyChange>),
    /// A record. It is signed when a checkpoint follows.
    Record(B),
}

/// Verifies a chain line by line.
#[derive(Clone, Debug)]
pub struct Verifier {
    chain: ChainName,
    tip: Tip,
    ring: Keyring,
    /// Up to where records are signed.
    signed: Place,
    /// The records behind that.
    group: Vec<Place>,
    /// Which key signs, and its epoch, as far as that was seen.
    current: Option<(Digest, u64)>,
}

impl Verifier {
    /// A verifier for a chain from its first line on.
    pub const fn new(chain: ChainName, ring: Keyring) -> Self {
        Self {
            chain,
            tip: Tip::START,
            ring,
            signed: Place::START,
            group: Vec::new(),
            current: None,
        }
    }

    /// A verifier for the lines of a file that is not the first, of which `line` is the first: a checkpoint
    /// of no record, which says by itself what it rests on.
    ///
    /// # Errors
    /// When it is no such checkpoint, or not signed.
    pub fn behind(chain: ChainName, ring: Keyring, line: &[u8]) -> Result<Self, LineError> {
        let members = line::members(line)?;
        if !members.contains_key("checkpoint") {
            return Err(line::shape(
                "the first line of a file behind the first is a checkpoint",
            ));
        }
        let read = checkpoint::read(members)?;
        let head = read.says.head;
        let mut verifier = Self::new(chain, ring);
        verifier.tip = Tip {
            head,
            last: read.header.previous,
        };
        verifier.signed = head;
        verifier.checkpoint(&read, line)?;
        Ok(verifier)
    }

    /// The newest good record.
    pub const fn head(&self) -> Place {
        self.tip.head
    }

    /// What the next line rests on.
    pub const fn tip(&self) -> Tip {
        self.tip
    }

    /// The newest record that a checkpoint covers.
    pub const fn signed(&self) -> Place {
        self.signed
    }

    /// The records behind it.
    pub fn unsigned(&self) -> &[Place] {
        &self.group
    }

    /// The id of the key that signs the chain, and its epoch, as far as a line said it.
    pub const fn current(&self) -> Option<(Digest, u64)> {
        self.current
    }

    /// The keys that count, those of the lines so far included.
    pub const fn ring(&self) -> &Keyring {
        &self.ring
    }

    /// Verifies the next line, without its line feed, and says what stands in it.
    ///
    /// # Errors
    /// When the line is not the next good one. The verifier stays where it was.
    pub fn line<B: Body>(&mut self, line: &[u8]) -> Result<Seen<B>, LineError> {
        let members = line::members(line)?;
        if members.contains_key("checkpoint") {
            let read = checkpoint::read(members)?;
            self.checkpoint(&read, line)?;
            return Ok(Seen::Checkpoint(read.says));
        }
        if members.contains_key("keys") {
            let read = keys::read(members)?;
            self.follows(read.header, self.tip.head.position)?;
            let mut ring = self.ring.clone();
            let changed = read.heed(&mut ring, self.current)?;
            self.ring = ring;
            self.current = changed.or(self.current);
            self.tip = self.tip.behind(line);
            return Ok(Seen::Keys(Box::new(read.change)));
        }
        let record = line::record(line, members)?;
        if B::CHAIN != self.chain {
            return Err(LineError::Chain {
                found: record.header.chain,
                wanted: B::CHAIN,
            });
        }
        self.follows(record.header, self.tip.head.position.saturating_add(1))?;
        if self.group.len() >= GROUP_MAX {
            return Err(LineError::Unsigned);
        }
        let body = json::from_part(record.bytes).map_err(LineError::Body)?;
        self.group.push(record.place);
        self.tip = Tip {
            head: record.place,
            last: record.place.digest,
        };
        Ok(Seen::Record(body))
    }

    fn checkpoint(&mut self, read: &checkpoint::Read, line: &[u8]) -> Result<(), LineError> {
        let says = &read.says;
        if read.header.chain == self.chain && says.head.position != read.header.position {
            return Err(line::shape("a checkpoint has the position of its head"));
        }
        if read.header.chain == self.chain && says.head != self.tip.head {
            return Err(LineError::Checkpoint {
                found: says.head.position,
                wanted: self.tip.head.position,
            });
        }
        self.follows(read.header, self.tip.head.position)?;
        if let Some((key, epoch)) = self.current {
            if says.key != key {
                // Only one that is known can have been replaced.
                let _known = self.ring.find(says.key, says.head.position)?;
                return Err(LineError::Replaced {
                    found: says.key,
                    wanted: key,
                });
            }
            if says.epoch != epoch {
                return Err(LineError::Epoch {
                    found: says.epoch,
                    wanted: epoch,
                });
            }
        }
        if says.since != self.signed.position || says.synced > says.since {
            return Err(line::shape(
                "a checkpoint says where the one before it was, and that no more was on disk",
            ));
        }
        let key = self.ring.find(says.key, says.head.position)?;
        if !is_signed(read, &self.group, key) && !Mutant::LedgerCheckpointSignature.is_on() {
            return Err(LineError::Signature);
        }
        self.current = Some((says.key, says.epoch));
        self.signed = says.head;
        self.group.clear();
        self.tip = self.tip.behind(line);
        Ok(())
    }

    /// Whether a line is the next one.
    fn follows(&self, header: Header, wanted: u64) -> Result<(), LineError> {
        if header.chain != self.chain {
            return Err(LineError::Chain {
                found: header.chain,
                wanted: self.chain,
            });
        }
        if header.position != wanted {
            return Err(LineError::Position {
                found: header.position,
                wanted,
            });
        }
        if header.previous != self.tip.last && !Mutant::LedgerChainLink.is_on() {
            return Err(LineError::Previous);
        }
        Ok(())
    }

    /// What checkpoints say that stand in `bytes` and are signed, though what they rest on may not be
    /// there: how far the chain once went, and how far it was on disk.
    pub fn signed_in(&self, bytes: &[u8]) -> Vec<Checkpoint> {
        let lines = checkpoint::checkpoints_in(self.chain, bytes);
        let read = lines
            .iter()
            .filter_map(|line| checkpoint::read(line::members(line).ok()?).ok());
        // Its subjects are not known where records are gone, so that the statement cannot be made again:
        // that a key of the chain is named, and a place that is not here, must do.
        read.filter(|it| {
            it.header.chain == self.chain && it.says.head.position > self.signed.position
        })
        .filter(|it| self.ring.find(it.says.key, it.says.head.position).is_ok())
        .map(|it| it.says)
        .collect()
    }
}

fn is_signed(read: &checkpoint::Read, group: &[Place], key: &VerifyingKey) -> bool {
    let Some(signature) = read_signature(&read.signature) else {
        return false;
    };
    statement_of(read.header, &read.says, group)
        .is_ok_and(|body| statement::is_signed(&body, key, &signature))
}

/// A chain that verifies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Whole {
    /// The newest record.
    pub head: Place,
    /// The newest record that a checkpoint covers.
    pub signed: Place,
    /// How many bytes stand behind the last line feed: a line that was being written when the
    /// power went. They are no part of the chain.
    pub partial_tail: usize,
}

/// The first bad line of a text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {number} (behind position {behind}): {why}")]
pub struct BadLine {
    /// Which line of the text, from 1.
    pub number: usize,
    /// The position of the last good record.
    pub behind: u64,
    /// Why it is bad.
    pub why: LineError,
}

/// Verifies the lines of `text`, a chain from its first line on, calling `seen` with each record's place
/// and body.
///
/// # Errors
/// When a line is not good: the first one, and why.
pub fn verify<B: Body>(
    keys: &[VerifyingKey],
    text: &[u8],
    mut seen: impl FnMut(Place, B),
) -> Result<Whole, BadLine> {
    let mut verifier = Verifier::new(B::CHAIN, Keyring::of(keys));
    let mut partial_tail = 0;
    for (index, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            partial_tail = line.len();
            break;
        };
        match verifier.line(line) {
            Ok(Seen::Record(body)) => seen(verifier.head(), body),
            Ok(Seen::Checkpoint(_) | Seen::Keys(_)) => {}
            Err(why) => {
                return Err(BadLine {
                    number: index.saturating_add(1),
                    behind: verifier.head().position,
                    why,
                });
            }
        }
    }
    Ok(Whole {
        head: verifier.head(),
        signed: verifier.signed(),
        partial_tail,
    })
}

//! Checkpoints: one signature for every record since the one before.

use alloc::{
    borrow::ToOwned as _,
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use super::{
    ChainName, FORMAT, Place, Tip, key_id,
    line::{self, Header},
    statement::{self, Predicate},
    verify::LineError,
    with_line_feed,
};
use crate::{
    digest::Digest,
    json::{self, JsonError, Limits, Value},
};

/// What a checkpoint says: that every record up to `head` is the signer's.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Counts the chain's keys, from 1: which of them signs.
    pub epoch: u64,
    /// What a start found behind the last checkpoint; none where it found nothing to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// The newest record.
    pub head: Place,
    /// The id of the key that signs.
    pub key: Digest,
    /// The position of the checkpoint before: the records behind it are the statement's subjects.
    pub since: u64,
    /// Up to which position everything was on disk when this was signed. Damage up to there is no power
    /// cut's.
    pub synced: u64,
}

/// What a start found at the end of a chain and told in its first checkpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// So many whole records without a signature, which were kept: the start signed them, and cannot
    /// know more of them than that each rests on the one before.
    pub adopted: u64,
    /// So many bytes that were no whole record of the chain. They were cut off.
    pub dropped: u64,
    /// Records that a checkpoint had signed, and that were not whole: it was written, and its way to disk
    /// did not end. The bytes were set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
}

/// Records that are signed and not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// The newest of them, as its checkpoint names it; the first is the one behind the record that this
    /// checkpoint found.
    pub head: Place,
}

/// The checkpoint line behind `tip`, its line feed included, and the new tip. `group` are the records
/// behind the checkpoint before, `says` what it says of them.
///
/// # Errors
/// When a position is beyond what JSON can say.
pub fn checkpoint(
    chain: ChainName,
    tip: &Tip,
    says: &Checkpoint,
    group: &[Place],
    key: &SigningKey,
) -> Result<(Vec<u8>, Tip), JsonError> {
    let header = Header {
        chain,
        position: tip.head.position,
        previous: tip.last,
    };
    let Value::Object(mut members) = unsigned(header, says)? else {
        return Err(JsonError::NotCanonical);
    };
    let body = statement_of(header, says, group)?;
    let signature = Value::Text(statement::sign(&body, key));
    let _no_key_twice = members.insert("signature".into(), signature);
    let line = json::canonical(&Value::Object(members));
    let tip = tip.behind(&line);
    Ok((with_line_feed(line), tip))
}

impl Checkpoint {
    /// What `key` says at `head`.
    pub fn by(key: &SigningKey, epoch: u64, head: Place, since: u64, synced: u64) -> Self {
        Self {
            epoch,
            found: None,
            head,
            key: key_id(&key.verifying_key()),
            since,
            synced,
        }
    }
}

fn unsigned(header: Header, says: &Checkpoint) -> Result<Value, JsonError> {
    let position = json::to_value(&header.position)?;
    Ok(Value::Object(BTreeMap::from([
        ("chain".into(), Value::Text(header.chain.as_str().into())),
        ("checkpoint".into(), json::to_value(says)?),
        ("format".into(), json::to_value(&FORMAT)?),
        ("position".into(), position),
        ("previous".into(), Value::Text(header.previous.to_string())),
    ])))
}

/// The statement that a checkpoint signs. Where no record was added, its subject is the newest.
pub(super) fn statement_of(
    header: Header,
    says: &Checkpoint,
    group: &[Place],
) -> Result<Vec<u8>, JsonError> {
    let head = [says.head];
    let subjects = if group.is_empty() { &head } else { group };
    let named = subjects
        .iter()
        .map(|it| (format!("{}/{}", header.chain, it.position), it.digest));
    Ok(statement::statement(
        Predicate::Checkpoint,
        &unsigned(header, says)?,
        named,
    ))
}

/// A checkpoint's line, read: nothing is known yet of what it rests on, nor of its signature.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) header: Header,
    pub(super) says: Checkpoint,
    pub(super) signature: String,
}

pub(super) fn read(mut members: BTreeMap<String, Value>) -> Result<Read, LineError> {
    let header = line::header(&members)?;
    let (Some(says), Some(Value::Text(signature))) =
        (members.remove("checkpoint"), members.remove("signature"))
    else {
        return Err(line::shape("a checkpoint has a signature"));
    };
    if members.len() != KNOWN {
        return Err(line::shape("unknown field"));
    }
    let says = json::from_canonical(&json::canonical(&says), &Limits::LINE);
    Ok(Read {
        header,
        says: says.map_err(LineError::Json)?,
        signature,
    })
}

/// The members of a line that every kind has.
pub(super) const KNOWN: usize = 4;

/// The checkpoints of `chain` whose lines stand anywhere in `bytes`, whole: what a power cut or a hand
/// left of them. Nothing is known of what they rest on; each must be held against a key.
pub(super) fn checkpoints_in(chain: ChainName, bytes: &[u8]) -> Vec<Vec<u8>> {
    let begin = format!("{{\"chain\":\"{chain}\",\"checkpoint\":");
    let begin = begin.as_bytes();
    let mut found = Vec::new();
    // No string of a line has a quote that is not escaped: this is never inside of a record.
    for (at, window) in bytes.windows(begin.len()).enumerate() {
        if window == begin
            && let Some(rest) = bytes.get(at..)
        {
            let end = rest.iter().position(|b| *b == b'\n');
            let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            found.push(line.to_owned());
        }
    }
    found
}

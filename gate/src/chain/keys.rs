//! Whose signature counts: the keys that a reader trusts, and lines that change them.
//!
//! A chain is signed by one key at a time; keys are counted by *epochs*, from 1. A rotation is a line that
//! the old key and the new one have both signed: who trusts either trusts both, each for its own epoch.
//! A certificate is the instance's word for a key: who trusts the instance's key trusts it. A key that was
//! revoked counts up to a position and no further, whoever vouches for it.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use ed25519_dalek::{SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::{
    ChainName, FORMAT, Tip,
    checkpoint::KNOWN,
    key_id,
    line::{self, Header},
    read_signature,
    statement::{self, Predicate},
    verify::LineError,
    with_line_feed,
};
use crate::{
    digest::Digest,
    json::{self, JsonError, Limits, Value},
};

/// The keys that a reader trusts.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    keys: Vec<VerifyingKey>,
    instances: Vec<VerifyingKey>,
    revoked: Vec<Revoked>,
}

/// A key that no longer counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Revoked {
    /// Its id.
    pub key: Digest,
    /// The last position up to which what it signed counts.
    pub until: u64,
}

impl Keyring {
    /// Keys that sign a chain.
    pub fn of(keys: &[VerifyingKey]) -> Self {
        Self {
            keys: keys.to_vec(),
            ..Self::default()
        }
    }

    /// And keys that certify such keys.
    #[must_use]
    pub fn certified_by(mut self, instances: &[VerifyingKey]) -> Self {
        self.instances.extend_from_slice(instances);
        self
    }

    /// And those of them that were revoked.
    #[must_use]
    pub fn without(mut self, revoked: &[Revoked]) -> Self {
        self.revoked.extend_from_slice(revoked);
        self
    }

    /// Whether there is no key at all.
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.instances.is_empty()
    }

    /// The key with this id, for a signature at `position`.
    pub(super) fn find(&self, id: Digest, position: u64) -> Result<&VerifyingKey, LineError> {
        let Some(key) = self.keys.iter().find(|it| key_id(it) == id) else {
            return Err(LineError::Key { found: id });
        };
        match self.revoked.iter().find(|it| it.key == id) {
            Some(revoked) if position > revoked.until => Err(LineError::Revoked {
                key: id,
                until: revoked.until,
            }),
            Some(_) | None => Ok(key),
        }
    }

    /// Whether keys count that one of its instances certifies.
    pub const fn has_instances(&self) -> bool {
        !self.instances.is_empty()
    }

    /// Learns the key that `line` certifies for `chain`, where it is a certificate by one of the instances. A
    /// certificate says whose a key is, not since when: what the key signed before that line counts as well.
    pub fn learn_from(&mut self, chain: ChainName, line: &[u8]) {
        let read = line::members(line).and_then(read);
        if let Ok(Read {
            change: KeyChange::Certified(certificate),
            ..
        }) = read
            && certificate.says.role.signs(chain)
            && self
                .instance_of(&certificate)
                .is_some_and(|it| certificate.is_by(it))
        {
            self.learn(*certificate.says.key.key());
        }
    }

    fn instance_of(&self, certificate: &Certificate) -> Option<&VerifyingKey> {
        let wanted = certificate.says.instance;
        self.instances.iter().find(|it| key_id(it) == wanted)
    }

    fn learn(&mut self, key: VerifyingKey) {
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }
}

/// A public key: 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Digest", into = "Digest")]
pub struct PublicKey(VerifyingKey);

/// Why a text is not a [`PublicKey`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("it is not an Ed25519 public key")]
pub struct NotAPoint;

impl PublicKey {
    /// The public half of `key`.
    pub fn of(key: &SigningKey) -> Self {
        Self(key.verifying_key())
    }

    /// Its id.
    pub fn id(&self) -> Digest {
        key_id(&self.0)
    }

    /// The key itself.
    pub const fn key(&self) -> &VerifyingKey {
        &self.0
    }
}

impl From<VerifyingKey> for PublicKey {
    fn from(key: VerifyingKey) -> Self {
        Self(key)
    }
}

impl From<PublicKey> for Digest {
    fn from(key: PublicKey) -> Self {
        // 32 bytes in 64 digits: the same text form.
        Self::from_bytes(*key.0.as_bytes())
    }
}

impl TryFrom<Digest> for PublicKey {
    type Error = NotAPoint;

    fn try_from(digits: Digest) -> Result<Self, NotAPoint> {
        VerifyingKey::from_bytes(digits.as_bytes())
            .map(Self)
            .map_err(|_not_a_point| NotAPoint)
    }
}

/// What a line says about keys.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyChange {
    /// The instance vouches for a key.
    Certified(Certificate),
    /// From here on another key signs this chain.
    Rotated(Rotation),
}

/// Another key signs from here on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// The new key's epoch: one more than the old one's.
    pub epoch: u64,
    /// The new key.
    pub new: PublicKey,
    /// The old key.
    pub old: PublicKey,
}

/// The instance's word for a key.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Which.
    pub says: Certified,
    /// By the instance's key, over the statement that it makes.
    pub signature: String,
}

/// What a certificate says.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Certified {
    /// When, in milliseconds since 1970: for readers.
    pub at: u64,
    /// The id of the instance's key.
    pub instance: Digest,
    /// The key.
    pub key: PublicKey,
    /// What it signs.
    pub role: Role,
}

/// What a key signs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The decision records.
    Decisions,
    /// Permits, for one run of the gate.
    Permit,
    /// Intents and receipts.
    Receipts,
}

impl Role {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Permit => "permit",
            Self::Receipts => "receipts",
        }
    }

    /// Whether a key of this role signs `chain`.
    pub const fn signs(self, chain: ChainName) -> bool {
        matches!(
            (self, chain),
            (Self::Decisions, ChainName::Decisions) | (Self::Receipts, ChainName::Receipts)
        )
    }
}

impl Certified {
    fn statement(&self) -> Result<Vec<u8>, JsonError> {
        let subject = (format!("{} key", self.role.as_str()), self.key.id());
        let says = json::to_value(self)?;
        Ok(statement::statement(
            Predicate::Certificate,
            &says,
            [subject],
        ))
    }

    /// Certifies.
    ///
    /// # Errors
    /// When the time is beyond what JSON can say.
    pub fn sign(self, instance: &SigningKey) -> Result<Certificate, JsonError> {
        let signature = statement::sign(&self.statement()?, instance);
        Ok(Certificate {
            says: self,
            signature,
        })
    }
}

impl Certificate {
    /// Whether `instance` signed it.
    pub fn is_by(&self, instance: &VerifyingKey) -> bool {
        key_id(instance) == self.says.instance
            && match (self.says.statement(), read_signature(&self.signature)) {
                (Ok(body), Some(signature)) => statement::is_signed(&body, instance, &signature),
                _ => false,
            }
    }
}

/// The line that makes `new` the key of epoch `epoch`, behind `tip`, and the new tip.
///
/// # Errors
/// When the epoch is beyond what JSON can say.
pub fn rotate(
    chain: ChainName,
    tip: &Tip,
    epoch: u64,
    (old, new): (&SigningKey, &SigningKey),
) -> Result<(Vec<u8>, Tip), JsonError> {
    let change = KeyChange::Rotated(Rotation {
        epoch,
        new: PublicKey::of(new),
        old: PublicKey::of(old),
    });
    let header = Header {
        chain,
        position: tip.head.position,
        previous: tip.last,
    };
    let body = rotation_statement(header, &change)?;
    let signatures = [old, new].map(|key| statement::sign(&body, key));
    line_of(tip, header, &change, signatures.to_vec())
}

/// The line that keeps a certificate in the chain, and the new tip. It is signed with the next checkpoint.
///
/// # Errors
/// When a number is beyond what JSON can say.
pub fn certified(
    chain: ChainName,
    tip: &Tip,
    certificate: Certificate,
) -> Result<(Vec<u8>, Tip), JsonError> {
    let header = Header {
        chain,
        position: tip.head.position,
        previous: tip.last,
    };
    line_of(tip, header, &KeyChange::Certified(certificate), Vec::new())
}

fn line_of(
    tip: &Tip,
    header: Header,
    change: &KeyChange,
    signatures: Vec<String>,
) -> Result<(Vec<u8>, Tip), JsonError> {
    let Value::Object(mut members) = unsigned(header, change)? else {
        return Err(JsonError::NotCanonical);
    };
    let signatures = signatures.into_iter().map(Value::Text).collect();
    let _no_key_twice = members.insert("signatures".into(), Value::List(signatures));
    let line = json::canonical(&Value::Object(members));
    let tip = tip.behind(&line);
    Ok((with_line_feed(line), tip))
}

fn unsigned(header: Header, change: &KeyChange) -> Result<Value, JsonError> {
    Ok(Value::Object(BTreeMap::from([
        ("chain".into(), Value::Text(header.chain.as_str().into())),
        ("format".into(), json::to_value(&FORMAT)?),
        ("keys".into(), json::to_value(change)?),
        ("position".into(), json::to_value(&header.position)?),
        ("previous".into(), Value::Text(header.previous.to_string())),
    ])))
}

fn rotation_statement(header: Header, change: &KeyChange) -> Result<Vec<u8>, JsonError> {
    let subject = match change {
        KeyChange::Certified(certificate) => certificate.says.key.id(),
        KeyChange::Rotated(rotation) => rotation.new.id(),
    };
    let name = format!("{} key", header.chain);
    let says = unsigned(header, change)?;
    Ok(statement::statement(
        Predicate::Rotation,
        &says,
        [(name, subject)],
    ))
}

/// A line about keys, read: nothing is known yet of what it rests on, nor of its signatures.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) header: Header,
    pub(super) change: KeyChange,
    signatures: Vec<String>,
}

pub(super) fn read(mut members: BTreeMap<String, Value>) -> Result<Read, LineError> {
    let header = line::header(&members)?;
    let (Some(change), Some(Value::List(list))) =
        (members.remove("keys"), members.remove("signatures"))
    else {
        return Err(line::shape("a line about keys has signatures"));
    };
    if members.len() != KNOWN {
        return Err(line::shape("unknown field"));
    }
    let mut signatures = Vec::new();
    for it in list {
        let Value::Text(text) = it else {
            return Err(line::shape("a signature is a text"));
        };
        signatures.push(text);
    }
    let change = json::from_canonical(&json::canonical(&change), &Limits::LINE);
    Ok(Read {
        header,
        change: change.map_err(LineError::Json)?,
        signatures,
    })
}

impl Read {
    /// What `ring` is behind this line, of a chain that `current` signs, if that is known. Says which key
    /// signs from now on, where it changed.
    pub(super) fn heed(
        &self,
        ring: &mut Keyring,
        current: Option<(Digest, u64)>,
    ) -> Result<Option<(Digest, u64)>, LineError> {
        let position = self.header.position;
        match &self.change {
            KeyChange::Certified(certificate) => {
                if !self.signatures.is_empty() {
                    return Err(line::shape("a certificate has its signature inside"));
                }
                let says = &certificate.says;
                // An instance that the reader does not know is no fault: its word is not counted.
                if let Some(instance) = ring.instance_of(certificate) {
                    if !certificate.is_by(instance) {
                        return Err(LineError::Certificate { key: says.key.id() });
                    }
                    if says.role.signs(self.header.chain) {
                        ring.learn(*says.key.key());
                    }
                }
                Ok(None)
            }
            KeyChange::Rotated(rotation) => {
                let (old, new) = (rotation.old, rotation.new);
                if let Some((key, epoch)) = current
                    && (key != old.id() || epoch.checked_add(1) != Some(rotation.epoch))
                {
                    return Err(LineError::Rotation {
                        why: "it does not follow from the key that signs the chain",
                    });
                }
                // One of them has to be known; the other is by its signature.
                let known = ring
                    .find(old.id(), position)
                    .or_else(|_unknown| ring.find(new.id(), position));
                let _known: &VerifyingKey = known?;
                let body =
                    rotation_statement(self.header, &self.change).map_err(LineError::Json)?;
                let [by_old, by_new] = self.signatures.as_slice() else {
                    return Err(LineError::Rotation {
                        why: "it does not have two signatures",
                    });
                };
                let signed = |key: PublicKey, text: &str| {
                    read_signature(text)
                        .is_some_and(|it| statement::is_signed(&body, key.key(), &it))
                };
                if !signed(old, by_old) {
                    return Err(LineError::Rotation {
                        why: "the old key did not sign it",
                    });
                }
                if !signed(new, by_new) {
                    return Err(LineError::Rotation {
                        why: "the new key did not sign it",
                    });
                }
                ring.learn(*old.key());
                ring.learn(*new.key());
                Ok(Some((new.id(), rotation.epoch)))
            }
        }
    }
}

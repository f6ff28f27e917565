//! Records for others, each group with the envelope that signs it: one JSON object a line,
//! `{chain, envelope, format, records}`.
//!
//! `envelope` is a DSSE envelope whose payload is an in-toto statement; its subjects are the records of the
//! group by their digests, shown here or not. `records` are those that were asked for, each field with its salt or
//! withheld. Whoever has the public key sees that what is shown was written so, without the rest of the chain.

use base64ct::{Base64, Encoding as _};
use gate::{
    chain::{
        ChainName, Disclosed, LineError, Opened, Place, Sealed, keys::Keyring,
        statement::PAYLOAD_TYPE,
    },
    digest::Digest,
    json::{self, Limits},
};
use serde::{Deserialize, Serialize};

use crate::reader::{Entry, Group};

/// The form of a line.
pub const FORMAT: &str = "custody-export/1";

/// How many bytes of lines go into one line of an export: a field with its salt is some three times as long.
const PART_BYTES: usize = 2 << 20;

/// How long a line of an export may be.
pub const LIMITS: Limits = Limits {
    bytes: 32 << 20,
    depth: Limits::DEPTH_MAX,
    nodes: 4_000_000,
};

/// One group, for others.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    /// The chain.
    pub chain: ChainName,
    /// What signs the group.
    pub envelope: Envelope,
    /// [`FORMAT`].
    pub format: String,
    /// The records that are shown.
    pub records: Vec<Disclosed>,
}

/// A DSSE envelope (DSSE v1.0, "Envelope").
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    /// The statement, in base64.
    pub payload: String,
    /// [`PAYLOAD_TYPE`].
    pub payload_type: String,
    /// One.
    pub signatures: Vec<Signature>,
}

/// A signature of an envelope.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The id of the key.
    pub keyid: Digest,
    /// In base64.
    pub sig: String,
}

/// Why an export is not good.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It is of the other chain.
    #[error("the envelope is of chain `{found}`, and the line says `{says}`")]
    Chain {
        /// What the envelope says.
        found: ChainName,
        /// What the line says.
        says: ChainName,
    },
    /// Not of the form.
    #[error("it is not a line of an export: {why}")]
    Form {
        /// Why.
        why: String,
    },
    /// The statement is not signed, or not a checkpoint's.
    #[error("the envelope is not good: {0}")]
    Line(#[from] LineError),
    /// A record that the envelope does not sign.
    #[error("record {position} is not what the envelope signs: it was changed")]
    Record {
        /// Its position.
        position: u64,
    },
    /// A group that no checkpoint signs.
    #[error("records from {from} on are not signed yet; export them when a checkpoint follows")]
    Unsigned {
        /// The first.
        from: u64,
    },
}

/// What is withheld from others.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    fields: Vec<String>,
}

/// What says something of a call's content besides the content: digests that are taken without a salt, so that a value
/// of few could be tried out, and sentences that may repeat a value.
const OF_A_CALL: [&str; 11] = [
    "change",
    "digest",
    "effect.call",
    "grounds",
    "meaning",
    "outcome",
    "reasons",
    "signed",
    "statement",
    "taint",
    "why",
];

impl Redaction {
    /// Withholds these fields, each by its names joined by dots.
    pub fn of(fields: &[String]) -> Self {
        Self {
            fields: fields.to_vec(),
        }
    }

    fn is_of_a_call(field: &str) -> bool {
        matches!(field.split('.').next(), Some("call" | "arguments"))
    }

    /// Withholds them of a record. A part of a call takes with it whatever would say it in other words.
    pub fn apply(&self, record: &mut Disclosed) {
        for field in &self.fields {
            let _if_there = record.withhold(field);
            if Self::is_of_a_call(field) {
                for other in OF_A_CALL {
                    let _if_there = record.withhold(other);
                }
                // Where `call` is the digest of one.
                let is_digest = member_is_text(record, "call");
                if is_digest {
                    let _there = record.withhold("call");
                }
                // Where the same call stands whole under its other name.
                let rest = field.split_once('.').map(|(_first, rest)| rest);
                for whole in ["call", "arguments"] {
                    let same = match (whole, rest) {
                        (_, None) => whole.into(),
                        ("call", Some(rest)) if field.starts_with("arguments.") => {
                            format!("call.arguments.{rest}")
                        }
                        ("arguments", Some(rest)) => {
                            format!(
                                "arguments.{}",
                                rest.strip_prefix("arguments.").unwrap_or(rest)
                            )
                        }
                        _ => field.clone(),
                    };
                    let _if_there = record.withhold(&same);
                }
            }
        }
    }
}

fn member_is_text(record: &Disclosed, name: &str) -> bool {
    use gate::{chain::fields::Field, json::Value};

    let Field::Members(members) = &record.fields else {
        return false;
    };
    matches!(
        members.get(name),
        Some(Field::Shown {
            value: Value::Text(_),
            ..
        })
    )
}

impl Exported {
    /// Of a group, the records that are wanted: none, one or, where they are long, several, each with the same
    /// envelope.
    ///
    /// # Errors
    /// When the group is not signed.
    pub fn of(
        group: &Group,
        wanted: impl Fn(&Entry) -> bool,
        redaction: &Redaction,
    ) -> Result<Vec<Self>, ExportError> {
        let mut all: Vec<Vec<Disclosed>> = Vec::new();
        let mut chain = None;
        let mut bytes = usize::MAX;
        for entry in group.entries.iter().filter(|entry| wanted(entry)) {
            let Some(mut record) = Disclosed::of(&entry.line)? else {
                continue;
            };
            redaction.apply(&mut record);
            chain = Some(entry.chain);
            bytes = bytes.saturating_add(entry.line.len());
            match all.last_mut() {
                Some(records) if bytes < PART_BYTES => records.push(record),
                _ => {
                    bytes = entry.line.len();
                    all.push(vec![record]);
                }
            }
        }
        let (Some(chain), Some(first)) = (chain, all.first().and_then(|it| it.first())) else {
            return Ok(Vec::new());
        };
        let Some(sealed) = &group.sealed else {
            return Err(ExportError::Unsigned {
                from: first.position,
            });
        };
        let envelope = Envelope::of(sealed)?;
        let part = |records| Self {
            chain,
            envelope: envelope.clone(),
            format: FORMAT.into(),
            records,
        };
        Ok(all.into_iter().map(part).collect())
    }

    /// One line, without its line feed.
    ///
    /// # Errors
    /// Never: everything in it has a form.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a line.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(line: &[u8]) -> Result<Self, ExportError> {
        let form = |why: &dyn ToString| ExportError::Form {
            why: why.to_string(),
        };
        // With one meaning for every reader: no key twice.
        let _strict = json::parse(line, &LIMITS).map_err(|error| form(&error))?;
        let exported: Self = serde_json::from_slice(line).map_err(|error| form(&error))?;
        if exported.format != FORMAT {
            return Err(form(&format!("format `{}`", exported.format)));
        }
        Ok(exported)
    }

    /// Whether everything that is shown was written so by one of the keys: the records that the envelope
    /// signs, and for each that is shown what is withheld of it.
    ///
    /// # Errors
    /// When something was changed, or is not signed.
    pub fn verify(&self, ring: &Keyring) -> Result<Opened, ExportError> {
        let opened = self.envelope.sealed()?.open(ring)?;
        if opened.chain != self.chain {
            return Err(ExportError::Chain {
                found: opened.chain,
                says: self.chain,
            });
        }
        for record in &self.records {
            let place: Place = record.place();
            if record.chain != self.chain || !opened.records.contains(&place) {
                return Err(ExportError::Record {
                    position: record.position,
                });
            }
        }
        Ok(opened)
    }
}

impl Envelope {
    fn of(sealed: &Sealed) -> Result<Self, ExportError> {
        let mut raw = [0; 64];
        hex::decode_to_slice(&sealed.signature, &mut raw).map_err(|error| ExportError::Form {
            why: error.to_string(),
        })?;
        Ok(Self {
            payload: Base64::encode_string(&sealed.body),
            payload_type: PAYLOAD_TYPE.into(),
            signatures: vec![Signature {
                keyid: sealed.key,
                sig: Base64::encode_string(&raw),
            }],
        })
    }

    fn sealed(&self) -> Result<Sealed, ExportError> {
        let form = |why: &str| ExportError::Form { why: why.into() };
        if self.payload_type != PAYLOAD_TYPE {
            return Err(form("the payload's type is not in-toto's"));
        }
        let [signature] = self.signatures.as_slice() else {
            return Err(form("an envelope has one signature"));
        };
        let decode = |text: &str| Base64::decode_vec(text).map_err(|_no| form("it is not base64"));
        Ok(Sealed {
            body: decode(&self.payload)?,
            key: signature.keyid,
            signature: hex::encode(decode(&signature.sig)?),
        })
    }
}

//! A checkpoint apart from its chain: what it signs, for whoever has a record and not the lines around it.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{
    ChainName, Checkpoint, Place,
    checkpoint::{self, statement_of},
    keys::Keyring,
    line::{self, Header},
    read_signature,
    statement::{self, Predicate},
    verify::LineError,
};
use crate::{
    digest::Digest,
    json::{self, Limits, Value},
};

/// A checkpoint's statement and its signature, as a DSSE envelope has them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// The statement, in RFC 8785 form.
    pub body: Vec<u8>,
    /// The id of the key.
    pub key: Digest,
    /// 128 hexadecimal digits.
    pub signature: String,
}

/// What a checkpoint signs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Opened {
    /// Of which chain.
    pub chain: ChainName,
    /// What it says.
    pub says: Checkpoint,
    /// The digest of the line before it.
    pub previous: Digest,
    /// The records that it signs.
    pub records: Vec<Place>,
}

impl Sealed {
    /// Of a checkpoint's line and the records behind the checkpoint before it.
    ///
    /// # Errors
    /// When it is no checkpoint.
    pub fn of(line: &[u8], group: &[Place]) -> Result<Self, LineError> {
        let read = checkpoint::read(line::members(line)?)?;
        Ok(Self {
            body: statement_of(read.header, &read.says, group).map_err(LineError::Json)?,
            key: read.says.key,
            signature: read.signature,
        })
    }

    /// What it signs, if one of the keys did.
    ///
    /// # Errors
    /// When it is not a checkpoint's statement in its one form, or not signed.
    pub fn open(&self, ring: &Keyring) -> Result<Opened, LineError> {
        let Value::Object(mut members) =
            json::reparse(&self.body, &Limits::LINE).map_err(LineError::Json)?
        else {
            return Err(line::shape("a statement is an object"));
        };
        let uri = Value::Text(Predicate::Checkpoint.uri().into());
        if members.get("predicateType") != Some(&uri) {
            return Err(line::shape("the statement is not of a checkpoint"));
        }
        let (Some(Value::Object(predicate)), Some(Value::List(subjects))) =
            (members.remove("predicate"), members.remove("subject"))
        else {
            return Err(line::shape("a statement has a predicate and subjects"));
        };
        let header = line::header(&predicate)?;
        let says = predicate
            .get("checkpoint")
            .ok_or_else(|| line::shape("the predicate is a checkpoint"))?;
        let says: Checkpoint =
            json::from_canonical(&json::canonical(says), &Limits::LINE).map_err(LineError::Json)?;
        let records: Option<Vec<Place>> = subjects.iter().map(|it| subject(header, it)).collect();
        let records = records.ok_or_else(|| line::shape("a subject is not a record"))?;
        // Made again, it is the same: nothing else stands in it.
        let again = statement_of(header, &says, &records).map_err(LineError::Json)?;
        if again != self.body || says.key != self.key {
            return Err(line::shape(
                "the statement has another form than a checkpoint's",
            ));
        }
        let key = ring.find(says.key, says.head.position)?;
        let signed = read_signature(&self.signature)
            .is_some_and(|it| statement::is_signed(&self.body, key, &it));
        if !signed {
            return Err(LineError::Signature);
        }
        Ok(Opened {
            chain: header.chain,
            says,
            previous: header.previous,
            records,
        })
    }
}

fn subject(header: Header, value: &Value) -> Option<Place> {
    let Value::Object(members) = value else {
        return None;
    };
    let (Some(Value::Text(name)), Some(Value::Object(digests))) =
        (members.get("name"), members.get("digest"))
    else {
        return None;
    };
    let position = name.strip_prefix(&format!("{}/", header.chain))?;
    let position: u64 = position.parse().ok().filter(|it: &u64| {
        // One text for each number.
        it.to_string() == position
    })?;
    let Some(Value::Text(digest)) = digests.get("sha256") else {
        return None;
    };
    Some(Place {
        digest: Digest::try_from(digest.clone()).ok()?,
        position,
    })
}

//! A record for others to read: what is withheld of it is there by its digest, and its place verifies.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{
    ChainName, FORMAT, LineError, Place,
    fields::Field,
    line::{self, Header},
};
use crate::digest::Digest;

/// A record, each field shown with its salt or withheld.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disclosed {
    /// The chain that it stands in.
    pub chain: ChainName,
    /// What it says.
    pub fields: Field,
    /// The format of its line.
    pub format: u32,
    /// Its kind.
    pub kind: String,
    /// Its position.
    pub position: u64,
    /// The digest of the line before.
    pub previous: Digest,
}

impl Disclosed {
    /// The record of a line, everything shown. None for a line that is signed itself.
    ///
    /// # Errors
    /// When it is no line.
    pub fn of(line: &[u8]) -> Result<Option<Self>, LineError> {
        let members = line::members(line)?;
        if !members.contains_key("body") {
            return Ok(None);
        }
        let record = line::record(line, members)?;
        let (kind, said) =
            line::kind(&record.body).ok_or_else(|| line::shape("a record has one kind"))?;
        Ok(Some(Self {
            chain: record.header.chain,
            fields: Field::of(said, &record.salt),
            format: FORMAT,
            kind: kind.into(),
            position: record.header.position,
            previous: record.header.previous,
        }))
    }

    /// Its place, whatever is withheld.
    pub fn place(&self) -> Place {
        let header = Header {
            chain: self.chain,
            position: self.position,
            previous: self.previous,
        };
        header.place_of(&self.kind, self.fields.digest())
    }

    /// Withholds a field, its names joined by dots. False if the record has no such field.
    pub fn withhold(&mut self, field: &str) -> bool {
        let path: Vec<&str> = field.split('.').collect();
        self.fields.withhold(&path)
    }
}

//! Records: lines that are not signed themselves.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::{ChainName, FORMAT, LINE_MAX, LineError, Place, Tip, fields, with_line_feed};
use crate::{
    digest::{Digest, Domain},
    json::{self, JsonError, Limits, Value},
    nonce::{Nonce, NonceError},
    record::Body,
};

/// 16 random bytes that a record, or a field of it, is hidden behind. Drawn anew for each record; 32
/// hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Salt(pub [u8; Self::BYTES]);

impl Salt {
    /// What nobody tries out.
    pub const BYTES: usize = 16;
}

impl From<Salt> for String {
    fn from(salt: Salt) -> Self {
        Nonce(salt.0).into()
    }
}

impl TryFrom<String> for Salt {
    type Error = NonceError;

    fn try_from(text: String) -> Result<Self, NonceError> {
        Nonce::try_from(text).map(|nonce| Self(nonce.0))
    }
}

/// The line with `body` behind `tip`, its line feed included, and the new tip. `salt` is drawn at random
/// and used for no other record.
///
/// # Errors
/// When the body has no RFC 8785 form within [`Limits::LINE`].
pub fn append<B: Body>(tip: &Tip, salt: &Salt, body: &B) -> Result<(Vec<u8>, Tip), JsonError> {
    let body = json::to_value(body)?;
    let header = Header {
        chain: B::CHAIN,
        position: tip.head.position.saturating_add(1),
        previous: tip.last,
    };
    let place = header.place(&body, salt)?;
    let mut line = b"{\"body\":".to_vec();
    line.extend_from_slice(&json::canonical(&body));
    line.extend_from_slice(header.rest(salt).as_bytes());
    if line.len() > LINE_MAX {
        return Err(JsonError::Bytes {
            found: line.len(),
            most: LINE_MAX,
        });
    }
    let tip = Tip {
        head: place,
        last: place.digest,
    };
    Ok((with_line_feed(line), tip))
}

/// Where a record stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) chain: ChainName,
    pub(super) position: u64,
    pub(super) previous: Digest,
}

impl Header {
    /// What stands behind the body in the line.
    fn rest(self, salt: &Salt) -> String {
        let Self {
            chain,
            position,
            previous,
        } = self;
        let salt = String::from(*salt);
        format!(
            ",\"chain\":\"{chain}\",\"format\":{FORMAT},\"position\":{position},\"previous\":\"{previous}\",\"salt\":\"{salt}\"}}"
        )
    }

    fn place(self, body: &Value, salt: &Salt) -> Result<Place, JsonError> {
        let (kind, said) = kind(body).ok_or_else(|| JsonError::Shape {
            what: "a record is an object with one member, its kind".into(),
        })?;
        Ok(self.place_of(kind, fields::digest(said, salt)))
    }

    /// The place of a record of `kind` whose fields have this digest.
    pub(super) fn place_of(self, kind: &str, fields: Digest) -> Place {
        let Self {
            chain,
            position,
            previous,
        } = self;
        let header = Value::Object(BTreeMap::from([
            ("chain".into(), Value::Text(chain.as_str().into())),
            ("fields".into(), Value::Text(fields.to_string())),
            ("format".into(), Value::Text(FORMAT.to_string())),
            ("kind".into(), Value::Text(kind.into())),
            ("position".into(), Value::Text(position.to_string())),
            ("previous".into(), Value::Text(previous.to_string())),
        ]));
        Place {
            digest: Digest::of(Domain::Line, &json::canonical(&header)),
            position,
        }
    }
}

/// A record's kind, and what it says.
pub(super) fn kind(body: &Value) -> Option<(&str, &Value)> {
    let Value::Object(members) = body else {
        return None;
    };
    let mut members = members.iter();
    match (members.next(), members.next()) {
        (Some((kind, said)), None) => Some((kind, said)),
        _ => None,
    }
}

/// A record's line, read: nothing is known yet of what it rests on.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) header: Header,
    pub(super) body: Value,
    pub(super) salt: Salt,
    /// The body's bytes in the line.
    pub(super) bytes: &'a [u8],
    pub(super) place: Place,
}

/// A line as its members, its format looked at first: a newer one may have another shape.
pub(super) fn members(line: &[u8]) -> Result<BTreeMap<String, Value>, LineError> {
    if line.len() > LINE_MAX {
        return Err(LineError::Long);
    }
    let value = json::reparse(line, &Limits::LINE).map_err(LineError::Json)?;
    let Value::Object(members) = value else {
        return Err(shape("a line is an object"));
    };
    match members.get("format") {
        Some(Value::Int(found)) if found.get() == i64::from(FORMAT) => Ok(members),
        Some(Value::Int(found)) => Err(LineError::Format { found: found.get() }),
        _ => Err(shape("a line has a format, which is a number")),
    }
}

/// Reads a record of its members, all of which it needs.
pub(super) fn record<'a>(
    line: &'a [u8],
    mut members: BTreeMap<String, Value>,
) -> Result<Record<'a>, LineError> {
    let header = header(&members)?;
    let (Some(body), Some(Value::Text(salt))) = (members.remove("body"), members.remove("salt"))
    else {
        return Err(shape("a record has a body and a salt"));
    };
    let salt = Salt::try_from(salt).map_err(|error| shape(&error.to_string()))?;
    let place = header.place(&body, &salt).map_err(LineError::Json)?;
    // In RFC 8785 form the members stand in the order of their names: nothing is between.
    let bytes = line
        .strip_prefix(b"{\"body\":")
        .and_then(|rest| rest.strip_suffix(header.rest(&salt).as_bytes()))
        .ok_or_else(|| shape("unknown field"))?;
    Ok(Record {
        header,
        body,
        salt,
        bytes,
        place,
    })
}

/// Where a line of any kind says that it stands.
pub(super) fn header(members: &BTreeMap<String, Value>) -> Result<Header, LineError> {
    let chain = match members.get("chain") {
        Some(Value::Text(name)) => ChainName::ALL.into_iter().find(|it| it.as_str() == name),
        _ => None,
    };
    let position = match members.get("position") {
        Some(Value::Int(position)) => u64::try_from(position.get()).ok(),
        _ => None,
    };
    let previous = match members.get("previous") {
        Some(Value::Text(digest)) => Digest::try_from(digest.clone()).ok(),
        _ => None,
    };
    match (chain, position, previous) {
        (Some(chain), Some(position), Some(previous)) => Ok(Header {
            chain,
            position,
            previous,
        }),
        _ => Err(shape(
            "a line has a chain, a position and a digest `previous`",
        )),
    }
}

pub(super) fn shape(what: &str) -> LineError {
    LineError::Json(JsonError::Shape { what: what.into() })
}

/// The place of a record and what it says, of a line that was verified before. None for a line that is
/// signed itself.
///
/// # Errors
/// When it is no line.
pub fn read_record<B: Body>(line: &[u8]) -> Result<Option<(Place, B)>, LineError> {
    let members = members(line)?;
    if !members.contains_key("body") {
        return Ok(None);
    }
    let record = record(line, members)?;
    let body = json::from_part(record.bytes).map_err(LineError::Body)?;
    Ok(Some((record.place, body)))
}

/// Which line a line says that it rests on: the tip before it, with a head of which only the position is
/// known. Believed of the first line of a file alone, whose file before ends in a checkpoint.
pub fn rests_on(line: &[u8]) -> Option<Tip> {
    let members = members(line).ok()?;
    let header = header(&members).ok()?;
    let records = u64::from(members.contains_key("body"));
    let head = Place {
        digest: header.previous,
        position: header.position.checked_sub(records)?,
    };
    Some(Tip {
        head,
        last: header.previous,
    })
}

/// The kind of a record and its fields, of a line that was verified before. None for a line that is signed
/// itself.
///
/// # Errors
/// When it is no line.
pub fn read_value(line: &[u8]) -> Result<Option<(String, Value)>, LineError> {
    let mut members = members(line)?;
    let Some(Value::Object(body)) = members.remove("body") else {
        return Ok(None);
    };
    Ok(body.into_iter().next())
}

//! JSON with one meaning: strict in, RFC 8785 out.
//!
//! A call travels between our programs as its RFC 8785 bytes, and each program parses them again
//! with [`reparse`], which refuses whatever is not exactly what [`canonical`] would write. So there
//! is one digest and one meaning everywhere.
//!
//! Stricter than RFC 8259: duplicate keys, NUL and lone surrogates are refused; a number is an
//! [`Int`] (|n| ≤ 2^53−1; `1.0` is Int 1) or a [`Real`] that is not integral; −0 and |x| ≥ 2^53 are
//! refused, since I-JSON readers (RFC 7493, 2.2) do not agree on them.

mod number;
mod read;
mod write;

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

pub use number::{Int, Real};
pub use write::canonical;

/// A JSON value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// An integral number.
    Int(Int),
    /// An array.
    List(Vec<Value>),
    /// `null`.
    Null,
    /// An object; no key twice.
    Object(BTreeMap<String, Value>),
    /// A number that is not integral.
    Real(Real),
    /// A string without NUL.
    Text(String),
}

impl Value {
    /// What kind of value this is, in a word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "boolean",
            Self::Int(_) => "integer",
            Self::List(_) => "array",
            Self::Null => "null",
            Self::Object(_) => "object",
            Self::Real(_) => "number",
            Self::Text(_) => "string",
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bool(_)
            | Self::Int(_)
            | Self::List(_)
            | Self::Null
            | Self::Object(_)
            | Self::Real(_) => None,
        }
    }
}

/// How much a text may hold before it is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Most bytes of the text.
    pub bytes: usize,
    /// Most arrays and objects inside each other. Never more than [`Limits::DEPTH_MAX`] counts.
    pub depth: usize,
    /// Most values and keys.
    pub nodes: usize,
}

impl Limits {
    /// The arguments of a call: no more than the wire carries (`custody_wire::agent`).
    pub const CALL: Self = Self {
        bytes: 256 << 10,
        depth: 32,
        nodes: 10_000,
    };
    /// A line of the ledger: a refused call whole, and what stands around it.
    pub const LINE: Self = Self {
        bytes: 1 << 20,
        depth: Self::DEPTH_MAX,
        nodes: 100_000,
    };
    /// A compiled policy.
    pub const POLICY: Self = Self {
        bytes: 1 << 20,
        depth: Self::DEPTH_MAX,
        nodes: 100_000,
    };
    /// What an effect answered: no more than the wire carries (`custody_wire::agent`).
    pub const RESULT: Self = Self {
        bytes: 1 << 20,
        depth: Self::DEPTH_MAX,
        nodes: 100_000,
    };

    /// The deepest that any text may be: half of where `serde_json` itself stops (128), so that
    /// this limit is always the one that speaks.
    pub const DEPTH_MAX: usize = 64;
}

/// Why a text is not a [`Value`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JsonError {
    /// More bytes than the limit.
    #[error("json has {found} bytes; at most {most} are allowed")]
    Bytes {
        /// How many it has.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// More arrays and objects inside each other than the limit.
    #[error("json is nested deeper than {most} levels")]
    Depth {
        /// The limit.
        most: usize,
    },
    /// A key stands twice in one object.
    #[error("json has a key twice in one object")]
    DuplicateKey,
    /// A number of at least 2^53, or none that JSON can write.
    #[error("a number is not within -(2^53-1) to 2^53-1, where all readers agree")]
    Magnitude,
    /// −0.
    #[error("a number is -0, on which readers do not agree; write 0")]
    MinusZero,
    /// More values and keys than the limit.
    #[error("json has more than {most} values and keys")]
    Nodes {
        /// The limit.
        most: usize,
    },
    /// It is JSON, but not in the one form of RFC 8785.
    #[error("json is not in RFC 8785 form")]
    NotCanonical,
    /// A NUL in a string or a key.
    #[error("json has a NUL character in a string")]
    Nul,
    /// It is JSON, but not of the expected shape.
    #[error("json has another shape than expected: {what}")]
    Shape {
        /// What serde says.
        what: String,
    },
    /// Not JSON (RFC 8259): lone surrogates and bytes that are not UTF-8 included.
    #[error("not json: line {line}, column {column}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
}

/// An error, and where in the text it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Located {
    /// The error.
    pub error: JsonError,
    /// The value that it is in, as a JSON pointer (RFC 6901) of the text's own keys: foreign text.
    pub pointer: String,
}

/// Parses `bytes`, strictly.
///
/// # Errors
/// When `bytes` is not one JSON value by the rules of this module, or over a limit.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    parse_located(bytes, limits).map_err(|located| located.error)
}

/// As [`parse`], for a text that a person is told about: an error says where it is.
///
/// # Errors
/// As [`parse`].
pub fn parse_located(bytes: &[u8], limits: &Limits) -> Result<Value, Located> {
    read::parse(bytes, limits)
}

/// Parses `bytes`, which another program of ours says are in RFC 8785 form, and holds it to that.
///
/// # Errors
/// As [`parse`], and when `canonical(&parse(bytes))` differs from `bytes`.
pub fn reparse(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    let value = parse(bytes, limits)?;
    if canonical(&value) == bytes {
        Ok(value)
    } else {
        Err(JsonError::NotCanonical)
    }
}

/// `it` in RFC 8785 form. What it writes goes through [`parse`], so that it can be read back.
///
/// # Errors
/// When `it` does not serialise to a JSON value by the rules of this module.
pub fn to_canonical<T: Serialize>(it: &T) -> Result<Vec<u8>, JsonError> {
    Ok(canonical(&to_value(it)?))
}

/// `it` as a [`Value`].
///
/// # Errors
/// When `it` does not serialise to a JSON value by the rules of this module.
pub fn to_value<T: Serialize>(it: &T) -> Result<Value, JsonError> {
    let bytes = serde_json::to_vec(it).map_err(|error| shape(&error))?;
    parse(&bytes, &Limits::LINE)
}

/// Reads back what [`to_canonical`] wrote.
///
/// # Errors
/// As [`reparse`], and when the value is not a `T`.
pub fn from_canonical<T: DeserializeOwned>(bytes: &[u8], limits: &Limits) -> Result<T, JsonError> {
    reparse(bytes, limits)?;
    serde_json::from_slice(bytes).map_err(|error| shape(&error))
}

/// Reads a part of a text that was held to its RFC 8785 form already.
pub(crate) fn from_part<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(bytes).map_err(|error| shape(&error))
}

fn shape(error: &serde_json::Error) -> JsonError {
    JsonError::Shape {
        what: alloc::format!("{error}"),
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(it) => serializer.serialize_bool(*it),
            Self::Int(it) => serializer.serialize_i64(it.get()),
            Self::List(items) => serializer.collect_seq(items),
            Self::Null => serializer.serialize_unit(),
            Self::Object(members) => serializer.collect_map(members),
            Self::Real(it) => serializer.serialize_f64(it.get()),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::from_deserializer(deserializer)
    }
}

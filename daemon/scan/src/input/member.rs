//! The members of an object, each of the type that it must be.

use std::collections::BTreeMap;

use gate::json::Value;

use super::{Fault, refused::At};
use crate::pointer;

/// A JSON object.
pub(crate) type Object = BTreeMap<String, Value>;

/// `value` as an object.
pub(crate) fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Object, At> {
    match value {
        Value::Object(members) => Ok(members),
        other @ (Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Real(_)
        | Value::Text(_)) => Err(wrong("an object", other, at)),
    }
}

/// `value` as an array.
pub(crate) fn list<'a>(value: &'a Value, at: &str) -> Result<&'a [Value], At> {
    match value {
        Value::List(items) => Ok(items),
        other @ (Value::Bool(_)
        | Value::Int(_)
        | Value::Object(_)
        | Value::Null
        | Value::Real(_)
        | Value::Text(_)) => Err(wrong("an array", other, at)),
    }
}

/// `value` as a text.
pub(crate) fn text<'a>(value: &'a Value, at: &str) -> Result<&'a str, At> {
    match value {
        Value::Text(text) => Ok(text),
        other @ (Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Object(_)
        | Value::Null
        | Value::Real(_)) => Err(wrong("a string", other, at)),
    }
}

/// The text of a member that may be missing or null.
pub(crate) fn text_of(members: &Object, key: &str, at: &str) -> Result<Option<String>, At> {
    match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => text(value, &pointer::join(at, key)).map(|text| Some(text.to_owned())),
    }
}

fn wrong(wanted: &'static str, value: &Value, at: &str) -> At {
    let found = value.kind();
    (at.to_owned(), Fault::Type { wanted, found })
}

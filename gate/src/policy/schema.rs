//! What the agent is told of a tool's arguments: JSON Schema (2020-12).

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Kind, rules::Tool};
use crate::json::{self, Int, Value};

/// Only the arguments that the agent writes; nothing else is taken.
pub(super) fn input_schema(tool: &Tool) -> Vec<u8> {
    let in_call = || {
        tool.arguments
            .iter()
            .filter(|(_, it)| it.authority.in_call())
    };
    let properties = in_call()
        .map(|(name, argument)| {
            let mut schema = kind(&argument.kind);
            if !argument.description.is_empty() {
                schema.insert("description".into(), text(&argument.description));
            }
            (name.to_string(), Value::Object(schema))
        })
        .collect();
    let required = in_call()
        .filter(|(_, it)| !it.optional)
        .map(|(name, _)| text(name.as_str()))
        .collect();
    json::canonical(&Value::Object(BTreeMap::from([
        ("additionalProperties".into(), Value::Bool(false)),
        ("properties".into(), Value::Object(properties)),
        ("required".into(), Value::List(required)),
        ("type".into(), text("object")),
    ])))
}

fn kind(kind: &Kind) -> BTreeMap<String, Value> {
    let mut schema = BTreeMap::new();
    let word = match kind {
        Kind::Boolean => "boolean",
        Kind::Email { max_length } => {
            schema.insert("format".into(), text("email"));
            schema.insert("maxLength".into(), size(*max_length));
            "string"
        }
        Kind::Enum { one_of } => {
            let listed = one_of.iter().map(|it| text(it)).collect();
            schema.insert("enum".into(), Value::List(listed));
            "string"
        }
        Kind::Integer { max, min } => {
            schema.insert("maximum".into(), Value::Int(*max));
            schema.insert("minimum".into(), Value::Int(*min));
            "integer"
        }
        Kind::Number { max, min } => {
            for (key, bound) in [("maximum", max), ("minimum", min)] {
                if let Ok(bound) = Value::try_from(*bound) {
                    schema.insert(key.into(), bound);
                }
            }
            "number"
        }
        Kind::String {
            max_length,
            min_length,
        } => {
            schema.insert("maxLength".into(), size(*max_length));
            if *min_length > 0 {
                schema.insert("minLength".into(), size(*min_length));
            }
            "string"
        }
    };
    schema.insert("type".into(), text(word));
    schema
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn size(n: u32) -> Value {
    Int::new(n.into()).map_or(Value::Null, Value::Int)
}

//! What the agent is told of a tool's arguments: JSON Schema (2020-12).

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Kind, Tool};
use crate::{
    id::ArgumentName,
    json::{self, Int, Value},
};

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
    // Where a selector says which arguments a call takes, only its own is in each.
    let needed = |name: &ArgumentName| {
        tool.selector
            .iter()
            .flat_map(|it| it.cases.values())
            .all(|branch| branch.arguments.contains(name))
    };
    let required = in_call()
        .filter(|(name, it)| !it.optional && needed(name))
        .map(|(name, _)| text(name.as_str()))
        .collect();
    json::canonical(&Value::Object(BTreeMap::from([
        ("additionalProperties".into(), Value::Bool(false)),
        ("properties".into(), Value::Object(properties)),
        ("required".into(), Value::List(required)),
        ("type".into(), text("object")),
    ])))
}

fn kind(of: &Kind) -> BTreeMap<String, Value> {
    let mut schema = BTreeMap::new();
    let word = match of {
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
        Kind::List {
            items,
            max_items,
            min_items,
        } => {
            schema.insert("items".into(), Value::Object(kind(items)));
            schema.insert("maxItems".into(), size(*max_items));
            if *min_items > 0 {
                schema.insert("minItems".into(), size(*min_items));
            }
            "array"
        }
        Kind::Object { members } => {
            let properties = members
                .iter()
                .map(|(name, it)| (name.to_string(), Value::Object(kind(&it.kind))))
                .collect();
            let required = members
                .iter()
                .filter(|(_, it)| !it.optional)
                .map(|(name, _)| text(name.as_str()))
                .collect();
            schema.insert("additionalProperties".into(), Value::Bool(false));
            schema.insert("properties".into(), Value::Object(properties));
            schema.insert("required".into(), Value::List(required));
            "object"
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
            pattern,
        } => {
            if let Some(pattern) = pattern {
                let whole = alloc::format!("^{}$", pattern.as_str());
                schema.insert("pattern".into(), Value::Text(whole));
            }
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

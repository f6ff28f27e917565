//! What stands inside a value by one schema: members, items, and what must be there.

use gate::json::Value;

use super::{
    obligation::Kind,
    place::{Child, Place, Source, When},
};
use crate::{
    input::{
        At,
        member::{self, Object},
        name,
    },
    pointer,
};

/// Notes what stands inside a value by this one schema.
pub(super) fn note<'a>(
    members: &'a Object,
    at: &str,
    when: When,
    place: &mut Place<'a>,
) -> Result<(), At> {
    if let Some(properties) = members.get("properties") {
        let here = pointer::join(at, "properties");
        for (name, schema) in member::object(properties, &here)? {
            let pointer = pointer::join(&here, name);
            name::check(name, &pointer)?;
            place.add(
                Child::Member(name.clone()),
                Source {
                    schema,
                    pointer,
                    when,
                },
            );
        }
    }
    if let Some(patterns) = members.get("patternProperties") {
        let here = pointer::join(at, "patternProperties");
        place.oblige(Kind::PropertyMap, at, "patternProperties");
        for (pattern, schema) in member::object(patterns, &here)? {
            let pointer = pointer::join(&here, pattern);
            let when = When::Sometimes;
            place.add(
                Child::Named,
                Source {
                    schema,
                    pointer,
                    when,
                },
            );
        }
    }
    for keyword in ["additionalProperties", "unevaluatedProperties"] {
        match members.get(keyword) {
            Some(Value::Bool(false)) if when == When::Always => place.closed = true,
            None | Some(Value::Bool(_)) => {}
            Some(schema) => {
                place.oblige(Kind::PropertyMap, at, keyword);
                let pointer = pointer::join(at, keyword);
                place.add(
                    Child::Named,
                    Source {
                        schema,
                        pointer,
                        when,
                    },
                );
            }
        }
    }
    items(members, at, when, place);
    if let Some(required) = members.get("required") {
        let here = pointer::join(at, "required");
        match required {
            Value::List(names) => {
                for (index, name) in names.iter().enumerate() {
                    let at = pointer::item(&here, index);
                    let name = member::text(name, &at)?;
                    name::check(name, &at)?;
                    let known = place.required.entry(name).or_insert(when);
                    if when == When::Always {
                        *known = When::Always;
                    }
                }
            }
            Value::Bool(_)
            | Value::Int(_)
            | Value::Null
            | Value::Object(_)
            | Value::Real(_)
            | Value::Text(_) => place.oblige(Kind::Malformed, at, "required"),
        }
    }
    Ok(())
}

fn items<'a>(members: &'a Object, at: &str, when: When, place: &mut Place<'a>) {
    for keyword in [
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
    ] {
        let here = pointer::join(at, keyword);
        match members.get(keyword) {
            None | Some(Value::Bool(_)) => {}
            Some(Value::List(positions)) => {
                place.oblige(Kind::Tuple, at, keyword);
                for (index, schema) in positions.iter().enumerate() {
                    let pointer = pointer::item(&here, index);
                    place.add(
                        Child::Position(index),
                        Source {
                            schema,
                            pointer,
                            when,
                        },
                    );
                }
            }
            Some(schema) => place.add(
                Child::Item,
                Source {
                    schema,
                    pointer: here,
                    when,
                },
            ),
        }
    }
}

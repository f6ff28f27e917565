//! A function of OpenAI's: of the chat completions (`{"type": "function", "function": {…}}`), of the responses
//! (`{"type": "function", "name": …, "parameters": …}`), or of the older `functions`.

use gate::json::Value;

use super::{
    At, Dialect, Tool,
    member::{self, Object},
    quoted,
};
use crate::{input::Fault, pointer};

/// What a function has.
const FUNCTION: [&str; 5] = ["description", "name", "parameters", "strict", "type"];

pub(super) fn tool(members: &Object, at: &str) -> Result<Tool, At> {
    match members.get("type") {
        None => {}
        Some(Value::Text(kind)) if kind == "function" => {}
        Some(other) => {
            let kind = quoted(member::text(other, &pointer::join(at, "type"))?);
            return Err((at.to_owned(), Fault::Hosted { kind }));
        }
    }
    match members.get("function") {
        None => function(members, at),
        Some(inner) => {
            let inside = pointer::join(at, "function");
            let mut tool = function(member::object(inner, &inside)?, &inside)?;
            at.clone_into(&mut tool.pointer);
            tool.unknown
                .extend(super::unknown(members, &["function", "type"]));
            Ok(tool)
        }
    }
}

fn function(members: &Object, at: &str) -> Result<Tool, At> {
    let input = match members.get("parameters") {
        None | Some(Value::Null) => nothing(),
        Some(schema) => schema.clone(),
    };
    Ok(Tool {
        name: super::named(members, Dialect::OpenAi, at)?,
        pointer: at.to_owned(),
        title: None,
        description: member::text_of(members, "description", at)?,
        input,
        input_pointer: pointer::join(at, "parameters"),
        output: None,
        annotations: Object::new(),
        unknown: super::unknown(members, &FUNCTION),
    })
}

/// A function without parameters takes none.
fn nothing() -> Value {
    let object = Value::Text("object".into());
    Value::Object(Object::from([
        ("additionalProperties".into(), Value::Bool(false)),
        ("properties".into(), Value::Object(Object::new())),
        ("type".into(), object),
    ]))
}

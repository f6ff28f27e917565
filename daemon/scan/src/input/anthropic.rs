//! A tool of Anthropic's messages: `input_schema`.

use gate::json::Value;

use super::{
    At, Dialect, Fault, Tool,
    member::{self, Object},
    quoted,
};
use crate::pointer;

const KNOWN: [&str; 6] = [
    "cache_control",
    "description",
    "input_schema",
    "name",
    "strict",
    "type",
];

pub(super) fn tool(members: &Object, at: &str) -> Result<Tool, At> {
    match members.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::Text(kind)) if kind == "custom" => {}
        Some(other) => {
            let kind = quoted(member::text(other, &pointer::join(at, "type"))?);
            return Err((at.to_owned(), Fault::Hosted { kind }));
        }
    }
    let member = "input_schema";
    let dialect = Dialect::Anthropic;
    let input = members
        .get(member)
        .ok_or_else(|| (at.to_owned(), Fault::Missing { dialect, member }))?;
    Ok(Tool {
        name: super::named(members, dialect, at)?,
        pointer: at.to_owned(),
        title: None,
        description: member::text_of(members, "description", at)?,
        input: input.clone(),
        input_pointer: pointer::join(at, member),
        output: None,
        annotations: Object::new(),
        unknown: super::unknown(members, &KNOWN),
    })
}

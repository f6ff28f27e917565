//! A tool of MCP's tools/list (revisions 2025-11-25 and 2026-07-28, "Tools").

use gate::json::Value;

use super::{
    At, Dialect, Fault, Tool,
    member::{self, Object},
};
use crate::pointer;

const KNOWN: [&str; 9] = [
    "_meta",
    "annotations",
    "description",
    "execution",
    "icons",
    "inputSchema",
    "name",
    "outputSchema",
    "title",
];

pub(super) fn tool(members: &Object, at: &str) -> Result<Tool, At> {
    let member = "inputSchema";
    let dialect = Dialect::Mcp;
    let input = members
        .get(member)
        .ok_or_else(|| (at.to_owned(), Fault::Missing { dialect, member }))?;
    let annotations = match members.get("annotations") {
        None | Some(Value::Null) => Object::new(),
        Some(value) => member::object(value, &pointer::join(at, "annotations"))?.clone(),
    };
    let output = match members.get("outputSchema") {
        None | Some(Value::Null) => None,
        Some(schema) => Some(schema.clone()),
    };
    Ok(Tool {
        name: super::named(members, dialect, at)?,
        pointer: at.to_owned(),
        title: member::text_of(members, "title", at)?,
        description: member::text_of(members, "description", at)?,
        input: input.clone(),
        input_pointer: pointer::join(at, member),
        output,
        annotations,
        unknown: super::unknown(members, &KNOWN),
    })
}

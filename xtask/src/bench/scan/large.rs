//! A large export: up to 500 tools with 2,000 arguments, as many tools as either scanner takes.

use serde_json::{Map, Value, json};

/// The most.
pub(super) const TOOLS: usize = 500;
/// Of each tool.
pub(super) const ARGUMENTS: usize = 4;

/// Names that real exports have, and no two tools the same four of.
const NAMES: [&str; 12] = [
    "recipient",
    "message",
    "calendarId",
    "page_size",
    "content",
    "startTime",
    "include_archived",
    "query",
    "repository",
    "maxResults",
    "description",
    "labels",
];

/// The export, as MCP's tools/list.
pub(super) fn export(tools: usize) -> Value {
    let tools: Vec<Value> = (0..tools).map(tool).collect();
    json!({ "tools": tools })
}

fn tool(number: usize) -> Value {
    let names = NAMES.iter().cycle().skip(number % NAMES.len());
    let properties: Map<String, Value> = names
        .take(ARGUMENTS)
        .map(|name| ((*name).to_owned(), schema(name)))
        .collect();
    json!({
        "name": format!("update_thing_{number}"),
        "description": "Changes one thing of the many that the service has, as its arguments say.",
        "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
        "annotations": { "readOnlyHint": false, "destructiveHint": true },
    })
}

fn schema(name: &str) -> Value {
    let description = "What it is, in a sentence of about the length that such sentences have.";
    match name {
        "page_size" | "maxResults" => {
            json!({ "type": "integer", "minimum": 1, "maximum": 100, "description": description })
        }
        "include_archived" => json!({ "type": "boolean", "description": description }),
        "labels" => {
            json!({ "type": "array", "items": { "type": "string" }, "description": description })
        }
        _ => json!({ "type": "string", "maxLength": 4000, "description": description }),
    }
}

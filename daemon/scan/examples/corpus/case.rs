//! A case of Verb Authority's public corpus, as its file has it, and the same schema as an MCP export.

use std::collections::BTreeMap;

use gate::json::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// The file's form.
#[derive(Debug, Deserialize)]
pub(crate) struct Corpus {
    pub(crate) cases: Vec<Case>,
}

/// One schema, what a reviewer wrote down for it, and calls.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) tool: Tool,
    pub(crate) expected: Expected,
    #[serde(default)]
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Param {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(rename = "enum")]
    pub(crate) one_of: Option<Vec<String>>,
    pub(crate) max_len: Option<u64>,
    pub(crate) cap: Option<f64>,
    #[serde(default = "yes")]
    pub(crate) required: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
pub(crate) struct Expected {
    pub(crate) risk: String,
    pub(crate) policy: BTreeMap<String, String>,
}

/// A call: what the agent wrote, and what the application says of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) input: Value,
    #[serde(default)]
    pub(crate) trusted_args: BTreeMap<String, Json>,
    pub(crate) expected: String,
}

impl Case {
    /// The tool as an MCP server would list it: every type and bound, no word more.
    pub(crate) fn export(&self) -> Json {
        let properties: serde_json::Map<String, Json> = self
            .tool
            .params
            .iter()
            .map(|param| (param.name.clone(), param.schema()))
            .collect();
        let required = self.tool.params.iter().filter(|it| it.required);
        let required: Vec<&str> = required.map(|it| &*it.name).collect();
        json!({
            "name": self.tool.name,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        })
    }
}

impl Param {
    fn schema(&self) -> Json {
        let mut schema = match &*self.kind {
            format @ ("email" | "uri") => json!({ "type": "string", "format": format }),
            "enum" => json!({ "type": "string", "enum": self.one_of }),
            kind => json!({ "type": kind }),
        };
        if let Some(schema) = schema.as_object_mut() {
            if let Some(most) = self.max_len {
                schema.insert("maxLength".into(), most.into());
            }
            if let Some(most) = self.cap {
                schema.insert("maximum".into(), most.into());
            }
        }
        schema
    }
}

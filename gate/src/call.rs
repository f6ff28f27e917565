//! A complete call: what is decided, permitted, rendered and recorded.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    digest::{Digest, Domain},
    id::{ArgumentName, ToolName},
    json::{self, JsonError, Limits, Value},
};

/// A tool and every argument, the injected ones included.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Every argument.
    pub arguments: BTreeMap<ArgumentName, Value>,
    /// The tool.
    pub tool: ToolName,
}

impl Call {
    /// How much a call may hold: what the agent may send, and room for injected values.
    pub const LIMITS: Limits = Limits {
        bytes: Limits::CALL.bytes + (32 << 10),
        depth: Limits::CALL.depth + 2,
        nodes: Limits::CALL.nodes + 1_000,
    };

    /// A call as it was written: none where a name is none, or the arguments are no object.
    pub fn written(tool: &str, arguments: &Value) -> Option<Self> {
        let Value::Object(members) = arguments else {
            return None;
        };
        let arguments = members
            .iter()
            .map(|(name, value)| Some((ArgumentName::parse(name).ok()?, value.clone())))
            .collect::<Option<_>>()?;
        Some(Self {
            arguments,
            tool: ToolName::parse(tool).ok()?,
        })
    }

    /// Reads a call from its RFC 8785 form.
    ///
    /// # Errors
    /// When `bytes` is not in RFC 8785 form, or not a call.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JsonError> {
        json::from_canonical(bytes, &Self::LIMITS)
    }

    /// The call in RFC 8785 form.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Names are ASCII without anything to escape, and in order: what RFC 8785 asks of keys.
        let mut bytes = Vec::from(br#"{"arguments":{"#);
        for (index, (name, value)) in self.arguments.iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            bytes.push(b'"');
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b"\":");
            bytes.append(&mut json::canonical(value));
        }
        bytes.extend_from_slice(br#"},"tool":""#);
        bytes.extend_from_slice(self.tool.as_str().as_bytes());
        bytes.extend_from_slice(b"\"}");
        bytes
    }

    /// The call as a JSON value.
    pub fn to_value(&self) -> Value {
        let arguments = self
            .arguments
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        Value::Object(BTreeMap::from([
            (String::from("arguments"), Value::Object(arguments)),
            (String::from("tool"), Value::Text(self.tool.to_string())),
        ]))
    }

    /// The call's digest: what a permit binds.
    pub fn digest(&self) -> Digest {
        Self::digest_of(&self.to_bytes())
    }

    /// The digest of a call's RFC 8785 form.
    pub fn digest_of(bytes: &[u8]) -> Digest {
        Digest::of(Domain::Call, bytes)
    }
}

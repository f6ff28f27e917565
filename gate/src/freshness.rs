//! What must still be so: versions, and what a target is asked for.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
};

use crate::{
    call::Call,
    id::ToolName,
    json::{self, Limits, Value},
    policy::{Pointer, Policy, Tool},
    request::{self, Arguments, RenderError},
    template::{Text, scalar},
};

/// The longest version: what an `ETag` usually has, many times.
const VERSION_MAX: usize = 512;

/// A version as `If-Match` takes it (RFC 9110, section 8.8.3): strong, quoted. `*` is a version like
/// any other here, for as a condition it would hold of whatever is there.
pub fn entity_tag(version: &str) -> Option<String> {
    let inner = version
        .strip_prefix('"')
        .and_then(|it| it.strip_suffix('"'))
        .unwrap_or(version);
    let plain = inner.bytes().all(|b| matches!(b, b'!' | b'#'..=b'~'));
    (plain && !inner.is_empty() && inner.len() <= VERSION_MAX).then(|| format!("\"{inner}\""))
}

/// The version that stands in an answer at `field`.
pub fn version_in(answer: &[u8], field: &Pointer) -> Option<String> {
    let answer = json::parse(answer, &Limits::RESULT).ok()?;
    let found = field.find(&answer)?;
    match found {
        Value::Int(_) | Value::Text(_) => entity_tag(&scalar(found)?),
        Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Real(_) => None,
    }
}

/// The version that the call itself says, where the policy lets it.
pub fn version_of(text: &Text, arguments: &Arguments) -> Option<String> {
    let mut version = String::new();
    for part in text.parts() {
        match part {
            crate::template::Part::Literal(literal) => version.push_str(literal),
            crate::template::Part::Argument(name) => {
                version.push_str(&scalar(arguments.get(name)?)?);
            }
        }
    }
    entity_tag(&version)
}

/// What `reads` is asked for the same thing that `call` is on: both name it by the same arguments.
///
/// # Errors
/// When the policy has no such tool, or a value does not fit its place.
pub fn read_by(policy: &Policy, reads: &ToolName, call: &Call) -> Result<String, RenderError> {
    let tool = policy.tools().get(reads).ok_or_else(|| RenderError::Tool {
        tool: reads.to_string(),
    })?;
    request::fill_template(&tool.request, &shared(tool, call)).map(|it| it.target)
}

fn shared(tool: &Tool, call: &Call) -> Arguments {
    call.arguments
        .iter()
        .filter(|(name, _)| tool.arguments.contains_key(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<BTreeMap<_, _>>()
}

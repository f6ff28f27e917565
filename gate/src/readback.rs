//! Reading an effect back: what is asked, and what the answer shows.
//!
//! That a server answers 200 says that it answered. Whether the thing is there is another question,
//! and this is it: a GET with the same credential on the same floor, and values that must stand in
//! what comes back, type and all.

use alloc::{format, string::String, vec::Vec};

use crate::{
    id::ToolName,
    json::{self, Limits, Value},
    mutant::Mutant,
    policy::{Pointer, Read, Verify},
    record::Finding,
    request::{self, Arguments, HttpRequest, RenderError},
};

/// Why a captured value cannot be had. Nothing of the answer is in it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CaptureError {
    /// The answer is no JSON.
    #[error("the effect's answer is no json, so that `{name}` cannot be taken from it")]
    Json {
        /// The value's name.
        name: String,
    },
    /// Nothing stands there.
    #[error("the effect's answer has nothing at `{pointer}`")]
    Missing {
        /// Where.
        pointer: Pointer,
    },
    /// It is of another type, or beyond its bounds.
    #[error("what the effect's answer has at `{pointer}` is not of the type that the policy says")]
    Type {
        /// Where.
        pointer: Pointer,
    },
}

/// The arguments of the call, and beside them what is captured from the effect's answer.
///
/// # Errors
/// When a value is not there, or is not what the policy says that it is.
pub fn capture(
    verify: &Verify,
    arguments: &Arguments,
    answer: &[u8],
) -> Result<Arguments, CaptureError> {
    let mut all = arguments.clone();
    if verify.captures.is_empty() {
        return Ok(all);
    }
    let answer = json::parse(answer, &Limits::RESULT);
    for (name, capture) in &verify.captures {
        let answer = answer.as_ref().map_err(|_unread| CaptureError::Json {
            name: name.as_str().into(),
        })?;
        let found = capture
            .pointer
            .find(answer)
            .ok_or_else(|| CaptureError::Missing {
                pointer: capture.pointer.clone(),
            })?;
        capture
            .kind
            .check(found)
            .map_err(|_misfit| CaptureError::Type {
                pointer: capture.pointer.clone(),
            })?;
        all.insert(name.clone(), found.clone());
    }
    Ok(all)
}

/// The request that reads.
///
/// # Errors
/// When a value does not fit its place.
pub fn request(read: &Read, arguments: &Arguments) -> Result<HttpRequest, RenderError> {
    request::fill_template(&read.request, arguments)
}

/// What a read showed, and why it is not what was expected. Nothing of the answer is in it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Shown {
    /// What it comes to.
    pub finding: Finding,
    /// Why; empty where everything stands where it must.
    pub why: String,
}

/// Holds an answer to what `read` expects of it.
pub fn shown(read: &Read, arguments: &Arguments, status: u16, body: &[u8]) -> Shown {
    let as_is = |finding, why| Shown { finding, why };
    if status != read.status {
        let why = format!("status {status} came, and {} was to come", read.status);
        // Only these speak of the thing: it is there, or it is not. All others say that the
        // target did not let us see.
        return match status {
            200 | 404 | 410 => as_is(Finding::Mismatched, why),
            _ => as_is(Finding::Unobservable, why),
        };
    }
    if read.expect.is_empty() {
        return as_is(Finding::Verified, String::new());
    }
    let Ok(body) = json::parse(body, &Limits::RESULT) else {
        let why = "the answer is no json that could be looked into".into();
        return as_is(Finding::VerifierFailure, why);
    };
    let mut looked_at = 0_usize;
    for (pointer, expected) in &read.expect {
        // What the call does not carry is expected nowhere.
        let Some(expected) = expected.fill(arguments) else {
            continue;
        };
        looked_at = looked_at.saturating_add(1);
        match pointer.find(&body) {
            Some(found) if same(found, &expected) || Mutant::GateReadBack.is_on() => {}
            Some(_) => {
                let why = format!("`{pointer}` is not what the call says");
                return as_is(Finding::Mismatched, why);
            }
            None => {
                let why = format!("there is nothing at `{pointer}`");
                return as_is(Finding::Mismatched, why);
            }
        }
    }
    if looked_at == 0 {
        let why = "every expectation is of an argument that the call does not carry".into();
        return as_is(Finding::VerifierFailure, why);
    }
    as_is(Finding::Verified, String::new())
}

/// What a verifying program reads on standard input: one JSON object in RFC 8785 form, its format, the tool,
/// and the arguments of the call with what was captured beside them.
pub fn told(tool: &ToolName, arguments: &Arguments) -> Vec<u8> {
    let arguments = arguments
        .iter()
        .map(|(name, value)| (String::from(name.clone()), value.clone()))
        .collect();
    let members = [
        ("arguments", Value::Object(arguments)),
        ("format", Value::Text(COMMAND_FORMAT.into())),
        ("tool", Value::Text(tool.as_str().into())),
    ];
    let named = |(name, value): (&str, Value)| (name.into(), value);
    json::canonical(&Value::Object(members.map(named).into()))
}

/// The format of [`told`].
const COMMAND_FORMAT: &str = "custody-verify/1";

/// What the exit status of a verifying program says. What it wrote is not in it: that may be somebody's words.
pub fn shown_by_command(status: u8) -> Shown {
    let (finding, why) = match status {
        0 => (Finding::Verified, String::new()),
        1 => (
            Finding::Mismatched,
            "the policy's verifying program says that it is not there".into(),
        ),
        2 => (
            Finding::Unobservable,
            "the policy's verifying program could not look".into(),
        ),
        other => (
            Finding::VerifierFailure,
            format!("the policy's verifying program ended with status {other}"),
        ),
    };
    Shown { finding, why }
}

/// Nothing is converted: `"1"` is no number, and `1` no text.
fn same(found: &Value, expected: &Value) -> bool {
    json::canonical(found) == json::canonical(expected)
}

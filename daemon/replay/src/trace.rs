//! An operator's own recorded calls: the form `custody-trace/1`.
//!
//! A file is one session:
//!
//! ```json
//! {
//!   "format": "custody-trace/1",
//!   "session": { "task": "Answer Ada's question.", "values": { "customer": "ada@customer.example" } },
//!   "calls": [
//!     { "tool": "read_note", "arguments": { "id": "inbox-1" }, "result": { "text": "…" } },
//!     { "tool": "send_message", "arguments": { "to": "ada@customer.example", "body": "…" }, "was": "allow" }
//!   ]
//! }
//! ```
//!
//! `result` or `error` is what came back; a call with neither brought nothing. `was` is what was said of the call
//! when it was recorded: without it, a call that brought something was allowed.
//!
//! What happened then stays the past: every result reaches the session, as it did then, whatever is said of its call now.

use std::path::{Path, PathBuf};

use gate::json::{self, JsonError, Limits, Value};
use serde::{Deserialize, Serialize};

use crate::{
    decider::{Answer, Decider, Opening, Recorded},
    format::{self, FormatError, Suite},
    marker::{self, Fill},
};

/// The only form that is read, beside [`format::FORMAT`].
pub const FORMAT: &str = "custody-trace/1";

/// How much a trace may hold.
pub const LIMITS: Limits = Limits {
    bytes: 256 << 20,
    depth: Limits::DEPTH_MAX,
    nodes: 10_000_000,
};

/// One recorded session.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Where it is from: the file and, if there are several in it, which.
    pub name: String,
    /// What the session was opened with.
    pub opening: Opening,
    /// Its calls.
    pub calls: Vec<Past>,
}

/// A recorded call.
#[derive(Clone, Debug)]
pub struct Past {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// What came back.
    pub back: Option<Recorded>,
    /// What was said of it, if that is known.
    pub was: Option<Said>,
}

/// An answer, in a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It was or would be performed.
    Allow,
    /// A person was or would be asked.
    Hold,
    /// It was not or would not be performed.
    Refuse,
}

impl Said {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Hold => "hold",
            Self::Refuse => "refuse",
        }
    }
}

/// Why a trace is not read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is recorded tasks, and they are not good.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It says another form.
    #[error(
        "`{}` is of the form `{found}`; `{FORMAT}` and `{}` are read",
        file.display(),
        format::FORMAT
    )]
    Form {
        /// The file.
        file: PathBuf,
        /// What it says.
        found: String,
    },
    /// It is not JSON with one meaning.
    #[error("`{}`: {source}", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Why.
        source: JsonError,
    },
    /// It is JSON of another shape.
    #[error("`{}` is not `{FORMAT}`: {what}", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// Where and why.
        what: String,
    },
}

/// One line of the report.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Line {
    /// The trace.
    pub trace: String,
    /// Which call, from 0.
    pub call: usize,
    /// The tool.
    pub tool: String,
    /// What is said of it now.
    pub now: Said,
    /// What was said of it, if that is known.
    pub was: Option<Said>,
    /// Whether that differs.
    pub changed: bool,
    /// Why it is not simply allowed.
    pub why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "format")]
    _format: String,
    session: Opening,
    calls: Vec<FileCall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCall {
    tool: String,
    arguments: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    was: Option<Said>,
}

/// A result of `null` is a result.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The sessions of one file: one of a trace, one for each task of recorded tasks.
///
/// # Errors
/// When `bytes` is of neither form.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<Trace>, TraceError> {
    let whole = json::parse(bytes, &LIMITS).map_err(|source| TraceError::Json {
        file: file.to_owned(),
        source,
    })?;
    let found = match &whole {
        Value::Object(members) => match members.get("format") {
            Some(Value::Text(form)) => form.as_str(),
            Some(_) | None => "",
        },
        Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Real(_)
        | Value::Text(_) => "",
    };
    match found {
        FORMAT => Ok(vec![one(file, bytes)?]),
        format::FORMAT => Ok(tasks(file, &Suite::parse(file, bytes)?)),
        "" => Err(TraceError::Shape {
            file: file.to_owned(),
            what: "an object with a member `format` was expected".into(),
        }),
        other => Err(TraceError::Form {
            file: file.to_owned(),
            found: other.to_owned(),
        }),
    }
}

fn one(file: &Path, bytes: &[u8]) -> Result<Trace, TraceError> {
    let shape = |what: String| TraceError::Shape {
        file: file.to_owned(),
        what,
    };
    let File { session, calls, .. } =
        serde_json::from_slice(bytes).map_err(|error| shape(error.to_string()))?;
    let calls = calls.into_iter().enumerate().map(|(index, call)| {
        if !matches!(call.arguments, Value::Object(_)) {
            return Err(shape(format!(
                "call {index} has arguments that are no object"
            )));
        }
        let back = match (call.result, call.error) {
            (None, None) => None,
            (Some(result), None) => Some(Recorded::Result(result)),
            (None, Some(why)) => Some(Recorded::Failed(why)),
            (Some(_), Some(_)) => {
                return Err(shape(format!("call {index} has a result and an error")));
            }
        };
        Ok(Past {
            was: call.was.or_else(|| back.is_some().then_some(Said::Allow)),
            tool: call.tool,
            arguments: call.arguments,
            back,
        })
    });
    Ok(Trace {
        name: file.display().to_string(),
        opening: session,
        calls: calls.collect::<Result<_, _>>()?,
    })
}

/// The tasks of a suite, as they are without an attack.
fn tasks(file: &Path, suite: &Suite) -> Vec<Trace> {
    let with = Fill::Default(&suite.vectors);
    let trace = |task: &format::UserTask| Trace {
        name: format!("{}, {}", file.display(), task.id),
        opening: Opening::task(&task.prompt),
        calls: task
            .calls
            .iter()
            .map(|call| Past {
                tool: call.tool.clone(),
                arguments: marker::fill(&call.args, with),
                back: Some(match &call.error {
                    None => Recorded::Result(marker::fill(&call.result, with)),
                    Some(why) => Recorded::Failed(marker::fill_text(why, with)),
                }),
                was: Some(Said::Allow),
            })
            .collect(),
    };
    suite.user_tasks.iter().map(trace).collect()
}

/// What `decider` says now of each call of `trace`.
///
/// # Errors
/// When the decider has no session that is opened as the trace's was.
pub fn replay(trace: &Trace, decider: &dyn Decider) -> Result<Vec<Line>, String> {
    let mut session = decider.open(&trace.opening)?;
    let mut lines = Vec::new();
    for (call, past) in trace.calls.iter().enumerate() {
        let (now, why) = match session.decide(&past.tool, &past.arguments) {
            Answer::Allow => (Said::Allow, None),
            Answer::Hold(why) => (Said::Hold, Some(why)),
            Answer::Refuse(why) => (Said::Refuse, Some(why)),
        };
        if let Some(back) = &past.back {
            session.record(&past.tool, &past.arguments, back);
        }
        lines.push(Line {
            trace: trace.name.clone(),
            call,
            tool: past.tool.clone(),
            now,
            was: past.was,
            changed: past.was.is_some_and(|was| was != now),
            why,
        });
    }
    Ok(lines)
}

//! What stands around the tools, and whose form they have. More than one reading is refused.

use gate::json::Value;

use super::{
    At, Dialect, Fault,
    member::{self, Object},
    quoted,
};
use crate::pointer;

/// What stood around the tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// Nothing: an array.
    Bare,
    /// `{"functions": […]}`, OpenAI's older form.
    Functions,
    /// Nothing: one tool.
    One,
    /// A JSON-RPC result.
    Rpc,
    /// `{"tools": […]}`.
    Tools,
}

/// The tools, and what stood around them.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) tools: &'a [Value],
    pub(super) pointer: String,
    pub(super) form: Form,
    pub(super) ignored: Vec<String>,
}

/// The keys of which exactly one holds the tools.
const HOLDERS: [&str; 3] = ["functions", "result", "tools"];

/// The keys of which exactly one is in a tool of a form.
const MARKS: [(&str, Dialect); 4] = [
    ("inputSchema", Dialect::Mcp),
    ("input_schema", Dialect::Anthropic),
    ("function", Dialect::OpenAi),
    ("parameters", Dialect::OpenAi),
];

/// What an MCP list and a JSON-RPC answer have beside it: nothing that says of tools.
const BESIDE: [&str; 7] = [
    "_meta",
    "cacheScope",
    "id",
    "jsonrpc",
    "nextCursor",
    "resultType",
    "ttlMs",
];

pub(super) fn open(value: &Value) -> Result<Opened<'_>, At> {
    match value {
        Value::List(tools) => Ok(Opened {
            tools,
            pointer: String::new(),
            form: Form::Bare,
            ignored: Vec::new(),
        }),
        Value::Object(members)
            if MARKS.iter().any(|(key, _)| members.contains_key(*key))
                && !HOLDERS.iter().any(|key| members.contains_key(*key)) =>
        {
            Ok(Opened {
                tools: std::slice::from_ref(value),
                pointer: String::new(),
                form: Form::One,
                ignored: Vec::new(),
            })
        }
        Value::Object(members) => held(members, ""),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {
            Err((String::new(), Fault::Form))
        }
    }
}

fn held<'a>(members: &'a Object, at: &str) -> Result<Opened<'a>, At> {
    if members.contains_key("error") {
        return Err((at.to_owned(), Fault::Failed));
    }
    let mut found = HOLDERS.iter().filter(|key| members.contains_key(**key));
    let holder = *found.next().ok_or_else(|| (at.to_owned(), Fault::Form))?;
    if let Some(second) = found.next() {
        return Err((at.to_owned(), ambiguous(holder, second)));
    }
    if !matches!(members.get("nextCursor"), None | Some(Value::Null)) {
        return Err((at.to_owned(), Fault::Page));
    }
    let inside = pointer::join(at, holder);
    let value = members.get(holder).unwrap_or(&Value::Null);
    let mut opened = match (holder, at) {
        // A result inside a result is nobody's form.
        ("result", "") => {
            let mut opened = held(member::object(value, &inside)?, &inside)?;
            opened.form = match opened.form {
                Form::Tools => Form::Rpc,
                Form::Bare | Form::Functions | Form::One | Form::Rpc => {
                    return Err((inside, Fault::Form));
                }
            };
            opened
        }
        ("result", _) => return Err((inside, Fault::Form)),
        ("functions", _) => Opened {
            tools: member::list(value, &inside)?,
            pointer: inside,
            form: Form::Functions,
            ignored: Vec::new(),
        },
        _ => Opened {
            tools: member::list(value, &inside)?,
            pointer: inside,
            form: Form::Tools,
            ignored: Vec::new(),
        },
    };
    opened.ignored.extend(
        members
            .keys()
            .filter(|key| *key != holder && !BESIDE.contains(&key.as_str()))
            .cloned(),
    );
    Ok(opened)
}

/// Whose form one tool has: by the one key that only this form has.
pub(super) fn dialect(members: &Object, form: Form, at: &str) -> Result<Dialect, At> {
    let mut found = MARKS.iter().filter(|(key, _)| members.contains_key(*key));
    let kind = match members.get("type") {
        Some(Value::Text(kind)) => Some(kind.as_str()),
        Some(_) | None => None,
    };
    let dialect = match (found.next(), kind) {
        (Some((first, dialect)), _) => match found.next() {
            Some((second, _)) => return Err((at.to_owned(), ambiguous(first, second))),
            None => *dialect,
        },
        // A function without parameters takes none.
        (None, Some("function")) => Dialect::OpenAi,
        (None, Some(kind)) => {
            let kind = quoted(kind);
            return Err((at.to_owned(), Fault::Hosted { kind }));
        }
        (None, None) if form == Form::Functions => Dialect::OpenAi,
        (None, None) => return Err((at.to_owned(), Fault::NoDialect)),
    };
    match (form, dialect) {
        (Form::Rpc, Dialect::Anthropic | Dialect::OpenAi)
        | (Form::Functions, Dialect::Anthropic | Dialect::Mcp) => Err((at.to_owned(), Fault::Form)),
        (Form::Bare | Form::One | Form::Tools, _)
        | (Form::Functions, Dialect::OpenAi)
        | (Form::Rpc, Dialect::Mcp) => Ok(dialect),
    }
}

fn ambiguous(first: &str, second: &str) -> Fault {
    Fault::Ambiguous {
        first: quoted(first),
        second: quoted(second),
    }
}

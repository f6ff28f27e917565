//! A line is one JSON-RPC 2.0 message with one meaning, or an error that says why not.
//!
//! The library behind parses JSON for itself, so it gets what was parsed here, written anew in
//! RFC 8785 form; a call's arguments it does not get at all.

use std::collections::BTreeMap;

use gate::{
    digest::{Digest, Domain},
    json::{self, Limits, Value},
    mutant::Mutant,
};
use serde_json::json;

/// The most bytes of one line: the largest call, escaped as wastefully as JSON allows for most
/// of it, and its envelope.
pub const LINE_CAP: usize = 1 << 20;

/// The longest tool name that the gate is asked about: what MCP allows (128), twice.
const NAME_CAP: usize = 256;

/// The longest id that is a string.
const ID_CAP: usize = 256;

/// The one method by which a tool is called.
const CALL: &str = "tools/call";

/// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

// What the parser lets through, the wire carries.
const _: () = assert!(Limits::CALL.bytes <= custody_wire::agent::ARGUMENTS_CAP);

/// What a line is.
#[derive(Debug)]
pub enum Checked {
    /// A call of a tool.
    Call {
        /// The message in RFC 8785 form, without the arguments.
        message: Vec<u8>,
        /// The arguments, an object, in RFC 8785 form.
        arguments: Vec<u8>,
        /// Its id.
        id: serde_json::Value,
        /// What is called: the digest of name and arguments.
        what: Digest,
    },
    /// A notification, in RFC 8785 form.
    Notification(Vec<u8>),
    /// Another request, in RFC 8785 form.
    Request(Vec<u8>),
    /// An answer, though nothing was asked.
    Unasked,
}

/// Why a line is refused, and what is answered.
#[derive(Debug)]
pub struct Refusal {
    id: serde_json::Value,
    code: i32,
    why: String,
}

impl Refusal {
    /// A refusal of a line that cannot even be told what it is.
    pub fn unreadable(why: impl Into<String>) -> Self {
        Self {
            id: serde_json::Value::Null,
            code: PARSE_ERROR,
            why: why.into(),
        }
    }

    /// A refusal of the whole connection.
    pub fn connection(why: impl Into<String>) -> Self {
        Self {
            id: serde_json::Value::Null,
            code: INVALID_REQUEST,
            why: why.into(),
        }
    }

    /// A refusal of a call whose id stood for another.
    pub fn reused(id: serde_json::Value) -> Self {
        Self {
            id,
            code: INVALID_REQUEST,
            why: "this `id` was another call's: each call has an id of its own; nothing was performed"
                .into(),
        }
    }

    /// The answer's line, its end included.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = json!({
            "jsonrpc": "2.0",
            "id": self.id,
            "error": { "code": self.code, "message": self.why },
        })
        .to_string()
        .into_bytes();
        line.push(b'\n');
        line
    }
}

fn canonical(message: BTreeMap<String, Value>) -> Vec<u8> {
    json::canonical(&Value::Object(message))
}

/// JSON-RPC 2.0, section 4: a string or a number; MCP takes no null and no fraction.
fn id_of(id: Option<&Value>) -> Result<Option<serde_json::Value>, Refusal> {
    match id {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(number.get().into())),
        Some(Value::Text(text)) if text.len() <= ID_CAP => Ok(Some(text.clone().into())),
        Some(_) => Err(Refusal {
            id: serde_json::Value::Null,
            code: INVALID_REQUEST,
            why: format!("`id` must be an integer or a string of at most {ID_CAP} bytes"),
        }),
    }
}

/// Parses one line.
///
/// # Errors
/// When it is not exactly one JSON-RPC message that can only be read one way.
pub fn check(line: &[u8]) -> Result<Checked, Refusal> {
    let limits = Limits {
        bytes: LINE_CAP,
        ..Limits::LINE
    };
    let value =
        json::parse(line, &limits).map_err(|error| Refusal::unreadable(error.to_string()))?;
    let Value::Object(mut message) = value else {
        return Err(Refusal {
            id: serde_json::Value::Null,
            code: INVALID_REQUEST,
            why: "a message is one JSON object; batches are not taken".into(),
        });
    };
    let id = id_of(message.get("id"))?;
    let refuse = |code, why: &str| Refusal {
        id: id.clone().unwrap_or_default(),
        code,
        why: why.into(),
    };
    if message.get("jsonrpc") != Some(&Value::Text("2.0".into())) {
        return Err(refuse(INVALID_REQUEST, "`jsonrpc` must be \"2.0\""));
    }
    let mut method = match message.get("method") {
        Some(Value::Text(method)) => method.clone(),
        Some(_) => return Err(refuse(INVALID_REQUEST, "`method` must be a string")),
        None if message.contains_key("result") || message.contains_key("error") => {
            return Ok(Checked::Unasked);
        }
        None => return Err(refuse(INVALID_REQUEST, "`method` is missing")),
    };
    if !matches!(message.get("params"), None | Some(Value::Object(_))) {
        return Err(refuse(INVALID_REQUEST, "`params` must be an object"));
    }
    if id.is_none() {
        return Ok(Checked::Notification(canonical(message)));
    }
    if Mutant::FrontMethods.is_on() && method.starts_with("tools/") {
        message.insert("method".into(), Value::Text(CALL.into()));
        method = CALL.into();
    }
    if method != CALL {
        return Ok(Checked::Request(canonical(message)));
    }

    let Some(Value::Object(params)) = message.get_mut("params") else {
        return Err(refuse(INVALID_PARAMS, "`params` is missing"));
    };
    let name = match params.get("name") {
        Some(Value::Text(name)) if name.len() <= NAME_CAP => name.clone(),
        Some(Value::Text(_)) => {
            let why = format!("`name` is longer than {NAME_CAP} bytes");
            return Err(refuse(INVALID_PARAMS, &why));
        }
        _ => return Err(refuse(INVALID_PARAMS, "`name` must be a string")),
    };
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => b"{}".to_vec(),
        Some(arguments @ Value::Object(_)) => json::canonical(&arguments),
        Some(_) => return Err(refuse(INVALID_PARAMS, "`arguments` must be an object")),
    };
    // By the limits of whoever reads them next, so that the reason reaches the agent.
    if let Err(error) = json::parse(&arguments, &Limits::CALL) {
        let why = format!("`arguments`: {error}");
        return Err(refuse(INVALID_PARAMS, &why));
    }
    // No name has a NUL (`gate::json`), so that the two cannot run into each other.
    let what = Digest::of(Domain::Call, &[name.as_bytes(), b"\0", &arguments].concat());
    Ok(Checked::Call {
        message: canonical(message),
        arguments,
        id: id.unwrap_or_default(),
        what,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (i32, String) {
        let refusal = check(line.as_bytes()).unwrap_err();
        let line: serde_json::Value = serde_json::from_slice(&refusal.to_line()).unwrap();
        assert_eq!(line["error"]["code"], refusal.code);
        (refusal.code, refusal.why)
    }

    #[test]
    fn what_reads_two_ways_or_not_at_all_is_a_parse_error() {
        for line in [
            "",
            "not json",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":-0,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {}",
            &format!("{}{}", "[".repeat(100), "]".repeat(100)),
        ] {
            assert_eq!(refused(line).0, PARSE_ERROR, "{line}");
        }
    }

    #[test]
    fn a_request_under_another_name_is_no_call() {
        for method in ["tools/dispatch", "tools/list", "Tools/call", "tools/call "] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"a","arguments":{{}}}}}}"#
            );
            let checked = check(line.as_bytes()).unwrap();
            assert!(matches!(checked, Checked::Request(_)), "{checked:?}");
        }
    }

    #[test]
    fn what_is_json_and_no_message_is_an_invalid_request() {
        for line in [
            "[]",
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            "1",
            "{}",
            "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":1}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
        ] {
            assert_eq!(refused(line).0, INVALID_REQUEST, "{line}");
        }
    }

    #[test]
    fn a_call_comes_apart_into_message_and_canonical_arguments() {
        let line = r#"{"method":"tools/call","id":1,"jsonrpc":"2.0",
            "params":{"name":"send","arguments":{"b":1.0,"a":"\u00e9"}}}"#;
        let Checked::Call {
            message, arguments, ..
        } = check(line.as_bytes()).unwrap()
        else {
            panic!("not a call");
        };
        assert_eq!(arguments, "{\"a\":\"é\",\"b\":1}".as_bytes());
        assert_eq!(
            message,
            br#"{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"name":"send"}}"#
        );
    }

    #[test]
    fn a_call_that_is_none_says_which_part() {
        let call = |params: &str| {
            refused(&format!(
                r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{params}}}"#
            ))
        };
        for (params, part) in [
            ("{}", "`name`"),
            (r#"{"name":1}"#, "`name`"),
            (r#"{"name":"a","arguments":[]}"#, "`arguments`"),
            (r#"{"name":"a","arguments":"{}"}"#, "`arguments`"),
        ] {
            let (code, why) = call(params);
            assert_eq!(code, INVALID_PARAMS);
            assert!(why.contains(part), "{why}");
        }
        let big = format!(
            r#"{{"name":"a","arguments":{{"b":"{}"}}}}"#,
            "x".repeat(300 << 10)
        );
        assert!(call(&big).1.contains("at most 262144"));
        let deep = format!(
            r#"{{"name":"a","arguments":{{"b":{}{}}}}}"#,
            "[".repeat(40),
            "]".repeat(40)
        );
        assert!(call(&deep).1.contains("deeper than 32"));
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_none_of_our_business() {
        let line = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert!(matches!(check(line), Ok(Checked::Unasked)));
    }
}

//! A dispatcher without a registry: any name, any method, as lenient as careless servers are.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use super::Upstream;

pub(super) fn serve(stream: &UnixStream, upstream: &Upstream) -> io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        // The last of two equal keys wins, as in most parsers (RFC 8259, section 4).
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            writer.write_all(b"{\"error\":\"not JSON\"}\n")?;
            continue;
        };
        let answer = if let Value::Array(batch) = &message {
            Value::Array(
                batch
                    .iter()
                    .map(|message| dispatch(message, upstream))
                    .collect::<io::Result<_>>()?,
            )
        } else {
            dispatch(&message, upstream)?
        };
        writer.write_all(answer.to_string().as_bytes())?;
        writer.write_all(b"\n")?;
    }
    Ok(())
}

fn dispatch(message: &Value, upstream: &Upstream) -> io::Result<Value> {
    let name = message
        .pointer("/params/name")
        .and_then(Value::as_str)
        .map(folded);
    let arguments = message.pointer("/params/arguments").cloned();
    let said = match (name.as_deref(), arguments) {
        (Some("publish_page"), Some(arguments)) => {
            let page = arguments.get("page").and_then(Value::as_str).unwrap_or("");
            // Straight into the path, as careless templates do.
            upstream.ask("POST", &format!("/v1/pages/{page}/publish"), b"{}")?
        }
        (Some("read_note"), Some(arguments)) => {
            let note = arguments.get("note").and_then(Value::as_str).unwrap_or("");
            smuggled(upstream, note)?
        }
        (Some("reflect"), Some(arguments)) => {
            upstream.ask("POST", "/v1/reflect", arguments.to_string().as_bytes())?
        }
        (Some(_), Some(arguments)) => {
            upstream.ask("POST", "/v1/messages", arguments.to_string().as_bytes())?
        }
        (Some(_) | None, _) => b"hello".to_vec(),
    };
    Ok(json!({
        "jsonrpc": "2.0",
        "id": message.get("id"),
        "result": {"content": [{"type": "text", "text": String::from_utf8_lossy(&said)}]},
    }))
}

/// A `GET` whose path is not encoded: what follows a line break is another request.
fn smuggled(upstream: &Upstream, note: &str) -> io::Result<Vec<u8>> {
    upstream.ask("GET", &format!("/v1/notes/{note}"), b"")
}

/// Case, blanks and invisible characters are forgiven, as routers do.
fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}' | '\0'))
        .flat_map(char::to_lowercase)
        .map(|c| if c == '-' || c == '.' { '_' } else { c })
        .collect()
}

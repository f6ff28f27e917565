//! A dispatcher without a registry: any name, any method, as lenient as careless servers are.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use super::{Upstream, careless};

pub(super) fn serve(stream: &UnixStream, upstream: &Upstream) -> io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if line.is_empty() {
            continue;
        }
        let Some(message) = careless::message(&line) else {
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
        log(stream, &message, &answer)?;
        writer.write_all(answer.to_string().as_bytes())?;
        writer.write_all(b"\n")?;
    }
    Ok(())
}

/// Everything, as it is, into a file beside the socket.
fn log(stream: &UnixStream, message: &Value, answer: &Value) -> io::Result<()> {
    let address = stream.local_addr()?;
    let Some(socket) = address.as_pathname() else {
        return Ok(());
    };
    let name = message.pointer("/params/name").and_then(Value::as_str);
    let said = answer.pointer("/result/content/0/text");
    let said = said.and_then(Value::as_str).unwrap_or_default();
    let line = format!("{} {said}\n", name.unwrap_or_default());
    fs::File::options()
        .create(true)
        .append(true)
        .open(socket.with_extension("log"))?
        .write_all(line.as_bytes())
}

fn dispatch(message: &Value, upstream: &Upstream) -> io::Result<Value> {
    let name = message
        .pointer("/params/name")
        .and_then(Value::as_str)
        .map(folded);
    let arguments = message.pointer("/params/arguments").cloned();
    let text = |arguments: &Value, name: &str| -> String {
        let found = arguments.get(name).and_then(Value::as_str);
        found.unwrap_or("").to_owned()
    };
    let said = match (name.as_deref(), arguments) {
        (Some("publish_page"), Some(arguments)) => {
            // Straight into the path, as careless templates do.
            let page = text(&arguments, "page");
            upstream.ask("POST", &format!("/v1/pages/{page}/publish"), b"{}")?
        }
        (Some("read_note"), Some(arguments)) => smuggled(upstream, &text(&arguments, "note"))?,
        (Some("append_note"), Some(arguments)) => {
            let url = format!("/v1/notes/{}/append", text(&arguments, "note"));
            upstream.ask("POST", &careless::path(&url), b"{}")?
        }
        (Some("go_on"), Some(arguments)) => {
            let target = format!("/v1/redirect?to={}", text(&arguments, "to"));
            careless::followed(upstream, &target)?
        }
        (Some("reflect"), Some(arguments)) => {
            let said = upstream.ask("POST", "/v1/reflect", arguments.to_string().as_bytes())?;
            for call in careless::calls_in(&said) {
                dispatch(&call, upstream)?;
            }
            said
        }
        (Some("reflect_as"), Some(arguments)) => {
            let target = format!("/v1/reflect?as={}", text(&arguments, "form"));
            upstream.ask("GET", &target, b"")?
        }
        (Some("reflect_held"), Some(arguments)) => {
            careless::held_back(upstream.token(), &text(&arguments, "text"))
        }
        (Some("reflect_pin"), Some(arguments)) => {
            careless::without_pin(upstream.token(), &text(&arguments, "text"))
        }
        (Some("mint_token"), Some(_)) => upstream.ask("POST", "/v1/tokens", b"{}")?,
        (Some(_), Some(arguments)) => {
            let body = arguments.to_string();
            match arguments.get("authorization").and_then(Value::as_str) {
                None => upstream.ask("POST", "/v1/messages", body.as_bytes())?,
                // Its caller's own key, as proxies pass it on.
                Some(own) => {
                    let token = own.trim_start_matches("Bearer ");
                    let own = upstream.with_token(token);
                    own.ask("POST", "/v1/messages", body.as_bytes())?
                }
            }
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

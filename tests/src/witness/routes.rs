//! What the witness offers: a small mail and pages service, and two habits of real servers that
//! betray credentials (one reflects what it was sent, one redirects).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::http::{Answer, Request};

/// A request's answer, and whether it changed something.
#[derive(Debug)]
pub(super) struct Routed {
    pub(super) answer: Answer,
    pub(super) effect: bool,
}

/// The name of the token that whoever asks for one gets.
pub(super) const MADE: &str = "made";

/// A token, made for a caller that has another: what a service with tokens does.
pub(super) fn made(token: Option<&str>) -> Routed {
    read(match token {
        Some(token) => Answer::json(201, &json!({"token": token})),
        None => Answer::json(404, &json!({"error": "no such path"})),
    })
}

fn read(answer: Answer) -> Routed {
    Routed {
        answer,
        effect: false,
    }
}

fn effect(answer: Answer) -> Routed {
    Routed {
        answer,
        effect: true,
    }
}

/// Answers `request`, which came with the token named `who`.
pub(super) fn route(
    request: &Request,
    who: &str,
    number: u64,
    notes: &BTreeMap<String, Value>,
) -> Routed {
    let segments: Vec<&str> = request.path().split('/').skip(1).collect();
    match (request.method.as_str(), segments.as_slice()) {
        ("POST", ["v1", "messages"]) => match serde_json::from_slice::<Value>(&request.body) {
            Ok(message) if message.is_object() => effect(Answer::json(
                201,
                &json!({"id": format!("m-{number}"), "status": "sent"}),
            )),
            Ok(_) | Err(_) => read(Answer::json(400, &json!({"error": "not a JSON object"}))),
        },
        ("POST", ["v1", "pages", page, "publish"]) => effect(Answer::json(
            200,
            &json!({"page": page, "status": "published"}),
        )),
        ("DELETE", ["v1", "pages", page]) => effect(Answer::json(
            200,
            &json!({"page": page, "status": "deleted"}),
        )),
        ("GET", ["v1", "notes", id]) => read(notes.get(*id).map_or_else(
            || Answer::json(404, &json!({"error": "no such note"})),
            |note| Answer::json(200, &json!({"id": id, "text": note})),
        )),
        ("GET", ["v1", "whoami"]) => read(Answer::json(200, &json!({"who": who}))),
        ("POST", ["v1", "notes", id, "append"]) => {
            effect(Answer::json(200, &json!({"id": id, "status": "appended"})))
        }
        ("GET" | "POST", ["v1", "reflect"]) => read(reflect(request)),
        ("GET" | "POST", ["v1", "redirect"]) => read(redirect(request)),
        _ => read(Answer::json(404, &json!({"error": "no such path"}))),
    }
}

/// Sends the request back, header fields and all, as debugging endpoints do: in the form that
/// `as=` names.
fn reflect(request: &Request) -> Answer {
    let form = request.target.split_once("as=").map(|(_, form)| form);
    let headers: BTreeMap<&str, String> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), in_form(value, form)))
        .collect();
    let status = if form == Some("error") { 500 } else { 200 };
    Answer::json(
        status,
        &json!({
            "headers": headers,
            "body": String::from_utf8_lossy(&request.body),
        }),
    )
}

/// A text as servers write them: for a debugger, a link, a log.
fn in_form(text: &str, form: Option<&str>) -> String {
    let each = |write: fn(u8) -> String| text.bytes().map(write).collect();
    match form {
        Some("hex") => each(|byte| format!("{byte:02x}")),
        Some("url") => each(|byte| format!("%{byte:02X}")),
        Some("references") => each(|byte| format!("&#{byte};")),
        Some("reversed") => text.chars().rev().collect(),
        Some(_) | None => text.into(),
    }
}

/// Redirects to the path in `to=`, on this server, with the same method (307, RFC 9110).
fn redirect(request: &Request) -> Answer {
    let to = request
        .target
        .split_once("to=")
        .map_or("/v1/whoami", |(_, to)| to);
    let to = to.replace("%2F", "/").replace("%2f", "/");
    let status = if request.method == "POST" { 307 } else { 302 };
    Answer {
        headers: vec![("location".into(), to.clone())],
        ..Answer::json(status, &json!({"to": to}))
    }
}

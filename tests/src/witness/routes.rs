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
        ("GET" | "POST", ["v1", "reflect"]) => read(reflect(request)),
        ("GET", ["v1", "redirect"]) => read(redirect(request)),
        _ => read(Answer::json(404, &json!({"error": "no such path"}))),
    }
}

/// Sends the request back, header fields and all, as debugging endpoints do.
fn reflect(request: &Request) -> Answer {
    let headers: BTreeMap<&str, &str> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    Answer::json(
        200,
        &json!({
            "headers": headers,
            "body": String::from_utf8_lossy(&request.body),
        }),
    )
}

/// Redirects to the path in `to=`, on this server.
fn redirect(request: &Request) -> Answer {
    let to = request
        .target
        .split_once("to=")
        .map_or("/v1/whoami", |(_, to)| to);
    Answer {
        headers: vec![("location".into(), to.into())],
        ..Answer::json(302, &json!({"to": to}))
    }
}

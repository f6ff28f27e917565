//! What careless programs do with what they are given: each of these is somebody's.

use std::io;

use serde_json::{Deserializer, Value};

use super::Upstream;

/// The first message of a line. What is before it is skipped, what is no number or character of
/// JSON is taken for one, and what is behind it is not looked at. The last of two equal keys wins,
/// as in most parsers (RFC 8259, section 4).
pub(super) fn message(line: &str) -> Option<Value> {
    let (_, line) = line.split_at(line.find(['{', '['])?);
    let line = line
        .replace("NaN", "null")
        .replace("-Infinity", "null")
        .replace("\\ud800", "?");
    Deserializer::from_str(&line).into_iter().next()?.ok()
}

/// A path as clients normalise it: what looks like the beginning of another is one, and `..` goes
/// up (RFC 3986, section 5.2.4).
pub(super) fn path(url: &str) -> String {
    let path = url.rfind("/v1/").map_or(url, |at| url.split_at(at).1);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Asks, and asks again where the answer says to.
pub(super) fn followed(upstream: &Upstream, target: &str) -> io::Result<Vec<u8>> {
    let said = upstream.ask("POST", target, b"{}")?;
    let text = String::from_utf8_lossy(&said).into_owned();
    let to = text
        .lines()
        .find_map(|line| line.strip_prefix("location: "));
    match to {
        Some(to) => upstream.ask("POST", to.trim(), b"{}"),
        None => Ok(said),
    }
}

/// Calls in what a service said, as whoever splits a stream into lines finds them.
pub(super) fn calls_in(said: &[u8]) -> Vec<Value> {
    let mut text = String::from_utf8_lossy(said).into_owned();
    let mut calls = Vec::new();
    for _ in 0..3 {
        text = text
            .replace("\\\\", "\\")
            .replace("\\n", "\n")
            .replace("\\\"", "\"");
        let found = text.lines().filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let is_call = message.get("method").and_then(Value::as_str) == Some("tools/call");
            is_call.then_some(message)
        });
        calls.extend(found);
    }
    calls
}

/// A scrubber of a stream that keeps back only what looks like the beginning of the secret, at
/// the end of what has come.
pub(super) fn held_back(secret: &str, text: &str) -> Vec<u8> {
    let held = (1..=secret.len()).rev().find(|len| {
        secret
            .get(..*len)
            .is_some_and(|start| text.ends_with(start))
    });
    let shown = text.len().saturating_sub(held.unwrap_or(0));
    text.as_bytes().get(..shown).unwrap_or_default().to_vec()
}

/// A scrubber of a secret of three characters, the last of the token.
pub(super) fn without_pin(token: &str, text: &str) -> Vec<u8> {
    let at = token.len().saturating_sub(3);
    let (_, pin) = token.split_at(at);
    text.replace(pin, "[credential]").into_bytes()
}

//! The words that no output of ours has: scores, grades, rankings, the claim of being safe.

use serde_json::Value;

/// Words that would turn a row into a score or a general claim (§7 of the specification).
const FORBIDDEN: [&str; 14] = [
    "certified",
    "conformance",
    "conformant",
    "grade",
    "grades",
    "overall",
    "percent",
    "percentage",
    "rank",
    "ranking",
    "score",
    "secure",
    "star",
    "stars",
];

/// The first forbidden word, sign or fraction in `text`.
pub fn forbidden(text: &str) -> Option<String> {
    if is_percentage(text) {
        return Some("%".into());
    }
    text.split(|c: char| !(c.is_alphanumeric() || c == '/'))
        .find(|token| is_fraction(token) || is_forbidden_word(token))
        .map(str::to_owned)
}

/// The first forbidden word in any key or text of `value`, with where it stands.
pub fn forbidden_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => forbidden(text).map(|word| format!("`{word}` in `{text}`")),
        Value::Array(items) => items.iter().find_map(forbidden_in),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            forbidden(key)
                .map(|word| format!("`{word}` in the key `{key}`"))
                .or_else(|| forbidden_in(value))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A percent sign behind a number: alone it is a character like others.
fn is_percentage(text: &str) -> bool {
    text.split('%')
        .rev()
        .skip(1)
        .any(|before| before.trim_end().ends_with(|c: char| c.is_ascii_digit()))
}

fn is_forbidden_word(token: &str) -> bool {
    let token = token.to_lowercase();
    token.split('/').any(|word| FORBIDDEN.contains(&word))
}

/// `5/7`: as many passed of as many.
fn is_fraction(token: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    token
        .split_once('/')
        .is_some_and(|(a, b)| is_number(a) && is_number(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_in_any_dress_is_found() {
        for text in [
            "5/7 hold",
            "100 % refused",
            "the system is secure",
            "Score: 3",
            "rank 1",
            "certified",
            "grade A",
        ] {
            assert!(forbidden(text).is_some(), "{text}");
        }
        assert!(forbidden_in(&serde_json::json!({"a": [{"score": 1}]})).is_some());
    }

    #[test]
    fn plain_words_and_names_of_hooks_pass() {
        for text in [
            "refused by cgroup_inet: connect4/6 said EPERM",
            "started, restarted",
            "a segment has no `/`, `%` or control character",
            super::super::status::PASS_WORDS,
        ] {
            assert_eq!(forbidden(text), None, "{text}");
        }
    }
}

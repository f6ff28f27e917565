//! Compiled bytes are held to everything that the compiler promises.

use gate::{
    json::{JsonError, Limits, Value, canonical, parse},
    policy::{CompiledError, Policy},
};
use proptest::prelude::*;

use crate::scene::{demo, json};

/// The demo's compiled policy with the value at `path` replaced, or put in.
fn with(path: &[&str], value: Value) -> Vec<u8> {
    let mut whole = parse(&demo().to_bytes(), &Limits::POLICY).unwrap();
    let mut at = &mut whole;
    for key in path {
        let Value::Object(members) = at else {
            panic!("{key} is in no object");
        };
        at = members.entry((*key).to_owned()).or_insert(Value::Null);
    }
    *at = value;
    canonical(&whole)
}

fn refused(bytes: &[u8]) -> String {
    match Policy::from_bytes(bytes) {
        Ok(_) => panic!("taken: {}", String::from_utf8_lossy(bytes)),
        Err(error) => error.to_string(),
    }
}

#[test]
fn bytes_that_the_compiler_would_not_write_are_refused() {
    let text = |it: &str| Value::Text(it.into());
    for (path, value, said) in [
        (&["format"][..], json("2"), "format 2"),
        (&["extra"], json("1"), "unknown field `extra`"),
        (
            &["tools", "send_message", "extra"],
            json("1"),
            "unknown field `extra`",
        ),
        (
            &["tools", "send_message", "on_taint"],
            text("pass"),
            "`pass` is only for tools whose `risk` is \"read\"",
        ),
        (
            &["tools", "send_message", "credential"],
            text("other"),
            "credential `other` is unknown",
        ),
        (
            &["tools", "send_message", "request", "origin"],
            text("https://evil.example.test"),
            "not in the floor",
        ),
        (
            &["tools", "send_message", "request", "origin"],
            text("http://evil.example.test"),
            "plain http",
        ),
        (
            &["tools", "send_message", "request", "method"],
            text("DELETE"),
            "has no body",
        ),
        (
            &["tools", "send_message", "request", "path"],
            json(r#"[[{"literal":"v1"}],[{"literal":".."}]]"#),
            "segment `.` or `..`",
        ),
        (
            &["tools", "send_message", "request", "path"],
            json(r#"[[{"literal":"v1/messages"}]]"#),
            "has '/' in a path",
        ),
        (
            &["tools", "send_message", "request", "headers", "host"],
            json(r#"[{"literal":"evil.example.test"}]"#),
            "header `host`",
        ),
        (
            &["tools", "send_message", "request", "headers", "x-a"],
            json(r#"[{"literal":"a\r\nb: c"}]"#),
            "visible ASCII",
        ),
        (
            &["tools", "send_message", "request", "query"],
            json(r#"[["a",[{"literal":"1&b=2"}]]]"#),
            "in the query",
        ),
        (
            &["tools", "send_message", "arguments", "to", "authority"],
            json(r#"{"verified":{"value":"other"}}"#),
            "value `other` is unknown",
        ),
        (
            &["tools", "send_message", "arguments", "to", "type"],
            json(r#"{"string":{"max_length":9,"min_length":0}}"#),
            "differ from those of `customer`",
        ),
        (
            &["credentials", "demo", "floor", "addresses"],
            json(r#"["public"]"#),
            "does not admit the address",
        ),
        (
            &["credentials", "demo", "floor", "paths"],
            json("[]"),
            "nothing is listed",
        ),
        (
            &["session", "read_only"],
            json(r#"["/a/../b"]"#),
            "is not an absolute path",
        ),
        (&["session", "profile"], text("none"), "unknown variant"),
    ] {
        let error = refused(&with(path, value));
        assert!(error.contains(said), "{path:?}: {error}");
    }
}

#[test]
fn another_writing_of_the_same_rules_is_refused() {
    let bytes = demo().to_bytes();
    let spaced = [&bytes[..], b" "].concat();
    assert_eq!(
        Policy::from_bytes(&spaced),
        Err(CompiledError::Json(JsonError::NotCanonical))
    );
    // RFC 8785 form, and not what the compiler writes for it.
    for (path, value) in [
        (
            &["credentials", "demo", "floor", "addresses"][..],
            json(r#"["127.0.0.1"]"#),
        ),
        (
            &["tools", "whoami", "request", "origin"],
            Value::Text("http://127.0.0.1:018080".into()),
        ),
    ] {
        assert!(Policy::from_bytes(&with(path, value)).is_err(), "{path:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn a_changed_byte_is_refused_or_is_another_policy(at in any::<prop::sample::Index>(), xor in 1..=255_u8) {
        let policy = demo();
        let mut bytes = policy.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        if let Ok(other) = Policy::from_bytes(&bytes) {
            prop_assert_eq!(other.to_bytes(), bytes);
            prop_assert_ne!(other.hash(), policy.hash());
        }
    }
}

#[test]
fn each_field_that_a_worker_keeps_for_itself_is_in_no_policy() {
    for field in gate::request::CONNECTOR_FIELDS {
        let literal = json(r#"[{"literal":"x"}]"#);
        let template = ["tools", "send_message", "request", "headers", field];
        let placement = ["credentials", "demo", "placement", "header"];
        for bytes in [
            with(&template, literal),
            with(&placement, Value::Text(field.into())),
        ] {
            let said = refused(&bytes);
            assert!(said.contains("connector's to set"), "{field}: {said}");
        }
    }
    // What carries a credential elsewhere is still a placement.
    let placement = ["credentials", "demo", "placement", "header"];
    let bytes = with(&placement, Value::Text("x-api-key".into()));
    assert!(Policy::from_bytes(&bytes).is_ok());
}

#[test]
fn a_trusted_workspace_stands_beside_trusted_results_alone() {
    let trusted = || Value::Text("trusted".into());
    let workspace = ["session", "workspace"];
    let said = refused(&with(&workspace, trusted()));
    assert!(said.contains("`read_note`"), "{said}");
    // The one untrusted tool of the demo, vouched for.
    let mut whole = parse(&with(&workspace, trusted()), &Limits::POLICY).unwrap();
    let mut at = &mut whole;
    for key in ["tools", "read_note", "result", "label"] {
        let Value::Object(members) = at else {
            panic!("{key} is in no object");
        };
        at = members.get_mut(key).unwrap();
    }
    *at = trusted();
    assert!(Policy::from_bytes(&canonical(&whole)).is_ok());
}

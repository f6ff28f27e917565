//! Schemas of somebody who wants an argument to pass for free text. Each has to stay locked.
#![expect(clippy::expect_used, reason = "a test fails by it")]

use custody_scan::{
    infer::{self, Authority, Tier},
    input,
    schema::{Kind, Unknown},
};
use serde::Deserialize;

/// Each with what it tries, and the argument that has to stay locked.
const CASES: &[u8] = include_bytes!("../../../fixtures/authority/ours/stranger.json");

#[derive(Deserialize)]
struct Case {
    tries: String,
    tool: String,
    schema: serde_json::Value,
    locked: String,
}

/// A tool with this schema, of which it only lacks the type.
fn export(tool: &str, schema: &str) -> input::Export {
    let schema = schema.replacen('{', r#"{"type":"object","#, 1);
    let text = format!(r#"{{"tools":[{{"name":"{tool}","inputSchema":{schema}}}]}}"#);
    input::parse("stranger.json", text.as_bytes()).expect("an export")
}

#[test]
fn what_only_looks_like_free_text_is_locked() {
    let cases: Vec<Case> = serde_json::from_slice(CASES).expect("cases");
    let mut free = Vec::new();
    for case in cases {
        let export = export(&case.tool, &case.schema.to_string());
        let scanned = infer::scan(&export, &|_| Tier::Unknown).expect("a schema");
        let mut arguments = scanned[0].arguments();
        match arguments.find(|(argument, _)| argument.path == case.locked) {
            Some((_, judged)) if judged.inferred.authority == Authority::Locked => {}
            Some((_, judged)) => free.push((case.tries, judged.inferred.reason.as_str())),
            None => free.push((case.tries, "not seen")),
        }
    }
    assert!(free.is_empty(), "{free:#?}");
}

#[test]
fn free_text_is_free() {
    for (tool, name) in [
        ("send_mail", "body"),
        ("create_issue", "description"),
        ("post_note", "commitMessage"),
        ("add_note", "note"),
        ("send_message", "message"),
        ("delete_account_request", "text"),
        ("create_workflow", "description"),
    ] {
        let export = export(
            tool,
            &format!(r#"{{"properties":{{"{name}":{{"type":"string"}}}}}}"#),
        );
        let scanned = infer::scan(&export, &|_| Tier::Unknown).unwrap();
        let (_, judged) = scanned[0].arguments().next().unwrap();
        assert_eq!(judged.inferred.authority, Authority::Payload, "{name}");
    }
}

#[test]
fn names_that_differ_by_case_or_form_alone_are_looked_at() {
    for schema in [
        r#"{"properties":{"body":{"type":"string"},"Body":{"type":"string"}}}"#,
        r#"{"properties":{"caf\u00e9":{"type":"string"},"cafe\u0301":{"type":"string"}}}"#,
        r#"{"properties":{"text":{"type":"string"},"\uff54ext":{"type":"string"}}}"#,
    ] {
        let export = export("t", schema);
        let scanned = infer::scan(&export, &|_| Tier::Unknown).unwrap();
        for (argument, judged) in scanned[0].arguments() {
            let collides = argument
                .obligations
                .iter()
                .any(|it| it.kind == Kind::Collision);
            assert!(collides, "{} of {schema}", argument.path);
            assert_eq!(
                judged.inferred.authority,
                Authority::Locked,
                "{}",
                argument.path
            );
        }
    }
}

#[test]
fn arguments_that_a_schema_does_not_name_are_not_refused_unless_it_says_so() {
    for (schema, unknown) in [
        (r#"{"properties":{}}"#, Unknown::Taken),
        (
            r#"{"properties":{},"additionalProperties":true}"#,
            Unknown::Taken,
        ),
        (
            r#"{"properties":{},"additionalProperties":{"type":"string"}}"#,
            Unknown::Taken,
        ),
        (
            r#"{"properties":{},"patternProperties":{"^x-":{}},"additionalProperties":false}"#,
            Unknown::Taken,
        ),
        (
            r#"{"properties":{},"additionalProperties":false}"#,
            Unknown::Refused,
        ),
        (
            r#"{"properties":{},"unevaluatedProperties":false}"#,
            Unknown::Refused,
        ),
    ] {
        let export = export("t", schema);
        let scanned = infer::scan(&export, &|_| Tier::Unknown).unwrap();
        assert_eq!(scanned[0].schema.unknown, unknown, "{schema}");
    }
}

/// A neutral name, and a description that begins with what is done.
#[test]
fn a_tool_that_says_that_it_runs_code_has_no_free_text() {
    let text = r#"[{"name":"helper","description":"Runs what it is given.","inputSchema":
        {"type":"object","properties":{"text":{"type":"string"}}}}]"#;
    let export = input::parse("stranger.json", text.as_bytes()).unwrap();
    let scanned = infer::scan(&export, &|_| Tier::Unknown).unwrap();
    let (_, judged) = scanned[0].arguments().next().unwrap();
    assert_eq!(judged.inferred.authority, Authority::Locked);
}

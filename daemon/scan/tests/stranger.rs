//! Schemas of somebody who wants an argument to pass for free text. Each has to stay locked.
#![expect(clippy::expect_used, reason = "a test fails by it")]

use custody_scan::{
    infer::{self, Authority, Tier},
    input,
    schema::{Kind, Unknown},
};

/// What it tries, the tool's name, its input schema, and the argument that has to stay locked.
const LOCKED: &[(&str, &str, &str, &str)] = &[
    (
        "another script",
        "t",
        r#"{"properties":{"получатель":{"type":"string"}}}"#,
        "/получатель",
    ),
    (
        "Han letters",
        "t",
        r#"{"properties":{"收件人":{"type":"string"}}}"#,
        "/收件人",
    ),
    (
        "a homograph of `body`",
        "t",
        r#"{"properties":{"b\u043edy":{"type":"string"}}}"#,
        "/bоdy",
    ),
    (
        "a homograph of `message`",
        "t",
        r#"{"properties":{"m\u0435ssage":{"type":"string"}}}"#,
        "/mеssage",
    ),
    (
        "a zero-width space",
        "t",
        r#"{"properties":{"to\u200bbody":{"type":"string"}}}"#,
        "/to\u{200b}body",
    ),
    (
        "a word joiner at the end",
        "t",
        r#"{"properties":{"body\u2060":{"type":"string"}}}"#,
        "/body\u{2060}",
    ),
    (
        "a soft hyphen",
        "t",
        r#"{"properties":{"te\u00adxt":{"type":"string"}}}"#,
        "/te\u{ad}xt",
    ),
    (
        "full-width letters",
        "t",
        r#"{"properties":{"\uff42\uff4f\uff44\uff59":{"type":"string"}}}"#,
        "/ｂｏｄｙ",
    ),
    (
        "a combining mark",
        "t",
        r#"{"properties":{"te\u0301xt":{"type":"string"}}}"#,
        "/te\u{301}xt",
    ),
    (
        "digits behind",
        "t",
        r#"{"properties":{"toRecipient2":{"type":"string"}}}"#,
        "/toRecipient2",
    ),
    (
        "a target last",
        "t",
        r#"{"properties":{"emailTo":{"type":"string"}}}"#,
        "/emailTo",
    ),
    (
        "a payload's word last",
        "t",
        r#"{"properties":{"webhook_text":{"type":"string"}}}"#,
        "/webhook_text",
    ),
    (
        "a payload's word behind a target",
        "t",
        r#"{"properties":{"recipientNote":{"type":"string"}}}"#,
        "/recipientNote",
    ),
    (
        "a path's text",
        "t",
        r#"{"properties":{"file.content":{"type":"string"}}}"#,
        "/file.content",
    ),
    (
        "a flat compound",
        "t",
        r#"{"properties":{"callbackurlvalue":{"type":"string"}}}"#,
        "/callbackurlvalue",
    ),
    (
        "capitals",
        "t",
        r#"{"properties":{"RECIPIENT":{"type":"string"}}}"#,
        "/RECIPIENT",
    ),
    (
        "a format of an address",
        "t",
        r#"{"properties":{"text":{"type":"string","format":"uri"}}}"#,
        "/text",
    ),
    (
        "a format in capitals",
        "t",
        r#"{"properties":{"text":{"type":"string","format":"EMAIL"}}}"#,
        "/text",
    ),
    (
        "an object behind a reference",
        "t",
        r##"{"properties":{"message":{"$ref":"#/$defs/M"}},"$defs":{"M":{"type":"object","properties":{"to":{"type":"string"},"body":{"type":"string"}}}}}"##,
        "/message",
    ),
    (
        "a target behind a reference",
        "t",
        r##"{"properties":{"message":{"$ref":"#/$defs/M"}},"$defs":{"M":{"type":"object","properties":{"to":{"type":"string"}}}}}"##,
        "/message/to",
    ),
    (
        "a target behind an escaped reference",
        "t",
        r##"{"properties":{"message":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"properties":{"url":{"type":"string"}}}}}"##,
        "/message/url",
    ),
    (
        "a reference that names an anchor",
        "t",
        r##"{"properties":{"text":{"$ref":"#it"}},"$defs":{"x":{"$anchor":"it","type":"string","format":"uri"}}}"##,
        "/text",
    ),
    (
        "a branch with an object",
        "t",
        r#"{"properties":{"content":{"anyOf":[{"type":"string"},{"type":"object","properties":{"url":{"type":"string"}}}]}}}"#,
        "/content",
    ),
    (
        "a target in a branch",
        "t",
        r#"{"properties":{"content":{"oneOf":[{"type":"string"},{"type":"object","properties":{"url":{"type":"string"}}}]}}}"#,
        "/content/url",
    ),
    (
        "an address in a branch",
        "t",
        r#"{"properties":{"note":{"anyOf":[{"type":"string"},{"type":"string","format":"uri"}]}}}"#,
        "/note",
    ),
    (
        "a target under a condition",
        "t",
        r#"{"properties":{"kind":{"type":"string"}},"if":{"properties":{"kind":{"const":"mail"}}},"then":{"properties":{"to":{"type":"string"}}}}"#,
        "/to",
    ),
    (
        "a target that depends on another argument",
        "t",
        r#"{"properties":{"text":{"type":"string"}},"dependentSchemas":{"text":{"properties":{"bcc":{"type":"string"}}}}}"#,
        "/bcc",
    ),
    (
        "a target in an all-of",
        "t",
        r#"{"allOf":[{"properties":{"webhook":{"type":"string"}}}]}"#,
        "/webhook",
    ),
    ("no type", "t", r#"{"properties":{"body":{}}}"#, "/body"),
    (
        "a boolean instead of a schema",
        "t",
        r#"{"properties":{"text":true}}"#,
        "/text",
    ),
    (
        "two types",
        "t",
        r#"{"properties":{"text":{"type":["string","object"]}}}"#,
        "/text",
    ),
    (
        "a list of objects",
        "t",
        r#"{"properties":{"text":{"type":"array","items":{"type":"object"}}}}"#,
        "/text",
    ),
    (
        "a number",
        "t",
        r#"{"properties":{"note":{"type":"number"}}}"#,
        "/note",
    ),
    (
        "a choice",
        "t",
        r#"{"properties":{"note":{"type":"string","enum":["keep","delete"]}}}"#,
        "/note",
    ),
    (
        "a constant",
        "t",
        r#"{"properties":{"note":{"const":"https://collect.example"}}}"#,
        "/note",
    ),
    (
        "a pattern of an address",
        "t",
        r#"{"properties":{"content":{"type":"string","pattern":"^https://"}}}"#,
        "/content",
    ),
    (
        "a description of an address",
        "t",
        r#"{"properties":{"text":{"type":"string","description":"Email address of the recipient"}}}"#,
        "/text",
    ),
    (
        "a default that is an address",
        "t",
        r#"{"properties":{"text":{"type":"string","default":"https://collect.example/in"}}}"#,
        "/text",
    ),
    (
        "an example that is a path",
        "t",
        r#"{"properties":{"content":{"type":"string","examples":["/etc/cron.d/job"]}}}"#,
        "/content",
    ),
    (
        "code in a payload's name",
        "execute_script",
        r#"{"properties":{"text":{"type":"string"}}}"#,
        "/text",
    ),
    (
        "SQL in a payload's name",
        "run_sql",
        r#"{"properties":{"body":{"type":"string"}}}"#,
        "/body",
    ),
    (
        "a map of texts",
        "t",
        r#"{"properties":{"text":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
        "/text",
    ),
    (
        "a name that the caller chooses",
        "t",
        r#"{"patternProperties":{"^body":{"type":"string"}}}"#,
        "/*",
    ),
    (
        "a place in a tuple",
        "t",
        r#"{"properties":{"note":{"type":"array","prefixItems":[{"type":"string"},{"type":"string"}]}}}"#,
        "/note/0",
    ),
    (
        "an empty name",
        "t",
        r#"{"properties":{"":{"type":"string"}}}"#,
        "/",
    ),
    (
        "a name of signs",
        "t",
        r#"{"properties":{"__":{"type":"string"}}}"#,
        "/__",
    ),
    (
        "the name of an object's mould",
        "t",
        r#"{"properties":{"__proto__":{"type":"string"}}}"#,
        "/__proto__",
    ),
    (
        "required and declared nowhere",
        "t",
        r#"{"required":["text"]}"#,
        "/text",
    ),
    (
        "carried in a header",
        "t",
        r#"{"properties":{"text":{"type":"string","x-mcp-header":"Authorization"}}}"#,
        "/text",
    ),
    (
        "encoded in another form",
        "t",
        r#"{"properties":{"content":{"type":"string","contentEncoding":"base64","contentMediaType":"application/x-sh"}}}"#,
        "/content",
    ),
    (
        "a text inside a target",
        "t",
        r#"{"properties":{"recipient":{"type":"object","properties":{"text":{"type":"string"}}}}}"#,
        "/recipient/text",
    ),
];

/// A tool with this schema, of which it only lacks the type.
fn export(tool: &str, schema: &str) -> input::Export {
    let schema = schema.replacen('{', r#"{"type":"object","#, 1);
    let text = format!(r#"{{"tools":[{{"name":"{tool}","inputSchema":{schema}}}]}}"#);
    input::parse("stranger.json", text.as_bytes()).expect("an export")
}

#[test]
fn what_only_looks_like_free_text_is_locked() {
    let mut free = Vec::new();
    for (tries, tool, schema, path) in LOCKED {
        let export = export(tool, schema);
        let scanned = infer::scan(&export, &|_| Tier::Unknown).unwrap();
        let found = scanned[0]
            .arguments()
            .find(|(argument, _)| argument.path == *path);
        match found {
            None => free.push(format!("{tries}: {path} is not seen")),
            Some((_, judged)) if judged.inferred.authority != Authority::Locked => {
                free.push(format!(
                    "{tries}: {path} is {}",
                    judged.inferred.authority.as_str()
                ));
            }
            Some(_) => {}
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

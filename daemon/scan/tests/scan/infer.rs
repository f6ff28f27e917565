//! What is inferred: nothing that reaches somebody or chooses something is free.

use custody_scan::{
    infer::{self, Authority, Confidence, Reason, Scanned, Standing, Tier},
    input::{self, Export},
    schema::{Kind, Unknown},
};
use gate::policy::Risk;

fn export(name: &str, schema: &str) -> Export {
    let text = format!(r#"[{{"name":"{name}","inputSchema":{schema}}}]"#);
    input::parse("a.json", text.as_bytes()).unwrap()
}

fn scan(export: &Export) -> Scanned<'_> {
    infer::scan(export, &|_| Tier::Unknown).unwrap().remove(0)
}

/// Authority, confidence and reason of the argument at `path`.
fn verdict(name: &str, schema: &str, path: &str) -> (Authority, Confidence, Reason) {
    let export = export(name, schema);
    let scanned = scan(&export);
    let (_, judged) = scanned
        .arguments()
        .find(|(argument, _)| argument.path == path)
        .unwrap_or_else(|| panic!("no argument {path}"));
    let inferred = &judged.inferred;
    (inferred.authority, inferred.confidence, inferred.reason)
}

fn properties(properties: &str) -> String {
    format!(r#"{{"type":"object","properties":{properties}}}"#)
}

#[test]
fn a_plain_text_that_is_named_as_what_is_said_is_a_payload() {
    for name in [
        "body",
        "message",
        "commit_message",
        "issueText",
        "HTML-content",
        "reply",
    ] {
        let schema = properties(&format!(
            r#"{{"{name}":{{"type":"string","maxLength":99}}}}"#
        ));
        let found = verdict("create_issue", &schema, &format!("/{name}"));
        assert_eq!(
            found,
            (Authority::Payload, Confidence::High, Reason::PayloadName),
            "{name}"
        );
    }
    let optional = properties(r#"{"note":{"anyOf":[{"type":"string"},{"type":"null"}]}}"#);
    assert_eq!(verdict("add", &optional, "/note").0, Authority::Payload);
}

#[test]
fn a_target_is_locked_for_sure() {
    for name in [
        "to",
        "cc",
        "emailTo",
        "toRecipient2",
        "targeturl",
        "filePath",
        "api_key",
        "webhook.url",
        "sql",
        "email_body",
    ] {
        let schema = properties(&format!(r#"{{"{name}":{{"type":"string"}}}}"#));
        let found = verdict("send", &schema, &format!("/{name}"));
        assert_eq!(
            (found.0, found.1),
            (Authority::Locked, Confidence::High),
            "{name}"
        );
    }
    let format = properties(r#"{"text":{"type":"string","format":"uri"}}"#);
    assert_eq!(
        verdict("send", &format, "/text"),
        (Authority::Locked, Confidence::High, Reason::SinkType)
    );
}

#[test]
fn whatever_is_not_known_is_locked() {
    for (name, schema, path, reason) in [
        (
            "t",
            r#"{"topic":{"type":"string"}}"#,
            "/topic",
            Reason::UnknownName,
        ),
        (
            "t",
            r#"{"ticketId":{"type":"string"}}"#,
            "/ticketId",
            Reason::SelectorName,
        ),
        (
            "t",
            r#"{"amount":{"type":"number"}}"#,
            "/amount",
            Reason::NotText,
        ),
        (
            "t",
            r#"{"body":{"type":"object"}}"#,
            "/body",
            Reason::NotText,
        ),
        (
            "t",
            r#"{"body":{"type":["string","object"]}}"#,
            "/body",
            Reason::NotText,
        ),
        ("t", r#"{"body":{}}"#, "/body", Reason::NotText),
        ("t", r#"{"body":true}"#, "/body", Reason::NotText),
        (
            "t",
            r#"{"text":{"enum":["a","b"]}}"#,
            "/text",
            Reason::NotText,
        ),
        ("t", r#"{"text":{"const":"a"}}"#, "/text", Reason::NotText),
        ("t", r#"{"42":{"type":"string"}}"#, "/42", Reason::NoLetter),
        (
            "t",
            "{\"te\u{200b}xt\":{\"type\":\"string\"}}",
            "/te\u{200b}xt",
            Reason::ForeignName,
        ),
        (
            "t",
            "{\"t\u{435}xt\":{\"type\":\"string\"}}",
            "/t\u{435}xt",
            Reason::ForeignName,
        ),
        (
            "t",
            "{\"\u{ff54}ext\":{\"type\":\"string\"}}",
            "/\u{ff54}ext",
            Reason::ForeignName,
        ),
        (
            "t",
            r#"{"oldText":{"type":"string"}}"#,
            "/oldText",
            Reason::LookedFor,
        ),
        (
            "run_task",
            r#"{"text":{"type":"string"}}"#,
            "/text",
            Reason::CodeTool,
        ),
        (
            "set_password",
            r#"{"text":{"type":"string"}}"#,
            "/text",
            Reason::SecretTool,
        ),
        (
            "t",
            r#"{"text":{"type":"string","description":"URL to open"}}"#,
            "/text",
            Reason::Hinted,
        ),
        (
            "t",
            r#"{"text":{"type":"string","default":"https://a.test"}}"#,
            "/text",
            Reason::Hinted,
        ),
        (
            "t",
            r#"{"text":{"type":"string","pattern":"^https?://"}}"#,
            "/text",
            Reason::Hinted,
        ),
        (
            "t",
            r#"{"text":{"type":"string","x-mcp-header":"To"}}"#,
            "/text",
            Reason::Hinted,
        ),
        (
            "t",
            r#"{"text":{"type":"string","x-runs":true}}"#,
            "/text",
            Reason::Review,
        ),
        (
            "t",
            r#"{"text":{"type":"string","allOf":[{"not":{}}]}}"#,
            "/text",
            Reason::Review,
        ),
        (
            "t",
            r#"{"text":{"type":"string"},"Text":{"type":"string"}}"#,
            "/text",
            Reason::Review,
        ),
        (
            "t",
            r#"{"data":{"type":"object","additionalProperties":{"type":"string"}}}"#,
            "/data/*",
            Reason::ChosenName,
        ),
        (
            "t",
            r#"{"to":{"type":"object","properties":{"text":{"type":"string"}}}}"#,
            "/to/text",
            Reason::InsideTarget,
        ),
        (
            "t",
            r#"{"recipients":{"type":"array","items":{"type":"object","properties":{"note":{"type":"string"}}}}}"#,
            "/recipients/*/note",
            Reason::InsideTarget,
        ),
    ] {
        let found = verdict(name, &properties(schema), path);
        assert_eq!((found.0, found.2), (Authority::Locked, reason), "{schema}");
    }
    let long = "a".repeat(600);
    let schema = properties(&format!(r#"{{"{long}_text":{{"type":"string"}}}}"#));
    assert_eq!(
        verdict("t", &schema, &format!("/{long}_text")).2,
        Reason::LongName
    );
}

#[test]
fn what_is_hidden_in_branches_references_and_conditions_is_an_argument() {
    let schema = r##"{"type":"object","properties":{"kind":{"type":"string"},"text":{"$ref":"#/$defs/t"}},
        "anyOf":[{"properties":{"url":{"type":"string"}}},{"$ref":"#/$defs/mail"}],
        "if":{"properties":{"kind":{"const":"x"}}},"then":{"properties":{"webhook":{"type":"string"}}},
        "dependentSchemas":{"kind":{"properties":{"path":{"type":"string"}}}},
        "required":["account","kind"],
        "$defs":{"mail":{"properties":{"to":{"type":"string"}}},"t":{"anyOf":[{"type":"string"},{"type":"string","format":"email"}]}}}"##;
    let export = export("t", schema);
    let scanned = scan(&export);
    let found: Vec<&str> = scanned
        .arguments()
        .map(|(it, _)| it.path.as_str())
        .collect();
    assert_eq!(
        found,
        [
            "/account", "/kind", "/path", "/text", "/to", "/url", "/webhook"
        ]
    );
    for (argument, judged) in scanned.arguments() {
        assert_eq!(
            judged.inferred.authority,
            Authority::Locked,
            "{}",
            argument.path
        );
    }
    assert_eq!(scanned.schema.unknown, Unknown::Taken);
    let kinds: Vec<Kind> = scanned
        .schema
        .obligations
        .iter()
        .map(|it| it.kind)
        .collect();
    assert!(kinds.contains(&Kind::Composite), "{kinds:?}");
    let (account, _) = scanned.arguments().next().unwrap();
    assert_eq!(account.obligations[0].kind, Kind::Undeclared);
}

#[test]
fn a_reference_out_of_the_file_is_flagged_and_leaves_the_argument_locked() {
    for (reference, kind) in [
        ("https://example.test/s.json", Kind::RemoteReference),
        ("file:///etc/passwd", Kind::RemoteReference),
        ("#/$defs/none", Kind::MissingReference),
        ("#anchor", Kind::MissingReference),
    ] {
        let schema = properties(&format!(
            r##"{{"text":{{"type":"string","$ref":"{reference}"}}}}"##
        ));
        let export = export("t", &schema);
        let scanned = scan(&export);
        let (argument, judged) = scanned.arguments().next().unwrap();
        assert_eq!(argument.obligations[0].kind, kind, "{reference}");
        assert_eq!(judged.inferred.authority, Authority::Locked, "{reference}");
    }
}

#[test]
fn a_tuple_is_flagged_and_its_positions_are_locked() {
    let schema = properties(
        r#"{"transfer":{"type":"array","prefixItems":[{"type":"string"},{"type":"string"}],"items":false}}"#,
    );
    let export = export("t", &schema);
    let scanned = scan(&export);
    let paths: Vec<&str> = scanned
        .arguments()
        .map(|(it, _)| it.path.as_str())
        .collect();
    assert_eq!(paths, ["/transfer", "/transfer/0", "/transfer/1"]);
    let (tuple, _) = scanned.arguments().next().unwrap();
    assert!(tuple.obligations.iter().any(|it| it.kind == Kind::Tuple));
    assert!(
        scanned
            .judged
            .iter()
            .all(|it| it.inferred.authority == Authority::Locked)
    );
}

#[test]
fn only_a_closed_schema_without_maps_refuses_unknown_arguments() {
    for (schema, unknown) in [
        (
            r#"{"type":"object","additionalProperties":false}"#,
            Unknown::Refused,
        ),
        (
            r#"{"type":"object","unevaluatedProperties":false}"#,
            Unknown::Refused,
        ),
        (r#"{"type":"object"}"#, Unknown::Taken),
        (
            r#"{"type":"object","additionalProperties":true}"#,
            Unknown::Taken,
        ),
        (
            r#"{"type":"object","additionalProperties":false,"patternProperties":{"^x":{}}}"#,
            Unknown::Taken,
        ),
        (
            r#"{"anyOf":[{"additionalProperties":false},{}]}"#,
            Unknown::Taken,
        ),
    ] {
        assert_eq!(
            scan(&export("t", schema)).schema.unknown,
            unknown,
            "{schema}"
        );
    }
}

#[test]
fn a_declaration_opens_only_what_is_locked_for_want_of_knowledge() {
    let schema = properties(
        r#"{"limit":{"type":"integer"},"query":{"type":"string"},"url":{"type":"string"},"data":{"type":"object","properties":{"x":{"type":"string"}}}}"#,
    );
    let export = export("search", &schema);
    let under = |tier: Tier| -> Vec<Authority> {
        let scanned = infer::scan(&export, &|_| tier).unwrap().remove(0);
        scanned
            .arguments()
            .map(|(argument, judged)| {
                let inferred = judged.inferred.clone();
                assert_eq!(
                    inferred.authority, Locked,
                    "a declaration changes no inference"
                );
                inferred.under(scanned.risk.effective, argument).authority
            })
            .collect()
    };
    use Authority::{Bounded, Locked};
    // data, data/x, limit, query, url
    assert_eq!(
        under(Tier::Known(Risk::Read)),
        [Locked, Locked, Bounded, Bounded, Locked]
    );
    for tier in [
        Tier::Unknown,
        Tier::Known(Risk::Write),
        Tier::Known(Risk::Financial),
    ] {
        assert!(under(tier).iter().all(|it| *it == Locked), "{tier}");
    }
}

#[test]
fn annotations_are_held_against_what_is_known() {
    let text = r#"[{"name":"tabs","annotations":{"title":"T","readOnlyHint":false,"destructiveHint":true,"openWorldHint":false},
        "inputSchema":{"properties":{"action":{"enum":["list","close"]},"url":{"type":"string"}}}}]"#;
    let export = input::parse("a.json", text.as_bytes()).unwrap();
    let standing = |tier: Tier| -> Vec<Standing> {
        let scanned = infer::scan(&export, &|_| tier).unwrap().remove(0);
        assert_eq!(scanned.branches.unwrap().argument, "/action");
        scanned.annotations.iter().map(|it| it.standing).collect()
    };
    use Standing::{Conflict, Consistent, Unresolved};
    // destructiveHint, openWorldHint, readOnlyHint
    assert_eq!(standing(Tier::Unknown), [Unresolved, Conflict, Unresolved]);
    assert_eq!(
        standing(Tier::Known(Risk::Write)),
        [Conflict, Conflict, Consistent]
    );
    assert_eq!(
        standing(Tier::Known(Risk::Destructive)),
        [Consistent, Conflict, Consistent]
    );
    assert_eq!(
        standing(Tier::Known(Risk::Read)),
        [Conflict, Conflict, Conflict]
    );
}

#[test]
fn tools_whose_names_differ_by_case_or_form_alone_are_flagged() {
    let text = r#"[{"name":"send_mail","inputSchema":{"type":"object"}},{"name":"sendMail","inputSchema":{"type":"object"}},
        {"name":"send","inputSchema":{"type":"object"}}]"#;
    let export = input::parse("a.json", text.as_bytes()).unwrap();
    let scanned = infer::scan(&export, &|_| Tier::Unknown).unwrap();
    let collides = |it: &Scanned<'_>| {
        it.schema
            .obligations
            .iter()
            .any(|it| it.kind == Kind::Collision)
    };
    assert_eq!(
        scanned.iter().map(collides).collect::<Vec<_>>(),
        [true, true, false]
    );
}

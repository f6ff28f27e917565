//! What a schema says of a value: never less than may be.

use custody_scan::{
    infer::{self, Scanned, Tier},
    input::{self, Export},
    schema::Kind,
};

fn export(argument: &str) -> Export {
    let text = format!(
        r##"[{{"name":"t","inputSchema":{{"type":"object","properties":{{"a":{argument}}},
        "$defs":{{"short":{{"type":"string","maxLength":5}},"mail":{{"type":"string","format":"email"}}}}}}}}]"##
    );
    input::parse("a.json", text.as_bytes()).unwrap()
}

fn scan(export: &Export) -> Scanned<'_> {
    infer::scan(export, &|_| Tier::Unknown).unwrap().remove(0)
}

#[test]
fn types_are_what_all_say_and_any_branch_says() {
    for (schema, kind) in [
        (r#"{"type":"string"}"#, "string"),
        (r#"{"type":["string","null"]}"#, "string | null"),
        (r#"{}"#, "any"),
        (r##"{"$ref":"#/$defs/short"}"##, "string"),
        (
            r##"{"type":["string","object"],"allOf":[{"$ref":"#/$defs/short"}]}"##,
            "string",
        ),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"object"}]}"#,
            "object | string",
        ),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            "string | null",
        ),
        (
            r#"{"type":"string","oneOf":[{"type":"number"},{"type":"object"}]}"#,
            "none",
        ),
        (
            r#"{"if":{"type":"string"},"then":{"type":"string"}}"#,
            "any",
        ),
        (r#"{"enum":["a",1]}"#, "enum of integer | string"),
        (
            r#"{"anyOf":[{"const":"a"},{"const":"b"}]}"#,
            "enum of string",
        ),
        (r#"{"anyOf":[{"const":"a"},{"type":"string"}]}"#, "string"),
        (
            r#"{"type":"array","items":{"type":"array","items":{"type":"integer"}}}"#,
            "array of array of integer",
        ),
    ] {
        let export = export(schema);
        let scanned = scan(&export);
        let (argument, _) = scanned.arguments().next().unwrap();
        assert_eq!(argument.kind(), kind, "{schema}");
    }
}

#[test]
fn of_bounds_the_tightest_counts_and_one_that_a_branch_has_not_is_none() {
    for (schema, most) in [
        (r#"{"maxLength":9}"#, Some("9")),
        (r##"{"maxLength":9,"$ref":"#/$defs/short"}"##, Some("5")),
        (
            r##"{"allOf":[{"maxLength":3},{"$ref":"#/$defs/short"}]}"##,
            Some("3"),
        ),
        (
            r##"{"anyOf":[{"$ref":"#/$defs/short"},{"type":"string"}]}"##,
            None,
        ),
        (
            r##"{"anyOf":[{"$ref":"#/$defs/short"},{"type":"null"}]}"##,
            Some("5"),
        ),
        (r#"{"then":{"maxLength":2}}"#, None),
        (r#"{"maxLength":-1}"#, None),
        (r#"{"maxLength":"9"}"#, None),
    ] {
        let export = export(schema);
        let scanned = scan(&export);
        let (argument, _) = scanned.arguments().next().unwrap();
        let found = argument.bounds.numbers.get("maxLength");
        let found = found.map(|it| String::from_utf8(gate::json::canonical(it)).unwrap());
        assert_eq!(found.as_deref(), most, "{schema}");
    }
}

/// A format that holds sometimes says what the value may be.
#[test]
fn a_format_counts_in_whichever_branch_it_stands() {
    for schema in [
        r#"{"type":"string","format":"email"}"#,
        r##"{"$ref":"#/$defs/mail"}"##,
        r##"{"anyOf":[{"type":"string"},{"$ref":"#/$defs/mail"}]}"##,
        r#"{"type":"string","if":{},"then":{"format":"email"}}"#,
        r#"{"type":"array","items":{"type":"string","format":"email"}}"#,
    ] {
        let export = export(schema);
        let scanned = scan(&export);
        let (argument, _) = scanned.arguments().next().unwrap();
        let formats: Vec<&str> = argument.bounds.formats.iter().map(|it| &**it).collect();
        assert_eq!(formats, ["email"], "{schema}");
    }
}

#[test]
fn what_is_not_decided_on_is_listed_with_its_place() {
    for (schema, kind, place) in [
        (r#"true"#, Kind::BooleanSchema, ""),
        (r#"false"#, Kind::Contradiction, ""),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"string"}]}"#,
            Kind::Composite,
            "",
        ),
        (r#"{"not":{"type":"string"}}"#, Kind::Composite, ""),
        (r#"{"type":["string","integer"]}"#, Kind::UnionType, ""),
        (r#"{}"#, Kind::Untyped, ""),
        (r#"{"type":"text"}"#, Kind::Malformed, ""),
        (
            r#"{"type":"integer","exclusiveMinimum":true}"#,
            Kind::Malformed,
            "",
        ),
        (
            r#"{"type":"object","properties":{"b":{"type":"string"}}}"#,
            Kind::Nested,
            "",
        ),
        (
            r#"{"type":"object","properties":{"b":{"type":"string"}}}"#,
            Kind::OpenObject,
            "",
        ),
        (
            r#"{"type":"object","patternProperties":{"^x":{"type":"string"}}}"#,
            Kind::PropertyMap,
            "",
        ),
        (
            r#"{"type":"array","items":[{"type":"string"}]}"#,
            Kind::Tuple,
            "",
        ),
        (
            r##"{"type":"array","items":{"$ref":"https://example.test/x"}}"##,
            Kind::RemoteReference,
            "/items/$ref",
        ),
        (r##"{"$dynamicRef":"#x"}"##, Kind::MissingReference, ""),
        (r#"{"type":"string","x-more":1}"#, Kind::Unmodelled, ""),
        (r#"{"type":"string","$id":"other"}"#, Kind::Unmodelled, ""),
    ] {
        let export = export(schema);
        let scanned = scan(&export);
        let (argument, _) = scanned.arguments().next().unwrap();
        let at = format!("/0/inputSchema/properties/a{place}");
        let found = argument
            .obligations
            .iter()
            .any(|it| it.kind == kind && it.pointer == at);
        assert!(found, "{schema}: {:?}", argument.obligations);
    }
}

#[test]
fn a_change_of_what_is_not_modelled_changes_its_digest_and_nothing_else_does() {
    let digest = |argument: &str| scan(&export(argument)).schema.unmodelled_sha256;
    assert_eq!(digest(r#"{"type":"string","maxLength":5}"#), None);
    let one = digest(r#"{"type":"string","x-more":1}"#);
    assert!(one.is_some());
    assert_eq!(
        digest(r#"{"x-more":1.0,"type":"string","maxLength":7}"#),
        one
    );
    assert_ne!(digest(r#"{"type":"string","x-more":2}"#), one);
}

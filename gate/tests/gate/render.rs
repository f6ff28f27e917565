//! A value from a call fills its place and never becomes more.

use std::sync::LazyLock;

use gate::{
    call::Call,
    floor,
    json::{Limits, Value, parse},
    policy::Policy,
    request::{RenderError, render},
};
use proptest::prelude::*;

use crate::scene::compile;

fn policy() -> Policy {
    static POLICY: LazyLock<Policy> = LazyLock::new(read);
    POLICY.clone()
}

fn read() -> Policy {
    compile(
        "render",
        r#"
format = 1
[credentials.api]
connector = "http"
[credentials.api.floor]
origins = ["https://api.example.test"]
methods = ["POST"]
paths = ["/v1/{}/{}/end"]
[tools.t]
description = "Every place that a value can stand in."
credential = "api"
risk = "write"
[tools.t.request]
method = "POST"
url = "https://api.example.test/v1/{a}/x-{b}.json/end?q={c}&fixed=1&r={d}"
headers = { x-e = "v {e}", x-plain = "as it is" }
body = { f = "{f}", list = ["{f}", "{g}", 1, false, "plain"], deep = { g = "{g}" } }
[tools.t.arguments]
a = { authority = "payload", type = "string" }
b = { authority = "payload", type = "string" }
c = { authority = "payload", type = "string" }
d = { authority = "payload", type = "integer", optional = true }
e = { authority = "payload", type = "string" }
f = { authority = "payload", type = "string" }
g = { authority = "payload", type = "boolean", optional = true }
"#,
    )
}

fn call(members: &[(&str, Value)]) -> Call {
    Call {
        arguments: members
            .iter()
            .map(|(name, value)| ((*name).to_owned().try_into().unwrap(), value.clone()))
            .collect(),
        tool: "t".to_owned().try_into().unwrap(),
    }
}

fn texts(of: &[(&str, &str)]) -> Call {
    let mut members: Vec<(&str, Value)> = ["a", "b", "c", "e", "f"]
        .into_iter()
        .map(|name| (name, Value::Text("x".into())))
        .collect();
    for (name, text) in of {
        members.retain(|(it, _)| it != name);
        members.push((name, Value::Text((*text).into())));
    }
    call(&members)
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z./\\\\%?#&=:@;+ \r\n\t\u{0}-\u{1f}2efFE]{0,12}",
        any::<String>(),
        prop::sample::select(vec![
            "..",
            ".",
            "",
            "../..",
            "..%2f",
            "%2e%2e",
            "a/b",
            "a\\b",
            "a?b=c",
            "a#b",
            "a&r=9",
            "//evil.example.test",
            "@evil.example.test",
            "\r\nHost: evil.example.test",
            "..;",
            "\u{2215}",
            "\u{ff0f}",
            "a b",
            "100%",
        ])
        .prop_map(String::from),
    ]
    .prop_map(|it| it.replace('\0', ""))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn no_value_changes_host_method_segments_query_or_header_count(
        a in hostile(), b in hostile(), c in hostile(), e in hostile(), f in hostile(),
    ) {
        let policy = policy();
        let call = texts(&[("a", &a), ("b", &b), ("c", &c), ("e", &e), ("f", &f)]);
        let Ok(request) = render(&policy, &call) else { return Ok(()) };
        prop_assert_eq!(request.origin.to_string(), "https://api.example.test");
        prop_assert_eq!(request.method.as_str(), "POST");
        prop_assert!(request.target.bytes().all(|b| b.is_ascii_graphic() && b != b'#'));
        let (path, query) = request.target.split_once('?').unwrap();
        let segments: Vec<&str> = path.split('/').collect();
        prop_assert_eq!(segments.len(), 5);
        prop_assert_eq!((segments[0], segments[1], segments[4]), ("", "v1", "end"));
        prop_assert!(!segments[1..].iter().any(|it| matches!(*it, "" | "." | "..")));
        let names: Vec<&str> = query.split('&').map(|it| it.split_once('=').unwrap().0).collect();
        prop_assert_eq!(names, ["q", "fixed"]);
        prop_assert!(!query.contains('?'));
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        prop_assert_eq!(names, ["x-e", "x-plain", "content-type"]);
        for (_, value) in &request.headers {
            prop_assert!(value.bytes().all(|b| matches!(b, b' '..=b'~')));
        }
        // What is on the template's path is on the floor.
        prop_assert_eq!(floor::check(&policy.credential(&"api".to_owned().try_into().unwrap()).unwrap().floor, &request), Ok(()));
        let body = parse(&request.body, &Limits::CALL).unwrap();
        let Value::Object(members) = body else { panic!("{body:?}") };
        prop_assert_eq!(&members["f"], &Value::Text(f));
        prop_assert_eq!(members.len(), 3);
        // And each value comes out again as it went in.
        prop_assert_eq!(decode(segments[2]), a);
        prop_assert_eq!(decode(segments[3]), format!("x-{b}.json"));
        prop_assert_eq!(decode(query.split(['=', '&']).nth(1).unwrap()), c);
    }
}

fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let pair = [bytes.next().unwrap(), bytes.next().unwrap()];
            let pair = std::str::from_utf8(&pair).unwrap();
            out.push(u8::from_str_radix(pair, 16).unwrap());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn a_value_that_could_be_more_than_a_segment_is_refused() {
    let policy = policy();
    for text in [
        "", ".", "..", "a/b", "a\\b", "%2e%2e", "100%", "a\nb", "\u{7f}", "\u{85}",
        // Servlet containers cut these off at the `;`.
        ";", ";a", ".;", "..;", "..;v=1", ".;/", "..;;",
    ] {
        let rendered = render(&policy, &texts(&[("a", text)]));
        assert!(
            matches!(&rendered, Err(RenderError::NotSegment { argument }) if argument.as_str() == "a"),
            "{text:?}: {rendered:?}"
        );
    }
    for text in [
        "..a", "...", "a..b", "~", "\u{e4}", "a b", "\u{ff0f}", "a;b", "a;..", "...;", "a?b", "a#b",
    ] {
        assert!(render(&policy, &texts(&[("a", text)])).is_ok(), "{text:?}");
    }
}

#[test]
fn two_halves_make_no_dots() {
    let policy = compile(
        "halves",
        r#"
format = 1
[credentials.api]
connector = "http"
[credentials.api.floor]
origins = ["https://api.example.test"]
methods = ["GET"]
paths = ["/v1/{}"]
[tools.t]
description = ""
credential = "api"
risk = "read"
request = { method = "GET", url = "https://api.example.test/v1/.{a}" }
[tools.t.arguments]
a = { authority = "payload", type = "string" }
"#,
    );
    let rendered = |text: &str| render(&policy, &call(&[("a", Value::Text(text.into()))]));
    assert!(matches!(rendered("."), Err(RenderError::NotSegment { .. })));
    assert!(matches!(rendered(""), Err(RenderError::NotSegment { .. })));
    for text in [";", ";a", ".;", ".;v=1"] {
        let rendered = rendered(text);
        assert!(
            matches!(rendered, Err(RenderError::NotSegment { .. })),
            "{text}"
        );
    }
    assert_eq!(rendered("env").unwrap().target, "/v1/.env");
}

#[test]
fn the_vault_takes_no_call_that_the_gate_would_not_have_made() {
    let policy = policy();
    let mut wrong = texts(&[]);
    wrong.tool = "other".to_owned().try_into().unwrap();
    assert!(matches!(
        render(&policy, &wrong),
        Err(RenderError::Tool { .. })
    ));

    let mut wrong = texts(&[]);
    wrong.arguments.remove("f");
    assert!(matches!(
        render(&policy, &wrong),
        Err(RenderError::Missing { .. })
    ));

    let mut wrong = texts(&[]);
    let extra = "extra".to_owned().try_into().unwrap();
    wrong.arguments.insert(extra, Value::Null);
    assert!(matches!(
        render(&policy, &wrong),
        Err(RenderError::Extra { .. })
    ));

    let long = "x".repeat(8_193);
    for (name, value) in [
        ("a", Value::Null),
        ("a", Value::List(vec![])),
        ("f", Value::Text(long)),
        ("g", Value::Text("true".into())),
        ("d", Value::Text("1".into())),
    ] {
        let mut wrong = texts(&[]);
        wrong
            .arguments
            .insert(name.to_owned().try_into().unwrap(), value);
        assert!(
            matches!(render(&policy, &wrong), Err(RenderError::Misfit { .. })),
            "{name}"
        );
    }
}

#[test]
fn what_is_optional_and_left_out_leaves_its_place_out() {
    let policy = policy();
    let request = render(&policy, &texts(&[])).unwrap();
    assert_eq!(request.target, "/v1/x/x-x.json/end?q=x&fixed=1");
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        r#"{"deep":{},"f":"x","list":["x",1,false,"plain"]}"#
    );
    let mut whole = texts(&[]);
    whole.arguments.insert(
        "d".to_owned().try_into().unwrap(),
        Value::try_from(-3_i64).unwrap(),
    );
    whole
        .arguments
        .insert("g".to_owned().try_into().unwrap(), Value::Bool(true));
    let request = render(&policy, &whole).unwrap();
    assert_eq!(request.target, "/v1/x/x-x.json/end?q=x&fixed=1&r=-3");
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        r#"{"deep":{"g":true},"f":"x","list":["x",true,1,false,"plain"]}"#
    );
}

#[test]
fn a_header_takes_no_line_break_and_no_bare_end() {
    let policy = policy();
    for text in ["a\r\nb", "a\nb", "\u{e4}", "a ", "\t", "", "\u{7f}"] {
        assert!(
            matches!(
                render(&policy, &texts(&[("e", text)])),
                Err(RenderError::NotHeaderValue { .. })
            ),
            "{text:?}"
        );
    }
}

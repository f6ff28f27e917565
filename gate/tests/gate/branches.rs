//! Selectors, bounds and exactness, on a browser's tabs and on values that only look equal.

use gate::{decide::Verdict, id::PolicyName, policy::Policy};

use crate::scene::{Office, compile, json};

const TABS: &str = r#"
format = 1
[credentials.api]
connector = "http"
floor = { origins = ["https://api.example.test"], methods = ["POST"], paths = ["/v1/tabs"] }
[tools.tabs]
description = ""
credential = "api"
risk = "write"
request = { method = "POST", url = "https://api.example.test/v1/tabs", body = "{*}" }
[tools.tabs.arguments]
action = { authority = "agent", role = "typed", type = "enum", one_of = ["close", "list"] }
index = { authority = "agent", role = "identifier", type = "integer", min = 0, max = 9 }
[tools.tabs.selector]
argument = "action"
cases.list = { risk = "read", arguments = ["action"] }
cases.close = { risk = "destructive", arguments = ["action", "index"] }
"#;

fn refused(of: &str, by: &str) -> String {
    assert!(TABS.contains(of), "{of}");
    let text = TABS.replace(of, by);
    let name = PolicyName::parse("tabs").unwrap();
    Policy::compile(&name, &text).expect_err(by).to_string()
}

#[test]
fn the_cases_cover_every_value_exactly_once() {
    compile("tabs", TABS);
    for (of, by, said) in [
        (
            "cases.list = { risk = \"read\", arguments = [\"action\"] }",
            "",
            "`list` has no branch",
        ),
        (
            "cases.list =",
            "cases.print = { risk = \"read\", arguments = [\"action\"] }\ncases.list =",
            "no value `print`",
        ),
        (
            "cases.list =",
            "cases.close = { risk = \"read\", arguments = [\"action\"] }\ncases.list =",
            "it is there twice",
        ),
        (
            "arguments = [\"action\"] }",
            "arguments = [] }",
            "`action` is in every call",
        ),
        (
            "arguments = [\"action\", \"index\"]",
            "arguments = [\"action\", \"tab\"]",
            "`tab` is not an argument",
        ),
        (
            "arguments = [\"action\", \"index\"]",
            "arguments = [\"action\"]",
            "no branch of the selector takes `index`",
        ),
        (
            "argument = \"action\"",
            "argument = \"index\"",
            "a selector is an enum",
        ),
        (
            "argument = \"action\"",
            "argument = \"other\"",
            "a selector is an enum",
        ),
        (
            "one_of = [\"close\", \"list\"] }",
            "one_of = [\"close\", \"list\"], optional = true }",
            "a selector is an enum",
        ),
    ] {
        let error = refused(of, by);
        assert!(error.contains(said), "{by}: {error}");
    }
}

#[test]
fn a_branch_does_not_loosen_what_the_tool_says_of_an_argument() {
    let policy = compile("tabs", TABS);
    let facts = gate::session::Facts::open(&policy, Default::default()).unwrap();
    let tabs = Office { facts, policy };
    let ask = |call: &str| tabs.ask("tabs", call);
    assert_eq!(ask(r#"{"action":"list"}"#), "allow");
    assert_eq!(ask(r#"{"action":"close","index":9}"#), "allow");
    assert_eq!(ask(r#"{"action":"close","index":10}"#), "refuse bounds");
    assert_eq!(ask(r#"{"action":"close","index":-1}"#), "refuse bounds");
    assert_eq!(ask(r#"{"action":"close","index":1.5}"#), "refuse type");
    assert_eq!(ask(r#"{"action":"close","index":"1"}"#), "refuse type");
    assert_eq!(ask(r#"{"action":"close","index":true}"#), "refuse type");
    assert_eq!(ask(r#"{"action":"close","index":null}"#), "refuse type");
    assert_eq!(ask(r#"{"action":"close"}"#), "refuse arguments");
    assert_eq!(ask(r#"{"action":"Close","index":1}"#), "refuse bounds");
    assert_eq!(ask(r#"{"action":"list","index":1}"#), "refuse branch");
    assert_eq!(ask(r#"{"action":["list"]}"#), "refuse type");
    // `1.0` is the integer 1, for every reader of JSON.
    let Verdict::Allow(one) = tabs.verdict("tabs", r#"{"action":"close","index":1.0}"#) else {
        panic!("not allowed");
    };
    assert_eq!(one.call().arguments["index"], json("1"));
}

#[test]
fn equal_is_type_and_all() {
    let policy = compile(
        "exact",
        r#"
format = 1
[values.id]
type = "integer"
[values.note]
type = "object"
members = { a = { type = "number" }, b = { type = "string", optional = true } }
[credentials.api]
connector = "http"
floor = { origins = ["https://api.example.test"], methods = ["POST"], paths = ["/"] }
[tools.t]
description = ""
credential = "api"
risk = "write"
request = { method = "POST", url = "https://api.example.test/", body = "{*}" }
[tools.t.arguments]
id = { authority = "verified", value = "id" }
note = { authority = "verified", value = "note" }
"#,
    );
    let opening = gate::session::Opening {
        values: [
            ("id".to_owned().try_into().unwrap(), "1".into()),
            (
                "note".to_owned().try_into().unwrap(),
                r#"{"a":0,"b":"x"}"#.into(),
            ),
        ]
        .into(),
        ..Default::default()
    };
    let facts = gate::session::Facts::open(&policy, opening).unwrap();
    let exact = Office { facts, policy };
    let ask = |id: &str, note: &str| exact.ask("t", &format!(r#"{{"id":{id},"note":{note}}}"#));
    let note = r#"{"a":0,"b":"x"}"#;
    assert_eq!(ask("1", note), "allow");
    // The order of an object's keys is not a part of it.
    assert_eq!(ask("1", r#"{"b":"x","a":0}"#), "allow");
    for id in ["true", "\"1\"", "[1]", "null"] {
        assert_eq!(ask(id, note), "refuse type", "{id}");
    }
    assert_eq!(ask("2", note), "refuse trusted_value");
    for other in [r#"{"a":0}"#, r#"{"a":0.5,"b":"x"}"#, r#"{"a":0,"b":"X"}"#] {
        assert_eq!(ask("1", other), "refuse trusted_value", "{other}");
    }
    assert_eq!(ask("1", r#"{"a":0,"b":"x","c":1}"#), "refuse type");
    let minus = gate::json::parse(br#"{"a":-0}"#, &gate::json::Limits::CALL);
    assert_eq!(minus, Err(gate::json::JsonError::MinusZero));
}

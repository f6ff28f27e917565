//! One meaning for each line: what the front reads, what the gate reads anew, and what the connector sends
//! are the same value, or the line is refused. A reader that is not ours says so too.
#![cfg(test)]

use custody_front::strict::{self, Checked};
use gate::{
    call::Call,
    decide::{Ask, Verdict, decide},
    id::PolicyName,
    json::{self, Limits},
    policy::Policy,
    request,
    session::{Facts, Opening},
};
use proptest::{prelude::*, sample::Index};

const POLICY: &str = r#"
format = 1
name = "meaning"

[credentials.a]
connector = "http"

[credentials.a.floor]
origins = ["https://a.test"]
methods = ["POST"]
paths = ["/all"]

[tools.say]
description = "Sends all of its arguments."
credential = "a"
risk = "read"
on_taint = "pass"
request = { method = "POST", url = "https://a.test/all", body = "{*}" }

[tools.say.arguments]
text = { authority = "payload", type = "string", max_length = 4000, optional = true }
n = { authority = "agent", role = "typed", type = "integer", min = -9007199254740991, max = 9007199254740991, optional = true }
x = { authority = "agent", role = "typed", type = "number", min = -9000000000000000, max = 9000000000000000, optional = true }
flag = { authority = "agent", role = "typed", type = "boolean", optional = true }
list = { authority = "agent", role = "typed", type = "list", items = { type = "string", max_length = 100 }, optional = true }
"#;

/// The arguments as each part of the way has them.
fn way(policy: &Policy, line: &[u8]) -> Option<Vec<u8>> {
    let Ok(Checked::Call { arguments, .. }) = strict::check(line) else {
        return None;
    };
    // The gate takes exactly these bytes.
    let read = json::reparse(&arguments, &Limits::CALL).unwrap();
    assert_eq!(json::canonical(&read), arguments);
    // And so does a reader that is not ours, of the line as the agent wrote it.
    let whole: serde_json::Value = serde_json::from_slice(line).unwrap();
    let theirs = &whole["params"]["arguments"];
    let none = serde_json::json!({});
    let theirs = if theirs.is_null() { &none } else { theirs };
    let ours: serde_json::Value = serde_json::from_slice(&arguments).unwrap();
    assert!(same(&ours, theirs), "{ours} and {theirs}");

    let facts = Facts::open(policy, Opening::default()).unwrap();
    let verdict = decide(policy, &facts, &Ask::new("say", &read));
    let Verdict::Allow(allowed) = verdict else {
        return None;
    };
    // The vault reads the call anew, and renders what is sent.
    let call = Call::from_bytes(allowed.bytes()).unwrap();
    assert_eq!(call.digest(), allowed.digest());
    let sent = request::render(policy, &call).unwrap().body;
    assert_eq!(sent, arguments);
    Some(sent)
}

/// Equal as JSON: a number by its value, `1.0` is `1`.
fn same(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => one.as_f64() == other.as_f64(),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|it| same(value, it)))
        }
        (one, other) => one == other,
    }
}

fn policy() -> Policy {
    Policy::compile(&PolicyName::parse("meaning").unwrap(), POLICY).unwrap()
}

fn line(arguments: &str) -> Vec<u8> {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"say\",\"arguments\":{arguments}}}}}"
    )
    .into_bytes()
}

/// What readers of JSON do not agree on, and what they do.
const VALUES: &[&str] = &[
    r#""a""#,
    r#""\u0061""#,
    r#""\ud83e\udd80""#,
    r#""\ud83e""#,
    r#""\u0000""#,
    r#""\/""#,
    "1",
    "1.0",
    "1e0",
    "-0",
    "0.1",
    "1e400",
    "9007199254740993",
    "9007199254740991",
    "01",
    "+1",
    ".5",
    "NaN",
    "true",
    "null",
    "[]",
    r#"["a","b"]"#,
    r#"["a",]"#,
    r#"{"a":1}"#,
    "'a'",
    "1/**/",
];

fn member() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "\"text\"",
        "\"n\"",
        "\"x\"",
        "\"flag\"",
        "\"list\"",
        "\"te\\u0078t\"",
        "\"N\"",
        "text",
        "\"\\u006e\"",
    ]);
    let gap = prop::sample::select(vec!["", " ", "\t", "\n", "\u{a0}"]);
    let value = prop_oneof![
        4 => prop::sample::select(VALUES).prop_map(String::from),
        2 => any::<String>().prop_map(|it| serde_json::to_string(&it).unwrap()),
        1 => any::<f64>().prop_map(|it| it.to_string()),
        1 => any::<i64>().prop_map(|it| it.to_string()),
    ];
    (key, gap, value).prop_map(|(key, gap, value)| format!("{key}{gap}:{gap}{value}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn what_is_read_is_what_is_sent_or_nothing_is(members in prop::collection::vec(member(), 0..4)) {
        let policy = policy();
        let written = line(&format!("{{{}}}", members.join(",")));
        if let Some(sent) = way(&policy, &written) {
            // Sent once more it is the same again.
            let again = line(&String::from_utf8(sent.clone()).unwrap());
            prop_assert_eq!(way(&policy, &again), Some(sent));
        }
    }

    #[test]
    fn no_changed_byte_gives_a_line_a_second_meaning(
        members in prop::collection::vec(member(), 1..3),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let mut written = line(&format!("{{{}}}", members.join(",")));
        for (at, byte) in changes {
            let at = at.index(written.len());
            written[at] = byte;
        }
        let _way = way(&policy(), &written);
    }
}

#[test]
fn the_way_is_gone_by_what_can_be_read() {
    let policy = policy();
    let sent = way(
        &policy,
        &line(r#"{"x":1.0,"te\u0078t":"\u00e9","list":[],"flag":true}"#),
    );
    assert_eq!(
        sent.unwrap(),
        "{\"flag\":true,\"list\":[],\"text\":\"\u{e9}\",\"x\":1}".as_bytes()
    );
    assert_eq!(way(&policy, &line(r#"{"n":1,"n":2}"#)), None);
}

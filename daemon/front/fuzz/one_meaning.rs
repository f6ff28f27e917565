//! Any bytes as a line of the agent's: what the front reads, what the gate reads anew, and what the connector
//! sends are the same value, or the line is refused. A reader that is not ours says so too.

use std::sync::LazyLock;

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

static COMPILED: LazyLock<Policy> = LazyLock::new(|| {
    let name = PolicyName::parse("meaning").expect("a name");
    Policy::compile(&name, POLICY).expect("a policy")
});

pub(crate) fn run(data: &[u8]) {
    if let Some(sent) = way(data) {
        // Sent once more it is the same again.
        let text = String::from_utf8(sent.clone()).expect("JSON is UTF-8");
        assert_eq!(way(&line(&text)), Some(sent));
    }
}

/// A call with these arguments, as a line.
pub(crate) fn line(arguments: &str) -> Vec<u8> {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"say\",\"arguments\":{arguments}}}}}"
    )
    .into_bytes()
}

/// What is sent of a line, the same at each part of the way; none where a part refuses it.
pub(crate) fn way(line: &[u8]) -> Option<Vec<u8>> {
    let Ok(Checked::Call { arguments, .. }) = strict::check(line) else {
        return None;
    };
    // The gate takes exactly these bytes.
    let read = json::reparse(&arguments, &Limits::CALL).expect("the front writes it");
    assert_eq!(json::canonical(&read), arguments);
    // And so does a reader that is not ours, of the line as the agent wrote it.
    let whole: serde_json::Value = serde_json::from_slice(line).expect("what we read, others read");
    let theirs = &whole["params"]["arguments"];
    let none = serde_json::json!({});
    let theirs = if theirs.is_null() { &none } else { theirs };
    let ours: serde_json::Value =
        serde_json::from_slice(&arguments).expect("what we write, others read");
    assert!(same(&ours, theirs), "{ours} and {theirs}");

    let facts = Facts::open(&COMPILED, Opening::default()).expect("an opening without anything");
    let verdict = decide(&COMPILED, &facts, &Ask::new("say", &read));
    let Verdict::Allow(allowed) = verdict else {
        return None;
    };
    // The vault reads the call anew, and renders what is sent.
    let call = Call::from_bytes(allowed.bytes()).expect("the gate writes it");
    assert_eq!(call.digest(), allowed.digest());
    let sent = request::render(&COMPILED, &call)
        .expect("what is allowed is sent")
        .body;
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

//! Any bytes as a call: refused, or one value with one written form, one digest and one decision.

use std::sync::LazyLock;

use gate::{
    call::Call,
    decide::{Ask, decide},
    id::PolicyName,
    json::{Limits, Value, canonical, parse, reparse},
    policy::Policy,
    session::{Facts, Opening},
};

static OFFICE: LazyLock<Policy> = LazyLock::new(|| {
    let name = PolicyName::parse("office").expect("a name");
    let toml = include_str!("../../fixtures/policies/office.toml");
    Policy::compile(&name, toml).expect("a policy of the tree")
});

pub(crate) fn run(data: &[u8]) {
    let Ok(value) = parse(data, &Limits::CALL) else {
        assert!(reparse(data, &Limits::CALL).is_err());
        return;
    };
    let written = canonical(&value);
    // The written form may be longer than what was read, but not as a value.
    let limits = Limits {
        bytes: written.len(),
        ..Limits::CALL
    };
    let again = reparse(&written, &limits).expect("what we write we read");
    assert_eq!(again, value);
    assert_eq!(canonical(&again), written);
    assert_eq!(reparse(data, &Limits::CALL).is_ok(), written == data);

    if let Ok(call) = Call::from_bytes(data) {
        assert_eq!(call.to_bytes(), data);
    }
    let facts = Facts::open(&OFFICE, Opening::default()).expect("an opening without anything");
    let (tool, arguments) = asked(&value);
    let ask = Ask::new(&tool, arguments);
    let (one, other) = (decide(&OFFICE, &facts, &ask), decide(&OFFICE, &facts, &ask));
    assert_eq!(one, other, "one call, two decisions");
}

/// The tool and the arguments: those of a call, or some tool and the value itself.
fn asked(value: &Value) -> (String, &Value) {
    if let Value::Object(members) = value
        && let (Some(Value::Text(tool)), Some(arguments)) =
            (members.get("tool"), members.get("arguments"))
    {
        return (tool.clone(), arguments);
    }
    let tool = OFFICE.tools().keys().next().map(ToString::to_string);
    (tool.unwrap_or_default(), value)
}

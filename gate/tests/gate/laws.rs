//! Laws of the decision, for all calls and all sessions.

use std::collections::BTreeMap;

use gate::{
    call::Call,
    decide::{Ask, decide},
    excerpt::EXCERPT_MAX,
    id::ToolName,
    json::{Limits, Value, canonical, parse},
    policy::{Authority, Policy},
    session::{Facts, Opening},
};
use proptest::prelude::*;

use crate::scene::{ask, compile, demo, json, open, saw, session};

/// Texts that come near what is right, and any others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("ada@example.test".to_owned()),
        Just("mallory@example.test".to_owned()),
        Just("deploy-35".to_owned()),
        Just("n-1".to_owned()),
        Just("release".to_owned()),
        Just("{to}".to_owned()),
        any::<String>().prop_map(|it| it.replace('\0', "")),
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => text().prop_map(Value::Text),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => (-3..3_i64).prop_map(|n| Value::try_from(n).unwrap()),
        1 => Just(json("1.5")),
        1 => text().prop_map(|it| Value::List(vec![Value::Text(it)])),
    ]
}

fn arguments() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        6 => prop::sample::select(vec!["to", "subject", "body", "reference", "id", "page", "reason"])
            .prop_map(String::from),
        1 => text(),
    ];
    prop::collection::btree_map(key, leaf(), 0..6).prop_map(Value::Object)
}

/// Calls of which many are good.
fn call() -> impl Strategy<Value = (String, Value)> {
    let tool = prop_oneof![
        6 => prop::sample::select(vec!["send_message", "read_note", "publish_page", "whoami"])
            .prop_map(String::from),
        1 => text(),
    ];
    let any = (tool, arguments());
    let good = prop::sample::select(vec![
        (
            "send_message",
            r#"{"to":"ada@example.test","subject":"s","body":"b"}"#,
        ),
        (
            "send_message",
            r#"{"to":"ada@example.test","subject":"s","body":"b","reference":"r"}"#,
        ),
        ("read_note", r#"{"id":"n-1"}"#),
        (
            "publish_page",
            r#"{"page":"deploy-35","reason":"retire","reference":"r"}"#,
        ),
        ("whoami", "{}"),
    ])
    .prop_map(|(tool, arguments)| (tool.to_owned(), json(arguments)));
    let nearly = (good.clone(), arguments()).prop_map(|((tool, good), other)| {
        let (Value::Object(mut good), Value::Object(other)) = (good, other) else {
            return (tool, Value::Null);
        };
        good.extend(other.into_iter().take(1));
        (tool, Value::Object(good))
    });
    prop_oneof![any, good, nearly]
}

fn taint(policy: &Policy, facts: &mut Facts, results: &[&str]) {
    for tool in results {
        let _label = saw(policy, facts, tool);
    }
}

fn results() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(
        prop::sample::select(vec!["read_note", "whoami", "send_message", "unknown"]),
        0..4,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn taint_never_turns_a_refusal_into_an_allowance(
        (tool, arguments) in call(), before in results(), after in results(), workspace: bool,
    ) {
        let policy = demo();
        let mut facts = session(&policy, workspace);
        taint(&policy, &mut facts, &before);
        let first = ask(&policy, &facts, &tool, &arguments);
        let reasons = facts.taint().clone();
        taint(&policy, &mut facts, &after);
        prop_assert!(facts.taint().is_superset(&reasons), "a reason went away");
        let second = ask(&policy, &facts, &tool, &arguments);
        if first.is_err() {
            prop_assert!(second.is_err());
        }
        if let (Ok(first), Ok(second)) = (&first, &second) {
            prop_assert_eq!(first.bytes(), second.bytes());
        }
    }

    #[test]
    fn a_decision_depends_on_nothing_but_its_arguments(
        (tool, arguments) in call(), before in results(),
    ) {
        let policy = demo();
        let again = Policy::from_bytes(&policy.to_bytes()).unwrap();
        let mut facts = session(&policy, false);
        taint(&policy, &mut facts, &before);
        prop_assert_eq!(
            decide(&policy, &facts, &Ask::new(&tool, &arguments)),
            decide(&again, &facts.clone(), &Ask::new(&tool, &arguments))
        );
    }

    #[test]
    fn whatever_is_allowed_carries_the_agents_payload_and_the_applications_sinks(
        (tool, arguments) in call(), before in results(),
    ) {
        let policy = demo();
        let mut facts = session(&policy, false);
        taint(&policy, &mut facts, &before);
        let Ok(allowed) = ask(&policy, &facts, &tool, &arguments) else { return Ok(()) };
        let Value::Object(given) = &arguments else { panic!("allowed {arguments:?}") };
        let rules = &policy.tools()[allowed.tool()];
        for (name, value) in &allowed.call().arguments {
            match &rules.arguments[name].authority {
                Authority::Agent => prop_assert_eq!(Some(value), given.get(name.as_str())),
                Authority::Injected { value: of } => prop_assert_eq!(Some(value), facts.value(of)),
                Authority::Verified { value: of } => {
                    prop_assert_eq!(Some(value), facts.value(of));
                    prop_assert_eq!(Some(value), given.get(name.as_str()));
                }
                Authority::Catalogue { catalogue } => panic!("the demo has no `{catalogue}`"),
                Authority::Owned { set } => prop_assert_eq!(facts.owns(set, value), Some(true)),
            }
        }
        prop_assert_eq!(given.len(), allowed.call().arguments.len());
        prop_assert_eq!(allowed.bytes(), canonical(&allowed.call().to_value()));
        prop_assert_eq!(allowed.digest(), Call::from_bytes(allowed.bytes()).unwrap().digest());
        let grounds = &allowed.grounds().arguments;
        prop_assert!(grounds.keys().eq(allowed.call().arguments.keys()));
    }

    #[test]
    fn every_change_of_a_call_changes_its_digest(
        (tool, arguments) in call(), other in leaf(), at in any::<prop::sample::Index>(),
    ) {
        let policy = demo();
        let facts = session(&policy, false);
        let Ok(allowed) = ask(&policy, &facts, &tool, &arguments) else { return Ok(()) };
        let call = allowed.call();
        let mut changed = call.clone();
        changed.tool = ToolName::parse("other").unwrap();
        prop_assert_ne!(changed.digest(), call.digest());
        if !call.arguments.is_empty() {
            let name = call.arguments.keys().nth(at.index(call.arguments.len())).unwrap();
            let mut changed = call.clone();
            if changed.arguments.insert(name.clone(), other.clone()) != Some(other) {
                prop_assert_ne!(changed.digest(), call.digest());
            }
            let mut changed = call.clone();
            changed.arguments.remove(name);
            prop_assert_ne!(changed.digest(), call.digest());
        }
        let mut changed = call.clone();
        changed.arguments.insert("zz".to_owned().try_into().unwrap(), Value::Null);
        prop_assert_ne!(changed.digest(), call.digest());
    }

    #[test]
    fn a_refusal_repeats_little_of_what_the_agent_wrote_and_nothing_that_acts(
        // No sentence of ours has these.
        noise in "[\u{b5}QXZ\u{1b}\u{202e}`\n]{1,400}", key: bool, at in 0..4_usize,
    ) {
        let policy = demo();
        let facts = session(&policy, false);
        let mut arguments = BTreeMap::from([
            ("page".to_owned(), Value::Text(noise.clone())),
            ("reason".to_owned(), Value::Text("release".into())),
        ]);
        if key {
            arguments.insert(noise.clone(), Value::Null);
        }
        let tool = if at == 0 { noise.as_str() } else { "publish_page" };
        let refusal = ask(&policy, &facts, tool, &Value::Object(arguments)).unwrap_err();
        let why = &refusal.why;
        prop_assert!(why.bytes().all(|b| matches!(b, b' '..=b'~')), "{why}");
        let repeated: usize = why.matches(['Q', 'X', 'Z']).count()
            + why.matches("\\u{").count() * 6;
        prop_assert!(repeated <= EXCERPT_MAX, "{why}");
        prop_assert!(why.len() <= 400, "{why}");
    }
}

#[test]
fn a_session_without_its_value_or_set_is_refused_what_needs_them() {
    let policy = demo();
    let facts = open(&policy, &[], &[], false);
    let message = json(r#"{"to":"ada@example.test","subject":"s","body":"b"}"#);
    let refusal = ask(&policy, &facts, "send_message", &message).unwrap_err();
    assert_eq!(refusal.rule.as_str(), "trusted_value");
    assert!(refusal.why.contains("--value customer="), "{}", refusal.why);
    let refusal = ask(&policy, &facts, "read_note", &json(r#"{"id":"n-1"}"#)).unwrap_err();
    assert_eq!(refusal.rule.as_str(), "owned_set");
}

#[test]
fn a_trusted_value_is_never_said_to_the_agent() {
    let policy = demo();
    let facts = session(&policy, false);
    for to in ["mallory@example.test", "ada@example.tes", "x"] {
        let arguments = json(&format!(r#"{{"to":"{to}","subject":"s","body":"b"}}"#));
        let refusal = ask(&policy, &facts, "send_message", &arguments).unwrap_err();
        assert!(!refusal.why.contains("ada@example.test"), "{}", refusal.why);
    }
}

#[test]
fn a_session_opens_only_with_what_its_policy_names_in_the_right_types() {
    let policy = demo();
    let open = |value: (&str, &str), set: (&str, &[&str])| {
        let values = BTreeMap::from([(
            gate::id::ValueName::parse(value.0).unwrap(),
            value.1.to_owned(),
        )]);
        let members = set.1.iter().map(|it| (*it).to_owned()).collect();
        let owned = BTreeMap::from([(gate::id::OwnedName::parse(set.0).unwrap(), members)]);
        Facts::open(
            &policy,
            Opening {
                owned,
                values,
                ..Opening::default()
            },
        )
        .map_err(|error| error.to_string())
    };
    let fine = ("customer", "ada@example.test");
    assert!(open(fine, ("pages", &["a"])).is_ok());
    for (value, set, said) in [
        (
            ("reviewer", "x"),
            ("pages", &["a"][..]),
            "no value `reviewer`; it has `customer`",
        ),
        (
            ("customer", "ada"),
            ("pages", &["a"]),
            "must be one mail address",
        ),
        (
            fine,
            ("files", &["a"]),
            "no owned set `files`; it has `notes`, `pages`",
        ),
        (
            fine,
            ("pages", &["a", &"b".repeat(65)]),
            "member 1 of owned set `pages` has 65",
        ),
    ] {
        let error = open(value, set).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn the_largest_call_that_the_parser_takes_is_decided_and_bound() {
    let policy = demo();
    let facts = session(&policy, false);
    let body = "\u{1f600}".repeat(4_000);
    let arguments = format!(r#"{{"to":"ada@example.test","subject":"s","body":"{body}"}}"#);
    let arguments = parse(arguments.as_bytes(), &Limits::CALL).unwrap();
    let allowed = ask(&policy, &facts, "send_message", &arguments).unwrap();
    assert_eq!(Call::from_bytes(allowed.bytes()).unwrap(), *allowed.call());
}

#[test]
fn a_call_that_its_injected_values_make_too_large_is_refused_here_and_not_by_the_vault() {
    let policy = compile(
        "large",
        r#"
format = 1
[values.v]
type = "string"
max_length = 60000
[credentials.api]
connector = "http"
[credentials.api.floor]
origins = ["https://api.example.test"]
methods = ["POST"]
paths = ["/"]
[tools.t]
description = ""
credential = "api"
risk = "write"
request = { method = "POST", url = "https://api.example.test/", body = ["{v}", "{p}"] }
[tools.t.arguments]
v = { authority = "injected", value = "v" }
p = { authority = "payload", type = "string", max_length = 60000 }
"#,
    );
    // A control character takes one byte in memory and six in RFC 8785 form.
    let facts = open(&policy, &[("v", &"\u{1}".repeat(40_000))], &[], false);
    let ask = |length: usize| {
        let text = "\u{1}".repeat(length);
        let arguments = BTreeMap::from([("p".to_owned(), Value::Text(text))]);
        ask(&policy, &facts, "t", &Value::Object(arguments))
    };
    let fits = ask(8_000).unwrap();
    assert!(Call::from_bytes(fits.bytes()).is_ok());
    assert_eq!(ask(10_000).unwrap_err().rule.as_str(), "request");
}

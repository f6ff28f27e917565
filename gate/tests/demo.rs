//! The demo's policy, end to end: from the file to the bytes of a request.
#![cfg(test)]

use std::collections::BTreeMap;

use gate::{
    decide::{Rule, Verdict, decide},
    floor,
    id::{OwnedName, PolicyName, ToolName, ValueName},
    json::{Limits, parse},
    policy::Policy,
    request::render,
    session::Facts,
};

fn demo() -> Policy {
    let name = PolicyName::parse("demo").unwrap();
    let toml = include_str!("../../fixtures/policies/demo.toml");
    Policy::compile(&name, toml).unwrap_or_else(|error| panic!("{error}"))
}

fn facts(policy: &Policy, workspace: bool) -> Facts {
    let set = |name: &str, members: &[&str]| {
        let members = members.iter().map(|it| String::from(*it)).collect();
        (OwnedName::parse(name).unwrap(), members)
    };
    Facts::open(
        policy,
        BTreeMap::from([(
            ValueName::parse("customer").unwrap(),
            "ada@example.test".into(),
        )]),
        BTreeMap::from([
            set("notes", &["n-1", "n-2"]),
            set("pages", &["deploy-35", "rollback-35"]),
        ]),
        Some("Answer the customer.".into()),
        workspace,
    )
    .unwrap()
}

fn ask(policy: &Policy, facts: &Facts, tool: &str, arguments: &str) -> Result<String, Rule> {
    let arguments = parse(arguments.as_bytes(), &Limits::CALL).unwrap();
    match decide(policy, facts, tool, &arguments) {
        Verdict::Allow(allowed) => {
            let request = render(policy, allowed.call()).unwrap();
            let credential = policy.credential(allowed.credential()).unwrap();
            floor::check(&credential.floor, &request).unwrap();
            Ok(format!(
                "{} {}{} {}",
                request.method,
                request.origin,
                request.target,
                String::from_utf8(request.body).unwrap()
            ))
        }
        Verdict::Refuse(refusal) => Err(refusal.rule),
    }
}

#[test]
fn the_compiled_policy_survives_its_bytes() {
    let policy = demo();
    let again = Policy::from_bytes(&policy.to_bytes()).unwrap();
    assert_eq!(again, policy);
    assert_eq!(again.hash(), policy.hash());
}

#[test]
fn a_message_to_the_customer_is_allowed_and_one_to_another_is_not() {
    let policy = demo();
    let facts = facts(&policy, false);
    assert_eq!(
        ask(
            &policy,
            &facts,
            "send_message",
            r#"{"to":"ada@example.test","subject":"Hi","body":"{to} \"x\""}"#
        ),
        Ok(
            r#"POST http://127.0.0.1:18080/v1/messages {"body":"{to} \"x\"","subject":"Hi","to":"ada@example.test"}"#
                .into()
        )
    );
    assert_eq!(
        ask(
            &policy,
            &facts,
            "send_message",
            r#"{"to":"mallory@example.test","subject":"Hi","body":""}"#
        ),
        Err(Rule::TrustedValue)
    );
}

#[test]
fn a_note_taints_and_then_a_page_is_refused_and_a_message_still_goes() {
    let policy = demo();
    let mut facts = facts(&policy, false);
    let publish = r#"{"page":"deploy-35","reason":"release"}"#;
    assert_eq!(
        ask(&policy, &facts, "publish_page", publish),
        Ok(r#"POST http://127.0.0.1:18080/v1/pages/deploy-35/publish {"reason":"release"}"#.into())
    );
    assert_eq!(
        ask(&policy, &facts, "read_note", r#"{"id":"n-1"}"#),
        Ok("GET http://127.0.0.1:18080/v1/notes/n-1 ".into())
    );
    let _label = facts.record_result(&policy, &ToolName::parse("read_note").unwrap());
    assert_eq!(
        ask(&policy, &facts, "publish_page", publish),
        Err(Rule::Taint)
    );
    // A page that is not owned is refused for that, tainted or not.
    assert_eq!(
        ask(
            &policy,
            &facts,
            "publish_page",
            r#"{"page":"private","reason":"release"}"#
        ),
        Err(Rule::OwnedSet)
    );
    assert!(
        ask(
            &policy,
            &facts,
            "send_message",
            r#"{"to":"ada@example.test","subject":"Hi","body":""}"#
        )
        .is_ok()
    );
}

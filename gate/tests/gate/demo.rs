//! The demo's policy, end to end: from the file to the bytes of a request.

use crate::scene::{ask, demo, json, saw, session};
use gate::{
    decide::Rule,
    floor,
    policy::{Label, Policy},
    request::render,
    session::Facts,
};

/// The request of an allowed call, in a line, or the rule that refused it.
fn request(policy: &Policy, facts: &Facts, tool: &str, arguments: &str) -> Result<String, Rule> {
    let allowed = ask(policy, facts, tool, &json(arguments)).map_err(|it| it.rule)?;
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
    let facts = session(&policy, false);
    assert_eq!(
        request(
            &policy,
            &facts,
            "send_message",
            r#"{"to":"ada@example.test","subject":"Hi","body":"{to} \"x\""}"#
        ),
        Ok(r#"POST http://127.0.0.1:18080/v1/messages {"body":"{to} \"x\"","subject":"Hi","to":"ada@example.test"}"#.into())
    );
    assert_eq!(
        request(
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
    let mut facts = session(&policy, false);
    let publish = r#"{"page":"deploy-35","reason":"release"}"#;
    assert_eq!(
        request(&policy, &facts, "publish_page", publish),
        Ok(r#"POST http://127.0.0.1:18080/v1/pages/deploy-35/publish {"reason":"release"}"#.into())
    );
    assert_eq!(
        request(&policy, &facts, "read_note", r#"{"id":"n-1"}"#),
        Ok("GET http://127.0.0.1:18080/v1/notes/n-1 ".into())
    );
    assert_eq!(saw(&policy, &mut facts, "read_note"), Label::Untrusted);
    assert_eq!(
        request(&policy, &facts, "publish_page", publish),
        Err(Rule::Taint)
    );
    assert!(
        request(
            &policy,
            &facts,
            "send_message",
            r#"{"to":"ada@example.test","subject":"Hi","body":""}"#
        )
        .is_ok()
    );
}

#[test]
fn a_trusted_result_does_not_taint_and_an_unknown_tools_does() {
    let policy = demo();
    let mut facts = session(&policy, false);
    assert_eq!(saw(&policy, &mut facts, "whoami"), Label::Trusted);
    assert!(facts.taint().is_empty());
    assert_eq!(saw(&policy, &mut facts, "unknown"), Label::Untrusted);
    assert!(!facts.taint().is_empty());
}

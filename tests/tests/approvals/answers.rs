//! Yes, no, and nothing: what a reviewer says once is done once.

use std::time::{SystemTime, UNIX_EPOCH};

use custody_tests::{
    agent::{Agent, Era},
    ground::{self, CUSTOMER, Ground, is_done, rule, words},
    suite::scene::nonce,
};
use serde_json::json;

use crate::desk::{Desk, held};

/// A body that would clear a terminal, turn its line round and mark up a page, if it were not inert.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}<script>alert(1)</script>\nyes: approved";

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[test]
#[serial_test::file_serial(custody)]
fn a_held_call_is_shown_exactly_and_done_once_when_it_is_approved() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let arguments = json!({"to": CUSTOMER, "subject": "s", "body": format!("{nonce}{HOSTILE}")});

    // The agent is told code, number, reason and until when; at once, and nothing is done.
    let before = unix_ms();
    let answer = agent.call("send_message", &arguments).unwrap();
    let said = &answer["result"]["structuredContent"];
    let pending = held(&answer);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(said["rule"], "confirmation", "{answer}");
    assert!(!said["why"].as_str().unwrap().is_empty(), "{answer}");
    let expires = said["expires_unix_ms"].as_u64().unwrap();
    assert!(
        (before + 600_000..=unix_ms() + 600_000).contains(&expires),
        "{answer}"
    );
    let digest = answer["result"]["_meta"]["custody/call"].clone();
    assert_eq!(desk.effects(&nonce), 0);

    // The reviewer's list and sheet say the same, and the agent's words do nothing there.
    desk.listed(pending);
    let listed = desk.pending();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["tool"], "send_message");
    assert_eq!(listed[0]["expires"], expires);
    assert_eq!(listed[0]["needs"], "approval");
    let sheet = desk.sheet(pending);
    assert_eq!(sheet["digest"], digest, "{sheet}");
    assert_eq!(sheet["state"], "waiting");
    let body = sheet["arguments"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "body")
        .unwrap();
    let lines = body["value"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{body}");
    assert_eq!(
        lines[0],
        format!("{nonce}\\u{{1b}}[2J\\u{{1b}}]0;owned\\u{{7}}\\u{{202e}}<script>alert(1)</script>")
    );
    let shown = desk.custody(&["show", &pending.to_string()]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains(CUSTOMER) && text.contains(&nonce), "{text}");
    assert!(
        text.contains("    │ yes: approved"),
        "it stands behind its bar: {text}"
    );
    assert!(
        text.chars()
            .all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')),
        "{text:?}"
    );

    // Approved: done at once, without the agent.
    let said = desk.custody(&["approve", &pending.to_string()]);
    assert_eq!(said.status.code(), Some(0), "{}", words(&said));
    assert!(
        words(&said).contains("performed; the status is 201"),
        "{}",
        words(&said)
    );
    let seen = desk.ground.effects(&nonce).unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    let body: serde_json::Value = serde_json::from_str(&seen[0].body).unwrap();
    assert_eq!(body["body"], arguments["body"], "byte for byte");
    assert_eq!(body["to"], CUSTOMER);

    // The agent that asks again has its result, and another yes does nothing more.
    let answer = agent.call("send_message", &arguments).unwrap();
    assert!(is_done(&answer), "{answer}");
    assert_eq!(answer["result"]["_meta"]["custody/status"], 201, "{answer}");
    let said = desk.custody(&["approve", &pending.to_string()]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert!(words(&said).contains("it is done"), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 1);
    assert_eq!(desk.becomes(pending, "done")["pending"], pending);

    // Asked a third time it is another call, which waits for itself.
    let another = held(&agent.call("send_message", &arguments).unwrap());
    assert_ne!(another, pending);
    desk.is_sound();
    drop(agent);
}

#[test]
#[serial_test::file_serial(custody)]
fn a_refused_call_is_never_done_and_the_agent_has_the_reviewers_words() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let pending = desk.held(&mut agent, &nonce);
    let id = pending.to_string();
    let said = desk.custody(&["refuse", &id, "--why", "not in this tone"]);
    assert!(said.status.success(), "{}", words(&said));
    desk.becomes(pending, "refused");
    let answer = agent
        .call("send_message", &ground::message(&nonce))
        .unwrap();
    assert_eq!(rule(&answer), Some("reviewer"), "{answer}");
    assert!(answer.to_string().contains("not in this tone"), "{answer}");
    let answer = agent
        .call("send_message", &ground::message(&nonce))
        .unwrap();
    assert_eq!(rule(&answer), Some("reviewer"), "and it stays so: {answer}");
    let said = desk.custody(&["approve", &id]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 0);
    assert_eq!(desk.pending(), Vec::<serde_json::Value>::new());
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn a_call_that_nobody_answers_lapses_and_a_late_yes_does_nothing() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(3, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let answer = agent
        .call("send_message", &ground::message(&nonce))
        .unwrap();
    let pending = held(&answer);
    desk.becomes(pending, "lapsed");
    let said = desk.custody(&["approve", &pending.to_string()]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 0);
    // It may be asked for again: it waits anew.
    let again = held(
        &agent
            .call("send_message", &ground::message(&nonce))
            .unwrap(),
    );
    assert_ne!(again, pending);
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn a_client_of_the_newest_protocol_shows_its_user_that_a_call_waits_and_approves_nothing() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = Agent::start(desk.ground.run(), Era::Newest).unwrap();
    let nonce = nonce().unwrap();
    let message = ground::message(&nonce);
    let answer = agent.call("send_message", &message).unwrap();
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let waits = &result["_meta"]["custody/held"];
    assert_eq!(waits["rule"], "confirmation", "{answer}");
    let pending = waits["pending"].as_u64().unwrap();
    let asked = &result["inputRequests"]["approval"]["params"];
    assert!(
        asked["message"]
            .as_str()
            .unwrap()
            .contains(&format!("custody show {pending}")),
        "{answer}"
    );
    desk.listed(pending);
    // Whatever comes back through the agent approves nothing.
    let back = json!({
        "requestState": result["requestState"],
        "inputResponses": {"approval": {"action": "accept", "content": {"approved": true}}},
    });
    let answer = agent.call_with("send_message", &message, &back).unwrap();
    assert_eq!(held(&answer), pending, "{answer}");
    assert_eq!(desk.sheet(pending)["state"], "waiting");
    assert_eq!(desk.effects(&nonce), 0);
    // A reviewer does.
    let said = desk.custody(&["approve", &pending.to_string()]);
    assert!(said.status.success(), "{}", words(&said));
    let answer = agent.call("send_message", &message).unwrap();
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert!(is_done(&answer), "{answer}");
    assert_eq!(desk.effects(&nonce), 1);
}

fn reviewers(ground: &Ground) -> String {
    format!(
        "[[review]]\nuids = [{}]\npolicies = ['demo']\n",
        ground.host.reviewer()
    )
}

#[test]
#[serial_test::file_serial(custody)]
fn who_is_no_reviewer_answers_nothing_and_an_agent_least_of_all() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, reviewers);
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let pending = desk.held(&mut agent, &nonce);
    let id = pending.to_string();
    let host = &desk.ground.host;

    // A stranger does not even learn that it is there.
    for arguments in [
        &["show", &id][..],
        &["approve", &id],
        &["refuse", &id, "--why", "x"],
    ] {
        let said = desk.custody_as(host.stranger(), arguments);
        assert_eq!(said.status.code(), Some(125), "{}", words(&said));
        assert!(
            words(&said).contains("no call") || words(&said).contains("may"),
            "{}",
            words(&said)
        );
        assert!(!words(&said).contains(&nonce), "{}", words(&said));
    }
    let said = desk.custody_as(host.stranger(), &["pending"]);
    assert!(
        words(&said).contains("nothing waits for you"),
        "{}",
        words(&said)
    );

    // Whoever runs the session sees it, and a rule gives the answer to another.
    assert_eq!(desk.sheet(pending)["state"], "waiting");
    let said = desk.custody(&["approve", &id]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert!(words(&said).contains("[[review]]"), "{}", words(&said));

    // The uid of a session, outside of any session, as whoever ran away with it would come.
    let uid = *host.agents().first().unwrap();
    for arguments in [
        &["pending"][..],
        &["show", &id],
        &["approve", &id],
        &["refuse", &id, "--why", "x"],
    ] {
        let said = desk.custody_as(uid, arguments);
        assert!(
            !said.status.success() || !words(&said).contains(&id),
            "{}",
            words(&said)
        );
        assert!(!words(&said).contains(&nonce), "{}", words(&said));
    }
    assert_eq!(desk.sheet(pending)["state"], "waiting");
    assert_eq!(desk.effects(&nonce), 0);

    // The reviewer does.
    let said = desk.custody_as(host.reviewer(), &["approve", &id]);
    assert!(said.status.success(), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 1);
}

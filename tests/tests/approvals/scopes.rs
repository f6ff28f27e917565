//! How far a yes goes: once, as often as the session makes the call, or for the target; and until when.

use std::{thread, time::Duration};

use custody_tests::{
    agent::Agent,
    ground::{self, is_done, words},
    suite::scene::nonce,
};
use serde_json::{Value, json};

use crate::desk::{Desk, held};

fn append(id: &str, text: &str) -> Value {
    json!({"id": id, "text": text})
}

/// Asks, has it approved with these words, and hears the result.
fn approved(desk: &Desk, agent: &mut Agent, arguments: &Value, words_of: &[&str]) {
    let pending = held(&agent.call("append_note", arguments).unwrap());
    desk.listed(pending);
    let id = pending.to_string();
    let said = desk.custody(&[&["approve", &id], words_of].concat());
    assert!(said.status.success(), "{}", words(&said));
    let answer = agent.call("append_note", arguments).unwrap();
    assert!(is_done(&answer), "{answer}");
}

#[test]
#[serial_test::file_serial(custody)]
fn an_approval_of_the_call_is_good_for_it_alone_and_ends_with_its_session() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let call = append("1", &nonce);
    approved(&desk, &mut agent, &call, &["--scope", "session"]);
    for times in 2..4 {
        let answer = agent.call("append_note", &call).unwrap();
        assert!(is_done(&answer), "{answer}");
        assert_eq!(desk.effects(&nonce), times);
    }
    let other_text = append("1", &format!("{nonce} "));
    let other_target = append("9", &nonce);
    for other in [&other_text, &other_target] {
        let _pending = held(&agent.call("append_note", other).unwrap());
    }
    let mut another = desk.agent();
    let _pending = held(&another.call("append_note", &call).unwrap());
    assert_eq!(desk.effects(&nonce), 3);
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn an_approval_of_the_target_is_good_for_any_words_there_until_its_time_is_over() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let [first, second, third] = [nonce(), nonce(), nonce()].map(Result::unwrap);
    let words_of = ["--scope", "target", "--for", "8s"];
    approved(&desk, &mut agent, &append("1", &first), &words_of);
    let answer = agent.call("append_note", &append("1", &second)).unwrap();
    assert!(is_done(&answer), "{answer}");
    let answer = agent.call("append_note", &append("9", &second)).unwrap();
    let _pending = held(&answer);
    assert_eq!(desk.effects(&first), 1);
    assert_eq!(desk.effects(&second), 1);
    thread::sleep(Duration::from_secs(8));
    let answer = agent.call("append_note", &append("1", &third)).unwrap();
    let _pending = held(&answer);
    assert_eq!(desk.effects(&third), 0);
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn an_approval_for_once_is_used_up_by_one_call() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let call = append("1", &nonce);
    approved(&desk, &mut agent, &call, &[]);
    let _pending = held(&agent.call("append_note", &call).unwrap());
    assert_eq!(desk.effects(&nonce), 1);
}

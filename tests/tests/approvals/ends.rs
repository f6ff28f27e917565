//! What ends while a call waits, or while it is performed: nothing is done unasked, nothing twice, and what
//! is not known is said to be in doubt.

use custody_tests::{
    ground::{self, is_done, words},
    suite::scene::nonce,
};

use crate::desk::{Desk, held};

#[test]
#[serial_test::file_serial(custody)]
fn what_waits_lapses_with_its_session() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let pending = desk.held(&mut agent, &nonce);
    agent.end().unwrap();
    desk.becomes(pending, "lapsed");
    is_void(&desk, pending, &nonce);
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn what_waits_lapses_with_the_gate_and_with_control() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    for program in ["custody-gate", "custody-control"] {
        let mut agent = desk.agent();
        let nonce = nonce().unwrap();
        let pending = desk.held(&mut agent, &nonce);
        desk.ground.host.kill(program).unwrap();
        agent.ended().unwrap();
        desk.ground.host.wait_ready().unwrap();
        desk.becomes(pending, "lapsed");
        is_void(&desk, pending, &nonce);
        // The service goes on, and so does whoever asks again.
        let mut agent = desk.agent();
        let again = desk.held(&mut agent, &nonce);
        let said = desk.custody(&["approve", &again.to_string()]);
        assert!(said.status.success(), "{program}: {}", words(&said));
        assert_eq!(desk.effects(&nonce), 1, "{program}");
    }
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn what_waits_lapses_with_custodyd() {
    if !ground::can_run() {
        return;
    }
    let mut desk = Desk::set(600, |_| String::new());
    for killed in [true, false] {
        let mut agent = desk.agent();
        let nonce = nonce().unwrap();
        let pending = desk.held(&mut agent, &nonce);
        if killed {
            desk.ground.host.kill_daemon().unwrap();
        } else {
            desk.ground.host.down().unwrap();
        }
        agent.ended().unwrap();
        desk.ground.host.up().unwrap();
        desk.becomes(pending, "lapsed");
        is_void(&desk, pending, &nonce);
    }
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn what_waits_outlives_the_vault_and_is_done_once_there_is_one() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let pending = desk.held(&mut agent, &nonce);
    desk.ground.host.kill("custody-vault").unwrap();
    let id = pending.to_string();
    desk.ground
        .host
        .wait("the approval is taken", || {
            let said = desk.custody(&["approve", &id]);
            assert!(
                said.status.success() || words(&said).contains("the vault is restarting"),
                "{}",
                words(&said)
            );
            said.status.success()
        })
        .unwrap();
    assert_eq!(desk.effects(&nonce), 1);
    let answer = agent
        .call("send_message", &ground::message(&nonce))
        .unwrap();
    assert!(is_done(&answer), "{answer}");
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn what_is_being_done_when_the_gate_ends_is_in_doubt_and_never_done_again() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let pending = desk.held(&mut agent, &nonce);
    desk.ground.witness.hold().unwrap();
    let approving = desk
        .ground
        .host
        .cli()
        .args(["approve", &pending.to_string()])
        .output_later();
    desk.ground
        .host
        .wait("the effect arrives", || desk.effects(&nonce) == 1)
        .unwrap();
    desk.ground.host.kill("custody-gate").unwrap();
    desk.ground.witness.let_go().unwrap();
    let said = approving.wait_with_output().unwrap();
    assert!(!said.status.success(), "{}", words(&said));
    desk.ground.host.wait_ready().unwrap();
    desk.becomes(pending, "in_doubt");
    let said = desk.custody(&["approve", &pending.to_string()]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    // Another session's same call is another call, and waits.
    drop(agent);
    let mut agent = desk.agent();
    let _pending = held(
        &agent
            .call("send_message", &ground::message(&nonce))
            .unwrap(),
    );
    assert_eq!(desk.effects(&nonce), 1);
    desk.is_sound();
}

/// A yes that comes now is refused, and nothing was done.
fn is_void(desk: &Desk, pending: u64, nonce: &str) {
    let said = desk.custody(&["approve", &pending.to_string()]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert_eq!(desk.effects(nonce), 0);
    assert!(
        desk.pending().iter().all(|it| it["pending"] != pending),
        "it is off the list"
    );
}

/// Starts it and hears it later.
trait Later {
    fn output_later(&mut self) -> std::process::Child;
}

impl Later for std::process::Command {
    fn output_later(&mut self) -> std::process::Child {
        self.stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    }
}

//! A session from its start to its end, and what happens when somebody leaves in between.

use std::{
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use custody_wire::{
    layer::Layer,
    operator::{Answer, Request},
    session,
    supervise::{ControlNotice, ControlOrder, End, StartRefusal},
};
use gate::id::SessionId;

use crate::peers::{Client, Control, a_run, command, is_root};

/// A session that runs, and the connection that it belongs to.
fn running(control: &Control) -> (SessionId, Client) {
    let mut client = control.client();
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = control.orders.start().0.session;
    assert!(matches!(control.asked(), session::Request::Open(_)));
    control.orders.started(session);
    let (answer, fds) = client.hear_with_fds().unwrap();
    match answer {
        Answer::Started {
            session: id,
            profile,
            weaknesses,
            ..
        } => {
            assert_eq!(id, session);
            assert_eq!((profile.as_str(), weaknesses), ("dev", vec!["gdb".into()]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fds.len(), 3, "stdin, stdout and stderr");
    (session, client)
}

fn closed(control: &Control, session: SessionId) {
    match control.asked() {
        session::Request::Close { session: id } => assert_eq!(id, session),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_is_opened_started_and_closed_in_that_order() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let (session, mut client) = running(&control);
    control.orders.ended(session);
    match client.hear() {
        Some(Answer::Ended {
            end: End::Exited { code },
        }) => assert_eq!(code, 7),
        other => panic!("{other:?}"),
    }
    closed(&control, session);
    // The connection may ask again.
    match client.ask(&Request::List, &[]) {
        Answer::Sessions(sessions) => assert!(sessions.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_that_does_not_start_is_closed_and_says_which_layer() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut client = control.client();
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = control.orders.start().0.session;
    control.asked();
    let refusal = StartRefusal::Layer {
        layer: Layer::Landlock,
        profile: "hardened".into(),
        detail: "landlock_create_ruleset: errno 38".into(),
    };
    let notice = ControlNotice::Refused { session, refusal };
    control.orders.say(&notice, &[]);
    match client.hear() {
        Some(Answer::Refused { why }) => {
            for part in ["landlock", "hardened", "errno 38"] {
                assert!(why.contains(part), "{why}");
            }
        }
        other => panic!("{other:?}"),
    }
    closed(&control, session);
}

#[test]
fn a_client_that_leaves_takes_its_session_along() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let (session, client) = running(&control);
    drop(client);
    match control.orders.next().0 {
        ControlOrder::Stop { session: id } => assert_eq!(id, session),
        other => panic!("{other:?}"),
    }
    // Still there until custodyd says that it is gone.
    match control.client().ask(&Request::List, &[]) {
        Answer::Sessions(sessions) => assert_eq!(sessions.len(), 1),
        other => panic!("{other:?}"),
    }
    control.orders.ended(session);
    closed(&control, session);
}

#[test]
fn a_client_that_leaves_before_the_start_leaves_no_session() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut client = control.client();
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = control.orders.start().0.session;
    control.asked();
    drop(client);
    assert!(matches!(control.orders.next().0, ControlOrder::Stop { session: id } if id == session));
    control.orders.started(session);
    control.orders.ended(session);
    closed(&control, session);
}

#[test]
fn signals_that_are_forwarded_are_and_others_are_not() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let (session, mut client) = running(&control);
    for signal in [9, 19, 15, 2, -1, 64] {
        client.send(&Request::Signal { signal }, &[]);
    }
    for expected in [15, 2] {
        match control.orders.next().0 {
            ControlOrder::Signal {
                session: id,
                signal,
            } => assert_eq!((id, signal), (session, expected)),
            other => panic!("{other:?}"),
        }
    }
    assert!(control.orders.within(Duration::from_millis(100)).is_none());
}

#[test]
fn a_signal_before_the_start_is_kept_until_then() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut client = control.client();
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = control.orders.start().0.session;
    client.send(&Request::Signal { signal: 2 }, &[]);
    assert!(control.orders.within(Duration::from_millis(100)).is_none());
    control.orders.started(session);
    assert!(matches!(
        control.orders.next().0,
        ControlOrder::Signal { signal: 2, .. }
    ));
}

#[test]
fn stop_answers_when_the_session_is_gone() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let (session, mut client) = running(&control);
    let mut stopper = control.client();
    stopper.send(&Request::Stop { session }, &[]);
    assert!(matches!(control.orders.next().0, ControlOrder::Stop { .. }));
    let asked = Instant::now();
    std::thread::sleep(Duration::from_millis(200));
    let end = End::Stopped {
        why: "stopped by an operator".into(),
    };
    control
        .orders
        .say(&ControlNotice::Ended { session, end }, &[]);
    assert!(matches!(stopper.hear(), Some(Answer::Done)));
    assert!(asked.elapsed() >= Duration::from_millis(200));
    assert!(matches!(
        client.hear(),
        Some(Answer::Ended {
            end: End::Stopped { .. }
        })
    ));
}

#[test]
fn when_custodyd_or_the_gate_is_gone_control_ends() {
    if !is_root() {
        return;
    }
    let mut control = Control::start("");
    let (_session, _client) = running(&control);
    let (spare, _) = custody_sys::channel::pair_seqpacket().unwrap();
    drop(std::mem::replace(&mut control.orders.0, spare));
    assert!(!control.child.wait().unwrap().success());
}

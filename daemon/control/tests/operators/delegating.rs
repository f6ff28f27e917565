//! Property B: who may delegate from which session, and what is passed on.

use std::{os::fd::AsFd as _, time::Duration};

use custody_wire::{
    operator::{Answer, Request, Run},
    session::{self, Part},
};
use gate::{
    id::{RoleName, SessionId, TenantName, ValueName},
    meaning::Subject,
    policy::Boundary,
};

use crate::peers::{Client, Control, a_run, client_of, command, is_root, values};

const RULES: &str = "\
[[access]]\nuids = [4001]\npolicies = ['mail', 'other']\nvalues = ['customer']\nroles = ['clerk']\n\
[[access]]\nuids = [4002]\npolicies = ['mail']\n";

/// A session of 4001's that runs.
fn his(control: &Control) -> (SessionId, Client) {
    let mut client = client_of(4001, &control.socket());
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let (start, _fds) = control.orders.start();
    assert_eq!(start.from, None);
    assert!(matches!(control.asked(), session::Request::Open(_)));
    control.orders.started(start.session);
    assert!(matches!(client.hear(), Some(Answer::Started { .. })));
    (start.session, client)
}

fn from(session: SessionId) -> Run {
    Run {
        policy: None,
        from: Some(Part {
            session,
            boundary: Some(Boundary::User),
            roles: Some([RoleName::parse("clerk").unwrap()].into()),
            values: Some([ValueName::parse("customer").unwrap()].into()),
        }),
        ..a_run("mail")
    }
}

#[test]
fn whose_it_is_delegates_and_gate_and_custodyd_are_told_from_which() {
    if !is_root() {
        return;
    }
    let control = Control::start(RULES);
    let (above, _his) = his(&control);
    let mut client = client_of(4001, &control.socket());
    client.send(&Request::Run(from(above)), &[command().as_fd()]);
    let (start, _fds) = control.orders.start();
    assert_eq!(start.from, Some(above));
    assert_eq!((start.caller_uid, start.policy.as_str()), (4001, "mail"));
    let session::Request::Open(open) = control.asked() else {
        panic!("it is opened");
    };
    assert_eq!(open.from, from(above).from);
    // No more roles than the rules give him now, whatever the session above has.
    assert_eq!(open.roles, [RoleName::parse("clerk").unwrap()].into());
    assert!(open.values.is_empty() && open.subject.is_none() && open.tenant.is_none());
    control.orders.started(start.session);
    assert!(matches!(client.hear(), Some(Answer::Started { .. })));
    let Answer::Sessions(listed) = control.client().ask(&Request::List, &[]) else {
        panic!("a list");
    };
    let named = |id| listed.iter().find(|it| it.session == id).unwrap().from;
    assert_eq!((named(start.session), named(above)), (Some(above), None));
}

#[test]
fn nobody_delegates_from_anothers_session_or_says_more_than_there_is() {
    if !is_root() {
        return;
    }
    let control = Control::start(RULES);
    let (above, _his) = his(&control);
    let command = command();
    let refused = |uid, run: Run| {
        let mut client = client_of(uid, &control.socket());
        let why = client.refused(&Request::Run(run), &[command.as_fd()]);
        assert!(control.orders.within(Duration::from_millis(50)).is_none());
        assert!(control.opened.try_recv().is_err(), "the gate was asked");
        why
    };
    // Another operator, who may use the policy, and a stranger are told the same as of none.
    for uid in [4002, 4003] {
        let why = refused(uid, from(above));
        assert!(why.contains(&format!("no session `{above}`")), "{why}");
    }
    let why = refused(4001, from(SessionId(99)));
    assert!(why.contains("no session"), "{why}");
    for run in [
        Run {
            values: values(&["customer"]),
            ..from(above)
        },
        Run {
            subject: Some(Subject::parse("somebody").unwrap()),
            ..from(above)
        },
        Run {
            tenant: Some(TenantName::parse("acme").unwrap()),
            ..from(above)
        },
        Run {
            policy: a_run("other").policy,
            ..from(above)
        },
    ] {
        let why = refused(4001, run);
        assert!(why.contains("a delegated session has"), "{why}");
    }
    // Nor from one that does not run yet.
    let mut early = client_of(4001, &control.socket());
    early.send(&Request::Run(a_run("mail")), &[command.as_fd()]);
    let (unborn, _fds) = control.orders.start();
    assert!(matches!(control.asked(), session::Request::Open(_)));
    let why = refused(4001, from(unborn.session));
    assert!(why.contains("no session"), "{why}");
}

#[test]
fn an_agents_uid_delegates_nothing_and_a_doctors_session_is_nobodys() {
    if !is_root() {
        return;
    }
    let rules = format!("{RULES}[[access]]\nuids = [1900000001]\npolicies = ['mail']\n");
    let control = Control::start(&rules);
    let (above, _his) = his(&control);
    let mut agent = client_of(1_900_000_001, &control.socket());
    match agent.hear() {
        Some(Answer::Refused { why }) => assert!(why.contains("reserved"), "{why}"),
        other => panic!("{other:?}"),
    }
    let doctor = Run {
        policy: a_run(custody_wire::doctor::POLICY).policy,
        ..from(above)
    };
    let mut client = client_of(4001, &control.socket());
    let why = client.refused(&Request::Run(doctor), &[command().as_fd()]);
    assert!(why.contains("for `custody doctor` alone"), "{why}");
    assert!(control.orders.within(Duration::from_millis(50)).is_none());
}

//! Calls that wait for a person: who is shown them, who may answer, and that an answer counts once.

use std::{os::fd::AsFd as _, time::Duration};

use custody_wire::{
    operator::{Answer, Judged, PendingView, Request, Shown, State},
    profile::Profile,
    session::{self, Answered, Outcome, Over, Signed, Verdict, Waits},
};
use gate::{
    approval::{Needs, Reach, Scope},
    call::Call,
    chain::Place,
    digest::{Digest, Domain},
    id::{PolicyName, SessionId, ToolName},
};

use crate::peers::{Client, Control, a_run, client_of, command, is_root};

/// Whoever runs sessions here, another, and a third.
const OWNER: u32 = 4001;
const OTHER: u32 = 4002;
const THIRD: u32 = 4003;

const ACCESS: &str = "[[access]]\nuids = [4001]\npolicies = ['mail']\n";

const SEPARATE: &str = "[[review]]\nuids = [4001, 4002]\npolicies = ['mail']\nseparate = true\n";

/// A session of the owner's that runs under `profile`, and the connection that it belongs to.
pub(crate) fn running(control: &Control, profile: Profile) -> (SessionId, Client) {
    let mut client = client_of(OWNER, &control.socket());
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = control.orders.start().0.session;
    assert!(matches!(control.asked(), session::Request::Open(_)));
    control.orders.started_as(session, profile);
    assert!(matches!(client.hear(), Some(Answer::Started { .. })));
    (session, client)
}

fn far() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_millis()).unwrap() + 600_000
}

pub(crate) fn waits(session: SessionId, position: u64) -> Waits {
    let call = format!(r#"{{"arguments":{{"to":"<b>{position}\u001b[2J"}},"tool":"send"}}"#);
    Waits {
        session,
        from: vec![SessionId(0x11)],
        decision: Place {
            digest: Digest::of(Domain::Line, &position.to_le_bytes()),
            position,
        },
        digest: Call::digest_of(call.as_bytes()),
        call: call.into_bytes(),
        tool: ToolName::parse("send").unwrap(),
        policy: PolicyName::parse("mail").unwrap(),
        policy_hash: Digest::of(Domain::Policy, b"mail"),
        caller_uid: OWNER,
        task: None,
        since: far() - 600_000,
        expires: far(),
        needs: Needs::Approval,
        vault: None,
        reasons: Vec::new(),
        values: Vec::new(),
        classes: vec!["external".into()],
        risk: "write".into(),
        taint: Vec::new(),
    }
}

/// The gate says that it waits; it is on the list when this returns.
pub(crate) fn wait(control: &Control, waits: &Waits) {
    control.gate_says(&session::Answer::Waits(Box::new(waits.clone())));
    let mut root = control.client();
    for _ in 0..250 {
        if show(&mut root, waits.decision.position).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it is not kept");
}

fn show(client: &mut Client, pending: u64) -> Result<Shown, String> {
    let request = Request::Show {
        pending,
        session: None,
    };
    match client.ask(&request, &[]) {
        Answer::Shown(shown) => Ok(*shown),
        Answer::Refused { why } => Err(why),
        other => panic!("{other:?}"),
    }
}

fn list(client: &mut Client) -> Vec<PendingView> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = Request::Pending { after, all: false };
        match client.ask(&request, &[]) {
            Answer::Pending { calls, next } => {
                all.extend(calls);
                after = next;
            }
            other => panic!("{other:?}"),
        }
        if after.is_none() {
            return all;
        }
    }
}

const fn judged(waits: &Waits) -> Judged {
    Judged {
        session: waits.session,
        pending: waits.decision.position,
        digest: waits.digest,
    }
}

fn yes(of: Judged) -> Request {
    Request::Approve {
        of,
        scope: Scope::ONCE,
        signed: None,
    }
}

fn no(of: Judged, why: &str) -> Request {
    Request::Refuse {
        of,
        why: why.into(),
    }
}

fn answered(control: &Control) -> Answered {
    match control.asked() {
        session::Request::Answer(answered) => answered,
        other => panic!("{other:?}"),
    }
}

fn nobody_answered(control: &Control) {
    let asked = control.opened.recv_timeout(Duration::from_millis(150));
    assert!(asked.is_err(), "{asked:?}");
}

#[test]
fn whoever_runs_a_session_reviews_it_and_the_gate_is_told_once() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let waits = waits(session, 7);
    wait(&control, &waits);
    let mut his = client_of(OWNER, &control.socket());
    let listed = list(&mut his);
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].pending, listed[0].state), (7, State::Waiting));
    let shown = show(&mut his, 7).unwrap();
    assert_eq!(shown.waits.call, waits.call);
    assert_eq!(shown.not_yours, None);

    assert!(matches!(his.ask(&yes(judged(&waits)), &[]), Answer::Done));
    let told = answered(&control);
    assert_eq!(
        (told.session, told.pending, told.digest),
        (session, 7, waits.digest)
    );
    assert_eq!(told.reviewer.uid, OWNER);
    assert!(matches!(
        told.verdict,
        Verdict::Approve {
            scope: Scope::ONCE,
            signed: None
        }
    ));
    assert_eq!(show(&mut his, 7).unwrap().state, State::Approved);
    assert!(list(&mut his).is_empty());

    // A second yes, a no, from him and from root: the gate hears none of them.
    for request in [yes(judged(&waits)), no(judged(&waits), "no")] {
        let why = his.refused(&request, &[]);
        assert!(why.contains("answered by uid 4001"), "{why}");
        let why = control.client().refused(&request, &[]);
        assert!(why.contains("answered by uid 4001"), "{why}");
    }
    nobody_answered(&control);

    let outcome = Outcome::Done { status: 201 };
    control.gate_says(&session::Answer::Over(Over {
        session,
        pending: 7,
        outcome,
    }));
    std::thread::sleep(Duration::from_millis(200));
    let shown = show(&mut his, 7).unwrap();
    assert_eq!(shown.state, State::Done);
    assert_eq!(shown.waits.from, [SessionId(0x11)]);
    assert!(shown.over.unwrap().why.contains("201"));
    assert_eq!(shown.answered.unwrap().uid, OWNER);
}

#[test]
fn what_the_gate_does_not_take_waits_on_or_ends_as_the_gate_says() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let mut his = client_of(OWNER, &control.socket());
    let approve = |waits: &Waits, reach| Request::Approve {
        of: judged(waits),
        scope: Scope { reach, until: None },
        signed: None,
    };
    // Nothing of it was used: the call may be answered again.
    let kept = waits(session, 7);
    wait(&control, &kept);
    for _ in 0..2 {
        let why = his.refused(&approve(&kept, Reach::Call), &[]);
        assert!(why.contains("not now"), "{why}");
        let _told = answered(&control);
        let shown = show(&mut his, 7).unwrap();
        assert_eq!((shown.state, shown.answered), (State::Waiting, None));
    }
    assert!(matches!(his.ask(&yes(judged(&kept)), &[]), Answer::Done));
    let _told = answered(&control);
    assert_eq!(show(&mut his, 7).unwrap().state, State::Approved);
    // The gate says how it ended.
    let other = waits(session, 8);
    wait(&control, &other);
    his.refused(&approve(&other, Reach::Target), &[]);
    let shown = show(&mut his, 8).unwrap();
    assert_eq!(shown.state, State::Refused);
    assert_eq!(shown.over.unwrap().why, "not now");
}

#[test]
fn of_two_tabs_that_say_yes_at_once_one_is_heard() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    for position in 1..=8 {
        let waits = waits(session, position);
        wait(&control, &waits);
        let mut tabs: Vec<_> = (0..6).map(|_| control.client()).collect();
        for tab in &mut tabs {
            tab.send(&yes(judged(&waits)), &[]);
        }
        let done = tabs
            .iter_mut()
            .filter_map(Client::hear)
            .filter(|it| matches!(it, Answer::Done))
            .count();
        assert_eq!(done, 1);
        assert_eq!(answered(&control).pending, position);
    }
    nobody_answered(&control);
}

#[test]
fn a_reviewer_without_rights_sees_nothing_and_answers_nothing() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let waits = waits(session, 7);
    wait(&control, &waits);
    let mut stranger = client_of(OTHER, &control.socket());
    assert!(list(&mut stranger).is_empty());
    let none = show(&mut stranger, 8).unwrap_err();
    // What he may not see and what is not there are the same answer.
    assert_eq!(show(&mut stranger, 7).unwrap_err(), none.replace('8', "7"));
    for request in [yes(judged(&waits)), no(judged(&waits), "no")] {
        assert!(stranger.refused(&request, &[]).contains("no call 7"));
    }
    nobody_answered(&control);
}

#[test]
fn a_rule_says_who_and_separate_means_another() {
    if !is_root() {
        return;
    }
    let control = Control::start(&format!("{ACCESS}{SEPARATE}"));
    let (session, _client) = running(&control, Profile::Dev);
    let waits = waits(session, 7);
    wait(&control, &waits);
    let mut owner = client_of(OWNER, &control.socket());
    assert_eq!(list(&mut owner).len(), 1, "he sees his own");
    let why = owner.refused(&yes(judged(&waits)), &[]);
    assert!(
        why.contains("your own") && why.contains("separate"),
        "{why}"
    );
    assert_eq!(show(&mut owner, 7).unwrap().not_yours, Some(why));
    let mut third = client_of(THIRD, &control.socket());
    third.refused(&yes(judged(&waits)), &[]);
    nobody_answered(&control);
    let mut other = client_of(OTHER, &control.socket());
    assert!(matches!(other.ask(&yes(judged(&waits)), &[]), Answer::Done));
    assert_eq!(answered(&control).reviewer.uid, OTHER);
}

#[test]
fn under_hardened_another_than_whoever_runs_the_session_answers() {
    if !is_root() {
        return;
    }
    let rule = "[[review]]\nuids = [4001, 4002]\npolicies = ['mail']\n";
    let control = Control::start(&format!("{ACCESS}{rule}"));
    let (session, _client) = running(&control, Profile::Hardened);
    let waits = waits(session, 7);
    wait(&control, &waits);
    let mut owner = client_of(OWNER, &control.socket());
    let why = owner.refused(&yes(judged(&waits)), &[]);
    assert!(
        why.contains("hardened") && why.contains("[[review]]"),
        "{why}"
    );
    nobody_answered(&control);
    let mut other = client_of(OTHER, &control.socket());
    assert!(matches!(other.ask(&yes(judged(&waits)), &[]), Answer::Done));
}

#[test]
fn a_forged_digest_another_session_or_another_number_is_not_answered() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let (right, other) = (waits(session, 7), waits(session, 8));
    wait(&control, &right);
    wait(&control, &other);
    let mut his = client_of(OWNER, &control.socket());
    let forged = Judged {
        digest: other.digest,
        ..judged(&right)
    };
    let why = his.refused(&yes(forged), &[]);
    assert!(why.contains("not the one that you were shown"), "{why}");
    let elsewhere = Judged {
        session: SessionId(session.0 ^ 1),
        ..judged(&right)
    };
    his.refused(&yes(elsewhere), &[]);
    his.refused(&no(judged(&right), "  "), &[]);
    his.refused(&no(judged(&right), &"x".repeat(1_001)), &[]);
    let over = Request::Approve {
        of: judged(&right),
        scope: Scope {
            reach: Reach::Once,
            until: Some(1),
        },
        signed: None,
    };
    assert!(his.refused(&over, &[]).contains("limit"));
    nobody_answered(&control);
    assert_eq!(list(&mut his).len(), 2);
}

#[test]
fn a_call_that_needs_a_signature_is_not_approved_without_one_of_it() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Hardened);
    let waits = Waits {
        needs: Needs::Signature,
        ..waits(session, 7)
    };
    wait(&control, &waits);
    let mut his = client_of(OWNER, &control.socket());
    let why = his.refused(&yes(judged(&waits)), &[]);
    assert!(why.contains("custody approve 7 --key FILE"), "{why}");
    let signed = |statement: &[u8]| Request::Approve {
        of: judged(&waits),
        scope: Scope::ONCE,
        signed: Some(Signed {
            statement: statement.to_vec(),
            signature: b"-".to_vec(),
        }),
    };
    his.refused(&signed(b"{}"), &[]);
    let mut statement = gate::approval::Statement {
        audience: Digest::ZERO,
        call: Digest::ZERO,
        decision: waits.decision,
        epoch: gate::nonce::Nonce([0; 16]),
        expires: waits.expires,
        format: gate::approval::FORMAT,
        nonce: gate::nonce::Nonce([1; 16]),
        policy: waits.policy_hash,
        scope: Scope::ONCE,
        session,
        tool: waits.tool.clone(),
    };
    let why = his.refused(&signed(&statement.to_bytes().unwrap()), &[]);
    assert!(why.contains("another call"), "{why}");
    nobody_answered(&control);
    statement.call = waits.digest;
    let request = signed(&statement.to_bytes().unwrap());
    // His own session, and `hardened`: the vault checks that it is he.
    assert!(matches!(his.ask(&request, &[]), Answer::Done));
    assert!(matches!(
        answered(&control).verdict,
        Verdict::Approve {
            signed: Some(_),
            ..
        }
    ));
}

#[test]
fn a_session_that_asks_too_often_is_refused_and_nobody_is_shown_it() {
    if !is_root() {
        return;
    }
    let limits = "[approvals]\nquestions_per_minute = 2\nanswers_per_minute = 1\n";
    let control = Control::start(&format!("{limits}{ACCESS}"));
    let (session, _client) = running(&control, Profile::Dev);
    let (first, second) = (waits(session, 1), waits(session, 2));
    wait(&control, &first);
    wait(&control, &second);
    control.gate_says(&session::Answer::Waits(Box::new(waits(session, 3))));
    let told = answered(&control);
    assert_eq!(told.pending, 3);
    match told.verdict {
        Verdict::Lapse { why } => assert!(why.contains("2 times within a minute"), "{why}"),
        other => panic!("{other:?}"),
    }
    let mut his = client_of(OWNER, &control.socket());
    assert_eq!(list(&mut his).len(), 2);
    // What is new of an old question is no new question.
    control.gate_says(&session::Answer::Waits(Box::new(first.clone())));
    nobody_answered(&control);
    // And nobody says yes all day.
    assert!(matches!(his.ask(&yes(judged(&first)), &[]), Answer::Done));
    let _first = answered(&control);
    let why = his.refused(&yes(judged(&second)), &[]);
    assert!(why.contains("1 calls within a minute"), "{why}");
    assert!(matches!(
        his.ask(&no(judged(&second), "later"), &[]),
        Answer::Done
    ));
}

#[test]
fn what_waits_lapses_with_its_session_and_with_the_service() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, client) = running(&control, Profile::Dev);
    let (one, two) = (waits(session, 1), waits(session, 2));
    wait(&control, &one);
    wait(&control, &two);
    let mut root = control.client();
    assert!(matches!(root.ask(&yes(judged(&one)), &[]), Answer::Done));
    drop(client);
    control.orders.ended(session);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(show(&mut root, 1).unwrap().state, State::InDoubt);
    assert_eq!(show(&mut root, 2).unwrap().state, State::Lapsed);

    let (session, _client) = running_after(&control);
    let third = waits(session, 3);
    wait(&control, &third);
    let control = Control::start_again(control.end(), ACCESS);
    let shown = show(&mut control.client(), 3).unwrap();
    assert_eq!(shown.state, State::Lapsed);
    assert!(shown.over.unwrap().why.contains("started again"));
    // An answer to it comes too late.
    control.client().refused(&yes(judged(&third)), &[]);
    nobody_answered(&control);
}

/// A row that somebody else than the gate put into the store, and that began to wait so long ago.
fn row(control: &Control, instance: &str, position: u64, ago: u64) -> custody_approvals::Asked {
    let waits = waits(SessionId(0x2a), position);
    custody_approvals::Asked {
        call: waits.digest,
        caller: OWNER,
        classes: Vec::new(),
        decision: waits.decision,
        expires: far(),
        instance: match instance {
            "ours" => control.folder.path().join("policies").display().to_string(),
            other => other.into(),
        },
        policy: waits.policy,
        session: waits.session,
        since: far() - 600_000 - ago,
        tool: waits.tool,
        waits: "{}".into(),
    }
}

#[test]
fn what_the_gate_does_not_know_of_waits_no_longer_and_what_is_long_over_is_forgotten() {
    use custody_approvals::{Key, Sqlite, State as Kept, Store as _, StoreError};

    const DAY: u64 = 24 * 60 * 60 * 1_000;
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let said = waits(session, 7);
    wait(&control, &said);
    let store = Sqlite::open(&control.folder.path().join("approvals")).unwrap();
    let now = far() - 600_000;
    for asked in [
        row(&control, "ours", 8, 0),
        row(&control, "another's", 9, 0),
        row(&control, "another's", 10, 31 * DAY),
        row(&control, "another's", 11, 29 * DAY),
    ] {
        store.keep(&asked, now).unwrap();
    }
    let key = |position| Key {
        session: SessionId(0x2a),
        position,
    };
    let state = |position| store.find(key(position)).map(|it| it.state);
    for position in [10, 11] {
        let _row = store
            .finish(key(position), Kept::Lapsed, "over", now)
            .unwrap();
    }
    control.gate_says(&session::Answer::Current);
    let settled = || matches!(state(8), Ok(Kept::Lapsed));
    for _ in 0..250 {
        if settled() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(settled(), "{:?}", state(8));
    assert_eq!(state(9).unwrap(), Kept::Waiting, "another daemon's");
    let mut root = control.client();
    assert_eq!(show(&mut root, 7).unwrap().state, State::Waiting);
    // It is said once on a channel: what is new after it waits.
    wait(&control, &waits(session, 12));
    control.gate_says(&session::Answer::Current);
    wait(&control, &waits(session, 13));
    assert_eq!(show(&mut root, 12).unwrap().state, State::Waiting);

    assert_eq!(state(10).unwrap(), Kept::Lapsed);
    let control = Control::start_again(control.end(), ACCESS);
    let store = Sqlite::open(&control.folder.path().join("approvals")).unwrap();
    let gone = || matches!(store.find(key(10)), Err(StoreError::NotFound { .. }));
    for _ in 0..250 {
        if gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gone());
    assert_eq!(store.find(key(11)).unwrap().state, Kept::Lapsed);
}

/// As [`running`], where the gate was asked other things meanwhile.
fn running_after(control: &Control) -> (SessionId, Client) {
    let mut client = client_of(OWNER, &control.socket());
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = loop {
        if let custody_wire::supervise::ControlOrder::Start(start) = control.orders.next().0 {
            break start.session;
        }
    };
    control.orders.started(session);
    assert!(matches!(client.hear(), Some(Answer::Started { .. })));
    (session, client)
}

#[test]
fn an_answer_that_the_gate_does_not_take_is_said_to_be_none() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let waits = waits(session, 7);
    wait(&control, &waits);
    let why = control
        .client()
        .refused(&no(judged(&waits), "nobody waits"), &[]);
    assert!(why.contains("the gate did not take the answer"), "{why}");
}

#[test]
fn without_a_store_every_call_that_would_wait_is_refused_and_says_why() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("approvals")).unwrap();
    let file = folder.path().join("approvals/approvals.sqlite");
    std::fs::write(&file, vec![b'x'; 8_192]).unwrap();
    let control = Control::start_again(folder, ACCESS);
    // Sessions go on.
    let (session, _client) = running(&control, Profile::Dev);
    control.gate_says(&session::Answer::Waits(Box::new(waits(session, 7))));
    match answered(&control).verdict {
        Verdict::Lapse { why } => assert!(why.contains("not a store of approvals"), "{why}"),
        other => panic!("{other:?}"),
    }
    let request = Request::Pending {
        after: None,
        all: false,
    };
    let why = control.client().refused(&request, &[]);
    assert!(why.contains("not a store of approvals"), "{why}");
}

#[test]
fn a_gate_whose_digest_is_not_of_its_bytes_is_not_believed() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let mut false_one = waits(session, 7);
    false_one.digest = waits(session, 8).digest;
    control.gate_says(&session::Answer::Waits(Box::new(false_one)));
    assert!(matches!(answered(&control).verdict, Verdict::Lapse { .. }));
}

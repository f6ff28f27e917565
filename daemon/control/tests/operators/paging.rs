//! The reviewers' page on its channel: it has no right of its own, and a reviewer's by his ticket alone.

use std::time::Duration;

use custody_wire::{
    operator::{Answer, Judged, OfPage, Request, Ticket},
    profile::Profile,
    session,
};
use gate::approval::Scope;

use crate::{
    peers::{Client, Control, client_of, is_root},
    reviewing::{running, wait, waits},
};

const ACCESS: &str = "[[access]]\nuids = [4001]\npolicies = ['mail']\n";

const OWNER: u32 = 4001;

fn token(control: &Control, uid: u32) -> Ticket {
    match client_of(uid, &control.socket()).ask(&Request::Login, &[]) {
        Answer::Login { url } => {
            let hex = url.strip_prefix("http://127.0.0.1:7707/login/").unwrap();
            let byte = |at: usize| u8::from_str_radix(hex.get(at * 2..at * 2 + 2).unwrap(), 16);
            Ticket(core::array::from_fn(|at| byte(at).unwrap()))
        }
        other => panic!("{other:?}"),
    }
}

fn enter(page: &mut Client, token: Ticket) -> Ticket {
    match page.ask(&Request::Enter { token }, &[]) {
        Answer::Entered { ticket } => ticket,
        other => panic!("{other:?}"),
    }
}

fn ask(ticket: Ticket, what: OfPage) -> Request {
    Request::Page {
        ticket,
        what: Box::new(what),
    }
}

const fn list() -> OfPage {
    OfPage::Pending { after: None }
}

fn listed(page: &mut Client, ticket: Ticket) -> usize {
    match page.ask(&ask(ticket, list()), &[]) {
        Answer::Pending { calls, .. } => calls.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_page_answers_as_whoever_made_the_link_and_as_nobody_else() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let (session, _client) = running(&control, Profile::Dev);
    let waits = waits(session, 7);
    wait(&control, &waits);
    let mut page = control.page();
    let of = Judged {
        session,
        pending: 7,
        digest: waits.digest,
    };
    let yes = || OfPage::Approve {
        of,
        scope: Scope::ONCE,
    };

    // By itself it is nobody.
    page.refused(&ask(Ticket([0; 32]), list()), &[]);
    let own = Request::Approve {
        of,
        scope: Scope::ONCE,
        signed: None,
    };
    let mut astray = control.page();
    astray.send(&own, &[]);
    assert!(astray.hear().is_none(), "its channel is closed");
    // A stranger's link gives what a stranger has.
    let stranger = enter_as(&control, &mut page, 4002);
    assert_eq!(listed(&mut page, stranger), 0);
    page.refused(&ask(stranger, yes()), &[]);

    let his = token(&control, OWNER);
    let ticket = enter(&mut page, his);
    page.refused(&Request::Enter { token: his }, &[]);
    assert_eq!(listed(&mut page, ticket), 1);
    let asked = control.opened.recv_timeout(Duration::from_millis(100));
    assert!(asked.is_err(), "{asked:?}");
    assert!(matches!(page.ask(&ask(ticket, yes()), &[]), Answer::Done));
    match control.asked() {
        session::Request::Answer(answered) => assert_eq!(answered.reviewer.uid, OWNER),
        other => panic!("{other:?}"),
    }
    assert!(page.refused(&ask(ticket, yes()), &[]).contains("uid 4001"));
    assert!(matches!(
        page.ask(&ask(ticket, OfPage::Leave), &[]),
        Answer::Done
    ));
    page.refused(&ask(ticket, list()), &[]);
}

fn enter_as(control: &Control, page: &mut Client, uid: u32) -> Ticket {
    let token = token(control, uid);
    enter(page, token)
}

#[test]
fn a_token_or_ticket_in_other_hands_than_the_pages_is_worth_nothing() {
    if !is_root() {
        return;
    }
    let control = Control::start(ACCESS);
    let mut page = control.page();
    let ticket = enter_as(&control, &mut page, OWNER);
    let fresh = token(&control, OWNER);
    for uid in [OWNER, 4002, 4100, 0] {
        let mut other = client_of(uid, &control.socket());
        let why = other.refused(&ask(ticket, list()), &[]);
        assert!(why.contains("only the reviewers' page"), "{why}");
        let why = other.refused(&Request::Enter { token: fresh }, &[]);
        assert!(why.contains("only the reviewers' page"), "{why}");
    }
    // It was not used up by them.
    let _ticket = enter(&mut page, fresh);
    // A page that was started again has no ticket of its own, and the tickets of the one before.
    drop(page);
    let mut another = control.page();
    assert_eq!(listed(&mut another, ticket), 0);
    another.refused(&ask(Ticket([7; 32]), list()), &[]);
}

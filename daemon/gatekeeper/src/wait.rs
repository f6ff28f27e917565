//! Calls that wait: how they begin to, and how that ends.
//!
//! A held call lapses: no reviewer can answer in this version. A deferred call is decided again when
//! its turn ends, by the same function; where no end comes, it lapses too.

use std::{
    rc::{Rc, Weak},
    time::Duration,
};

use custody_wire::agent::Answer;
use gate::{
    decide::{Ask, Held, Moment, Verdict},
    json::{self, Limits},
    record::{Decision, Why},
};
use tokio::{task, time::sleep};

use crate::{
    call::{self, Asked, Begun, Rule},
    keeper::Keeper,
    pending::{For, Said, WAITING, Waiting},
    session::Session,
};

/// How long the end of a turn waits for one of the session's slots before it looks again.
const SLOT: Duration = Duration::from_millis(20);

/// Records that a call waits, and says so. The same call that waits already is the same answer.
pub(crate) fn begin(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    asked: Asked<'_>,
    held: &Held,
    waits_for: For,
) -> Answer {
    let digest = held.digest();
    // Though it would now be held: it was performed before what holds it came.
    if let Some(answer) = session.pending.borrow_mut().settled(digest) {
        return call::numbered(answer, asked.number);
    }
    if let Some(waiting) = session.pending.borrow().find(digest) {
        return waiting.answer(asked.number);
    }
    if session.pending.borrow().room().is_err() {
        let why = format!("{WAITING} calls of this session wait already; wait for one to end");
        return call::refuse_here(keeper, session, asked, Rule::Busy, &why);
    }
    let rules = session.loaded.policy.session();
    let seconds = match waits_for {
        For::Person => rules.hold_seconds,
        For::Turn => rules.turn_seconds,
    };
    let span = Duration::from_secs(seconds.into());
    let now = keeper.book.now();
    let expires = now.saturating_add(u64::from(seconds).saturating_mul(1_000));
    let record = {
        let facts = session.facts.borrow();
        let scene = call::scene(session, &facts, now);
        match waits_for {
            For::Person => Decision::held(&scene, held, expires),
            For::Turn => Decision::deferred(&scene, held),
        }
    };
    let decision = match keeper.book.record(&record) {
        Ok(place) => place,
        Err(unrecorded) => {
            return call::refused(asked.number, Rule::Ledger, &unrecorded.to_string());
        }
    };
    let waiting = Waiting {
        call: digest,
        decision,
        expires,
        waits_for,
        tool: asked.tool.into(),
        arguments: asked.arguments.into(),
        said: said(held, waits_for),
    };
    tracing::info!(
        session = %session.id,
        rule = waiting.said.rule,
        record = decision.position,
        "held"
    );
    let answer = waiting.answer(asked.number);
    session.pending.borrow_mut().add(waiting);
    expire(keeper, session, decision.position, span);
    answer
}

fn said(held: &Held, waits_for: For) -> Said {
    let then = match waits_for {
        For::Person => "; no reviewer can answer in this version, so the call lapses then",
        For::Turn => "",
    };
    match held.reasons() {
        [] => Said {
            rule: "hold".into(),
            argument: None,
            why: "it waits".into(),
        },
        [first, rest @ ..] => {
            let more: String = rest.iter().map(|it| format!("; {}", it.why)).collect();
            Said {
                rule: first.rule.as_str().into(),
                argument: first.argument.clone().map(String::from),
                why: format!(
                    "{}{more}. What would change it: {}{then}",
                    first.why, first.change
                ),
            }
        }
    }
}

/// Ends the wait when its time is over.
fn expire(keeper: &Rc<Keeper>, session: &Rc<Session>, position: u64, span: Duration) {
    let (keeper, session) = (Rc::downgrade(keeper), Rc::downgrade(session));
    drop(task::spawn_local(async move {
        sleep(span).await;
        if let (Some(keeper), Some(session)) = (Weak::upgrade(&keeper), Weak::upgrade(&session)) {
            let waiting = session.pending.borrow_mut().take(position);
            if let Some(waiting) = waiting {
                let why = match waiting.waits_for {
                    For::Person => "nobody answered in its time",
                    For::Turn => "its turn did not end in its time",
                };
                lapse(&keeper, &session, &waiting, why);
            }
        }
    }));
}

/// Records that a call waits no longer and was not performed.
pub(crate) fn lapse(keeper: &Keeper, session: &Session, waiting: &Waiting, why: &str) {
    tracing::info!(session = %session.id, record = waiting.decision.position, why, "lapsed");
    let record = Decision::Lapsed {
        at: keeper.book.now(),
        call: waiting.call,
        decision: waiting.decision,
        session: session.id,
        why: Why::from(why),
    };
    if keeper.book.record(&record).is_err() {
        // It is over all the same: the failure is in the log.
    }
}

/// The turn is over: what was deferred in it is decided on again, one call after the other.
pub(crate) fn end_turn(keeper: &Rc<Keeper>, session: &Rc<Session>) {
    let deferred = session.pending.borrow_mut().take_turn();
    let (keeper, session) = (Rc::clone(keeper), Rc::clone(session));
    drop(task::spawn_local(async move {
        for waiting in deferred {
            let answer = commit(&keeper, &session, &waiting).await;
            let mut pending = session.pending.borrow_mut();
            pending.over(waiting.call);
            pending.settle(waiting.call, answer);
        }
    }));
}

async fn commit(keeper: &Rc<Keeper>, session: &Rc<Session>, waiting: &Waiting) -> Answer {
    let slot = loop {
        if !session.is_open() {
            lapse(keeper, session, waiting, "the session ended");
            return call::refused(0, Rule::Closed, "the session is over");
        }
        match session.slot() {
            Some(slot) => break slot,
            None => sleep(SLOT).await,
        }
    };
    let asked = Asked {
        number: 0,
        tool: &waiting.tool,
        arguments: &waiting.arguments,
    };
    let verdict = match json::reparse(asked.arguments, &Limits::CALL) {
        Ok(arguments) => session.loaded.decide(
            &session.facts.borrow(),
            &Ask::new(asked.tool, &arguments).at(Moment::Commit, keeper.now_ms()),
        ),
        Err(error) => {
            lapse(keeper, session, waiting, "it can no longer be read");
            return call::refused(0, Rule::Closed, &error.to_string());
        }
    };
    match verdict {
        Verdict::Allow(allowed) | Verdict::Limit(allowed) => {
            match call::dispatch(keeper, session, asked, allowed, slot) {
                Begun::Answered(answer) => answer,
                Begun::Performing(performing) => {
                    let (answer, slot) = performing.finish().await;
                    drop(slot);
                    answer
                }
            }
        }
        // What holds it now was not there when it was deferred.
        Verdict::Defer(held) | Verdict::Hold(held) => {
            session.pending.borrow_mut().over(waiting.call);
            begin(keeper, session, asked, &held, For::Person)
        }
        Verdict::Refuse(refusal) => call::refuse(keeper, session, asked, None, refusal),
    }
}

//! Calls that wait: how they begin to, and how that ends.
//!
//! A held call waits for a reviewer ([`crate::review`]), a deferred one for the end of its turn. Both
//! are decided on again then, by the same function, and lapse where neither comes in its time.

use std::{rc::Rc, time::Duration};

use custody_wire::{
    agent::Answer,
    session::{self, Outcome},
};
use gate::{
    decide::{Allowed, Ask, Held, Moment, Refusal, Verdict},
    json::{self, JsonError, Limits},
    record::{Decision, Why},
    session::Reviewed,
};
use tokio::{task, time::sleep};

use crate::{
    call::{self, Asked, Begun, Rule},
    keeper::Keeper,
    outbox::Item,
    pending::{For, Past, Said, WAITING, Waiting},
    session::{Session, Slot},
    shown::{Shown, Span},
};

/// How long a call waits for one of its session's slots before it looks again.
const SLOT: Duration = Duration::from_millis(20);

/// Why a held call lapses.
pub(crate) const UNANSWERED: &str = "nobody answered in its time";

/// Why an approved call lapses.
pub(crate) const LATE: &str = "it was approved, and the session's other calls took all of its time";

/// Why whatever waits lapses.
pub(crate) const ENDED: &str = "the session ended";

/// What a call is to wait for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Until {
    Answered,
    TurnEnd,
}

/// Records that a call waits, and says so. The same call that waits already is the same answer.
pub(crate) fn begin(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    asked: Asked<'_>,
    held: &Held,
    until: Until,
) -> Answer {
    let digest = held.digest();
    if let Some(waiting) = session.pending.borrow().find(digest) {
        return waiting.answer(asked.number);
    }
    if session.pending.borrow().room().is_err() {
        let why = format!("{WAITING} calls of this session wait already; wait for one to end");
        return call::refuse_here(keeper, session, asked, Rule::Busy, &why);
    }
    let rules = session.loaded.policy.session();
    let seconds = match until {
        Until::Answered => rules.hold_seconds,
        Until::TurnEnd => rules.turn_seconds,
    };
    let span_ms = u64::from(seconds).saturating_mul(1_000);
    let since = keeper.book.now();
    let expires = since.saturating_add(span_ms);
    let record = {
        let facts = session.facts.borrow();
        let scene = call::scene(session, &facts, since);
        match until {
            Until::Answered => Decision::held(&scene, held, expires),
            Until::TurnEnd => Decision::deferred(&scene, held),
        }
    };
    let decision = match keeper.book.record(&record) {
        Ok(place) => place,
        Err(unrecorded) => {
            return call::refused(asked.number, Rule::Ledger, &unrecorded.to_string());
        }
    };
    let waits_for = match until {
        Until::Answered => {
            let span = Span { since, expires };
            For::Person(Rc::new(Shown::new(session, held, decision, span)))
        }
        Until::TurnEnd => For::Turn,
    };
    let waiting = Waiting {
        call: digest,
        decision,
        expires,
        deadline_ms: keeper.now_ms().saturating_add(span_ms),
        waits_for,
        tool: asked.tool.into(),
        arguments: asked.arguments.into(),
        said: said(held, until, decision.position),
    };
    tracing::info!(
        session = %session.id,
        rule = waiting.said.rule,
        record = decision.position,
        "held"
    );
    let answer = waiting.answer(asked.number);
    keeper
        .deadlines
        .add(waiting.deadline_ms, decision.position, session);
    session.pending.borrow_mut().add(waiting);
    if until == Until::Answered {
        keeper
            .outbox
            .push(Item::Waits(session.id, decision.position));
    }
    answer
}

fn said(held: &Held, until: Until, position: u64) -> Said {
    let then = match until {
        Until::Answered => format!(
            "; it waits for a reviewer as call {position}, who sees it with `custody show \
             {position}`: go on with other work, and ask for the same again to learn what came of it"
        ),
        Until::TurnEnd => String::new(),
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

/// Takes the call out, if it still waits: exactly one caller has it.
pub(crate) fn take(keeper: &Keeper, session: &Session, position: u64) -> Option<Waiting> {
    let waiting = session.pending.borrow_mut().take(position)?;
    keeper.deadlines.remove(waiting.deadline_ms, position);
    Some(waiting)
}

/// The call is approved, and on its way.
pub(crate) fn approved(keeper: &Keeper, session: &Session, position: u64) {
    if let Some(waiting) = session.pending.borrow_mut().take_approved(position) {
        keeper.deadlines.remove(waiting.deadline_ms, position);
    }
}

/// The time of the call at `position` is over.
pub(crate) fn expire(keeper: &Keeper, session: &Session, position: u64) {
    if let Some(waiting) = take(keeper, session, position) {
        let why = match waiting.waits_for {
            For::Person(_) => UNANSWERED,
            For::Turn => "its turn did not end in its time",
        };
        lapse(keeper, session, &waiting, why);
    }
}

/// Records that a call waits no longer and was not performed, and says so.
pub(crate) fn lapse(keeper: &Keeper, session: &Session, waiting: &Waiting, why: &str) {
    lapse_record(keeper, session, waiting, why);
    over(
        keeper,
        session,
        waiting,
        Outcome::Lapsed { why: why.into() },
    );
}

/// Records that a call waits no longer and was not performed.
pub(crate) fn lapse_record(keeper: &Keeper, session: &Session, waiting: &Waiting, why: &str) {
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

/// A call waits for a person no longer: control is told, and whoever answers it later.
pub(crate) fn over(keeper: &Keeper, session: &Session, waiting: &Waiting, outcome: Outcome) {
    match &waiting.waits_for {
        For::Turn => {}
        For::Person(_) => {
            let pending = waiting.decision.position;
            let past = Past::Over(outcome.clone());
            session.pending.borrow_mut().past(pending, past);
            keeper.outbox.push(Item::Over(session::Over {
                session: session.id,
                pending,
                outcome,
            }));
        }
    }
}

/// What is answered to a call that was asked for before, if it is on its way or what became of it is
/// known. It is the same call, whatever would be said to it now.
pub(crate) fn earlier(session: &Session, asked: Asked<'_>) -> Option<Answer> {
    let mut pending = session.pending.borrow_mut();
    if let Some(answer) = pending.settled(asked) {
        return Some(call::numbered(answer, asked.number));
    }
    let waiting = pending.on_its_way(asked)?;
    Some(waiting.answer(asked.number))
}

/// A call that waited is let through without an answer, since what held it holds it no longer.
pub(crate) fn released(keeper: &Keeper, session: &Session, allowed: &Allowed) {
    let position = session
        .pending
        .borrow()
        .waiting()
        .iter()
        .find(|it| it.call == allowed.digest())
        .map(|it| it.decision.position);
    if let Some(waiting) = position.and_then(|at| take(keeper, session, at)) {
        let why = "it was asked for again and let through: nothing holds it any more";
        lapse(keeper, session, &waiting, why);
    }
}

/// What an approved call comes to when it is decided on again.
pub(crate) enum Again {
    /// It may be performed.
    Allowed(Box<Allowed>),
    /// What holds it now is not what was shown.
    Anew(Box<Held>),
    /// Something refuses it, approved or not.
    Refused(Refusal),
    /// What the agent wrote cannot be read.
    Unreadable(JsonError),
}

/// Decides again on a call that a reviewer approved by what was `shown` to him.
pub(crate) fn again(
    keeper: &Keeper,
    session: &Session,
    waiting: &Waiting,
    shown: &Reviewed,
) -> Again {
    let arguments = match json::reparse(&waiting.arguments, &Limits::CALL) {
        Ok(arguments) => arguments,
        Err(error) => return Again::Unreadable(error),
    };
    let now = keeper.now_ms();
    let ask = |moment| Ask::new(&waiting.tool, &arguments).at(moment, now);
    // What would hold it if nobody had approved it.
    match session.decide(ask(Moment::Commit)) {
        Verdict::Hold(held) | Verdict::Defer(held) if !shown.covers(&Reviewed::of(&held)) => {
            return Again::Anew(Box::new(held));
        }
        Verdict::Allow(_)
        | Verdict::Defer(_)
        | Verdict::Hold(_)
        | Verdict::Limit(_)
        | Verdict::Refuse(_) => {}
    }
    match session.decide(ask(Moment::Approved)) {
        Verdict::Allow(allowed) | Verdict::Limit(allowed) => Again::Allowed(Box::new(allowed)),
        // Nothing holds an approved call; if something did, it would not be let through.
        Verdict::Defer(held) | Verdict::Hold(held) => Again::Anew(Box::new(held)),
        Verdict::Refuse(refusal) => Again::Refused(refusal),
    }
}

/// What the agent is told of a call that is not let through when it is decided on again.
pub(crate) fn not_again(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    waiting: &Waiting,
    again: &Again,
) -> Answer {
    let asked = Asked {
        number: 0,
        tool: &waiting.tool,
        arguments: &waiting.arguments,
    };
    match again {
        Again::Anew(held) => begin(keeper, session, asked, held, Until::Answered),
        Again::Refused(refusal) => call::refuse(keeper, session, asked, None, refusal.clone()),
        Again::Unreadable(error) => {
            lapse_record(keeper, session, waiting, "it can no longer be read");
            call::refused(0, Rule::Closed, &error.to_string())
        }
        // It may be performed, and whoever asks here does not mean to.
        Again::Allowed(_) => call::refused(0, Rule::Closed, "it is not performed"),
    }
}

/// The turn is over: what was deferred in it is decided on again, one call after the other.
pub(crate) fn end_turn(keeper: &Rc<Keeper>, session: &Rc<Session>) {
    let deferred = session.pending.borrow_mut().take_turn();
    for waiting in &deferred {
        keeper
            .deadlines
            .remove(waiting.deadline_ms, waiting.decision.position);
    }
    let (keeper, session) = (Rc::clone(keeper), Rc::clone(session));
    drop(task::spawn_local(async move {
        for waiting in deferred {
            let answer = commit(&keeper, &session, &waiting).await;
            let mut pending = session.pending.borrow_mut();
            pending.over(waiting.call);
            pending.settle(&waiting, answer);
        }
    }));
}

/// One of the session's slots; none if the session ends.
pub(crate) async fn slot(session: &Rc<Session>) -> Option<Slot> {
    loop {
        if !session.is_open() {
            return None;
        }
        match session.slot() {
            Some(slot) => return Some(slot),
            None => sleep(SLOT).await,
        }
    }
}

async fn commit(keeper: &Rc<Keeper>, session: &Rc<Session>, waiting: &Waiting) -> Answer {
    let Some(slot) = slot(session).await else {
        lapse(keeper, session, waiting, ENDED);
        return call::refused(0, Rule::Closed, "the session is over");
    };
    let asked = Asked {
        number: 0,
        tool: &waiting.tool,
        arguments: &waiting.arguments,
    };
    let verdict = match json::reparse(asked.arguments, &Limits::CALL) {
        Ok(arguments) => {
            session.decide(Ask::new(asked.tool, &arguments).at(Moment::Commit, keeper.now_ms()))
        }
        Err(error) => {
            lapse(keeper, session, waiting, "it can no longer be read");
            return call::refused(0, Rule::Closed, &error.to_string());
        }
    };
    match verdict {
        Verdict::Allow(allowed) | Verdict::Limit(allowed) => {
            match call::dispatch(keeper, session, asked, allowed, slot, None) {
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
            begin(keeper, session, asked, &held, Until::Answered)
        }
        Verdict::Refuse(refusal) => call::refuse(keeper, session, asked, None, refusal),
    }
}

//! What an application says to a session of its own: messages, handoffs, a narrower scope, the end of a
//! turn. Each is recorded before it counts.

use std::rc::Rc;

use custody_wire::session::{Answer, Told};
use gate::{
    digest::{Digest, Domain},
    id::SessionId,
    json::{self, JsonError, Limits},
    record::Decision,
    session::{Handoff, HandoffError, Scope, ScopeError, TASK_MAX},
};

use crate::{book::Unrecorded, keeper::Keeper, session::Session, wait};

/// Why something is not said.
#[derive(Debug, thiserror::Error)]
enum TellError {
    #[error("{0}")]
    Handoff(HandoffError),
    #[error("it cannot be read: {0}")]
    Json(JsonError),
    #[error("a message has at most {TASK_MAX} bytes, and no NUL; this one has {found}")]
    Message { found: usize },
    #[error("there is no such session")]
    NoSession,
    #[error("{0}")]
    Record(Unrecorded),
    #[error("{0}")]
    Scope(ScopeError),
}

pub(crate) fn tell(keeper: &Rc<Keeper>, id: SessionId, told: Told) -> Answer {
    match try_tell(keeper, id, told) {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused {
            why: error.to_string(),
        },
    }
}

fn try_tell(keeper: &Rc<Keeper>, id: SessionId, told: Told) -> Result<(), TellError> {
    let session = keeper.sessions.of(id).ok_or(TellError::NoSession)?;
    match told {
        Told::Handoff(bytes) => handoff(keeper, &session, &bytes),
        Told::Message(text) => message(keeper, &session, text),
        Told::Narrow(bytes) => narrow(keeper, &session, &bytes),
        Told::TurnEnd => {
            let record = Decision::TurnEnded {
                at: keeper.book.now(),
                session: session.id,
            };
            record_it(keeper, &record)?;
            wait::end_turn(keeper, &session);
            Ok(())
        }
    }
}

fn record_it(keeper: &Keeper, record: &Decision) -> Result<(), TellError> {
    let _place = keeper.book.record(record).map_err(TellError::Record)?;
    Ok(())
}

/// Refused before anybody sees a byte of it, where it is none; and it taints before that.
fn handoff(keeper: &Keeper, session: &Session, bytes: &[u8]) -> Result<(), TellError> {
    let value = json::parse(bytes, &Limits::CALL).map_err(TellError::Json)?;
    let policy = &session.loaded.policy;
    let handoff = Handoff::read(&value, policy.handoff_resource()).map_err(TellError::Handoff)?;
    let canonical = json::canonical(handoff.value());
    let record = Decision::HandedOff {
        at: keeper.book.now(),
        bytes: u64::try_from(canonical.len()).unwrap_or(u64::MAX),
        handoff: Digest::of(Domain::Result, &canonical),
        session: session.id,
    };
    record_it(keeper, &record)?;
    session.facts.borrow_mut().record_handoff(&handoff);
    tracing::info!(session = %session.id, "handoff");
    Ok(())
}

fn message(keeper: &Keeper, session: &Session, text: String) -> Result<(), TellError> {
    if text.len() > TASK_MAX || text.contains('\0') {
        return Err(TellError::Message { found: text.len() });
    }
    let record = Decision::Said {
        at: keeper.book.now(),
        session: session.id,
        text: text.clone(),
    };
    record_it(keeper, &record)?;
    session
        .facts
        .borrow_mut()
        .record_message(&text, keeper.now_ms());
    Ok(())
}

fn narrow(keeper: &Keeper, session: &Session, bytes: &[u8]) -> Result<(), TellError> {
    let scope = read_scope(bytes).map_err(TellError::Json)?;
    let policy = &session.loaded.policy;
    scope.check(policy).map_err(TellError::Scope)?;
    let record = Decision::Narrowed {
        at: keeper.book.now(),
        scope: scope.clone(),
        session: session.id,
    };
    record_it(keeper, &record)?;
    let mut facts = session.facts.borrow_mut();
    facts.narrow(policy, scope).map_err(TellError::Scope)
}

/// A scope from its JSON.
pub(crate) fn read_scope(bytes: &[u8]) -> Result<Scope, JsonError> {
    let value = json::parse(bytes, &Limits::CALL)?;
    json::from_canonical(&json::canonical(&value), &Limits::CALL)
}

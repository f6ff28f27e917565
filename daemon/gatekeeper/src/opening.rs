//! A session begins: with facts of its own, or with a part of another's.

use std::rc::Rc;

use custody_rules::RulesError;
use custody_wire::session::{ABOVE_MAX, Answer, Open, Part};
use gate::{
    id::{PolicyName, SessionId},
    json::JsonError,
    lineage::Key,
    record::{Decision, Scene, Why},
    session::{DelegateError, Delegation, Facts, OpenError, Opening},
};

use crate::{
    book::Unrecorded,
    keeper::Keeper,
    policies::Loaded,
    session::{Session, Unopened},
    tell,
};

/// Why a session is not opened. Its text goes to the operator.
#[derive(Debug, thiserror::Error)]
enum OpenRefusal {
    #[error("{0}")]
    Delegate(DelegateError),
    #[error("{0}")]
    Facts(OpenError),
    #[error("session `{session}` is over, or never was: nothing is delegated from it")]
    From { session: SessionId },
    #[error("session `{session}` has {ABOVE_MAX} sessions above it; it delegates no further")]
    FromDeep { session: SessionId },
    #[error("session `{session}` is under policy `{has}`, and delegates nothing under `{asked}`")]
    FromPolicy {
        session: SessionId,
        has: PolicyName,
        asked: PolicyName,
    },
    #[error(
        "a delegated session has subject, tenant and values of the one that it is delegated from"
    )]
    FromSays,
    #[error("policy `{name}` is not loaded; the policies are read when the service starts")]
    Policy { name: PolicyName },
    #[error("getrandom(2) failed: {why}")]
    Random { why: String },
    #[error("{0}")]
    Record(Unrecorded),
    #[error("{0}; correct them and restart the service")]
    Rules(RulesError),
    #[error("the scope cannot be read: {0}")]
    Scope(JsonError),
    #[error("{0}")]
    Session(Unopened),
}

/// Opens a session, or says why there is none.
pub(crate) fn answer(keeper: &Keeper, asked: Open) -> Answer {
    let session = asked.session;
    match open(keeper, asked) {
        Ok(()) => {
            tracing::info!(%session, "session opened");
            Answer::Done
        }
        Err(refusal) => {
            // Not the reason: a value that does not fit its type may stand in it.
            tracing::warn!(%session, "session not opened");
            Answer::Refused {
                why: Why::from(refusal.to_string()).as_str().into(),
            }
        }
    }
}

fn open(keeper: &Keeper, asked: Open) -> Result<(), OpenRefusal> {
    let (id, caller_uid) = (asked.session, asked.caller_uid);
    keeper.sessions.admit(id).map_err(OpenRefusal::Session)?;
    let loaded = match keeper.policies.get(&asked.policy) {
        Some(Ok(loaded)) => loaded,
        Some(Err(error)) => return Err(OpenRefusal::Rules(error.clone())),
        None => return Err(OpenRefusal::Policy { name: asked.policy }),
    };
    let (facts, above) = begin(keeper, loaded, asked)?;
    let from: Vec<SessionId> = above.iter().map(|it| it.id).collect();
    let scene = Scene {
        at: keeper.book.now(),
        facts: &facts,
        from: &from,
        policy: loaded.hash,
        session: id,
    };
    let record = Decision::opened(&scene, &loaded.policy, caller_uid);
    let _place = keeper.book.record(&record).map_err(OpenRefusal::Record)?;
    let session = Session::new(id, Rc::clone(loaded), facts, caller_uid, above);
    keeper.sessions.insert(session);
    Ok(())
}

/// The facts that it begins with, and the sessions above it.
fn begin(
    keeper: &Keeper,
    loaded: &Rc<Loaded>,
    asked: Open,
) -> Result<(Facts, Vec<Rc<Session>>), OpenRefusal> {
    let Open {
        session: _,
        policy: _,
        caller_uid,
        from,
        values,
        owned,
        roles,
        scope,
        subject,
        task,
        tenant,
        workspace,
    } = asked;
    let scope = scope
        .map(|bytes| tell::read_scope(&bytes))
        .transpose()
        .map_err(OpenRefusal::Scope)?;
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| OpenRefusal::Random {
        why: error.to_string(),
    })?;
    let key = Key::new(key);
    let at_ms = keeper.now_ms();
    let Some(part) = from else {
        let opening = Opening {
            at_ms,
            boundary: None,
            caller: Some(caller_uid),
            key,
            owned,
            roles,
            scope,
            subject,
            task,
            tenant,
            values,
            workspace,
        };
        let facts = Facts::open(&loaded.policy, opening).map_err(OpenRefusal::Facts)?;
        return Ok((facts, Vec::new()));
    };
    if !values.is_empty() || subject.is_some() || tenant.is_some() {
        return Err(OpenRefusal::FromSays);
    }
    let parent = parent(keeper, loaded, part.session)?;
    let Part {
        session: _,
        boundary,
        roles: given,
        values,
    } = part;
    let delegation = Delegation {
        at_ms,
        boundary,
        key,
        owned,
        roles: Some(match given {
            Some(given) => roles.intersection(&given).cloned().collect(),
            None => roles,
        }),
        scope,
        task,
        values,
        workspace,
    };
    let above = parent.and_above();
    let mut facts = parent
        .facts
        .borrow()
        .delegate(&loaded.policy, delegation)
        .map_err(OpenRefusal::Delegate)?;
    for it in &above {
        facts.tainted_as(&it.facts.borrow());
    }
    Ok((facts, above))
}

/// The session that one is delegated from.
fn parent(keeper: &Keeper, loaded: &Rc<Loaded>, id: SessionId) -> Result<Rc<Session>, OpenRefusal> {
    let parent = keeper.sessions.of(id).filter(|it| it.is_open());
    let parent = parent.ok_or(OpenRefusal::From { session: id })?;
    if !Rc::ptr_eq(&parent.loaded, loaded) {
        return Err(OpenRefusal::FromPolicy {
            session: id,
            has: parent.loaded.policy.name().clone(),
            asked: loaded.policy.name().clone(),
        });
    }
    if parent.from.len() >= ABOVE_MAX {
        return Err(OpenRefusal::FromDeep { session: id });
    }
    Ok(parent)
}

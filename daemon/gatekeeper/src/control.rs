//! The channel to control: sessions are opened and closed, and trusted values come in.

use std::rc::Rc;

use custody_rules::RulesError;
use custody_wire::{
    frame::{self, FrameError},
    session::{Answer, Open, Request},
};
use gate::{
    id::PolicyName,
    json::JsonError,
    lineage::Key,
    record::{Decision, Scene, Why},
    session::{Facts, OpenError, Opening},
};
use tokio::net::UnixStream;

use crate::{
    book::Unrecorded,
    keeper::{Closer, Keeper},
    session::{Session, Unopened},
    tell,
};

/// Why a session is not opened. Its text goes to the operator.
#[derive(Debug, thiserror::Error)]
enum OpenRefusal {
    #[error("{0}")]
    Facts(OpenError),
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

/// Serves control to the end of its channel.
pub(crate) async fn serve(keeper: &Rc<Keeper>, mut stream: UnixStream) -> FrameError {
    loop {
        let request: Request = match frame::read_async(&mut stream).await {
            Ok(request) => request,
            Err(error) => return error,
        };
        let answer = match request {
            Request::Open(open) => {
                keeper.vault.arrival().await;
                answer_open(keeper, open)
            }
            Request::Close { session } => {
                keeper.close(session, Closer::Control);
                Answer::Done
            }
            Request::Answer(answered) => Answer::Refused {
                why: format!("no call {} waits", answered.pending),
            },
            Request::Tell { session, told } => tell::tell(keeper, session, told),
        };
        if let Err(error) = frame::write_async(&mut stream, &answer).await {
            return error;
        }
    }
}

fn answer_open(keeper: &Keeper, asked: Open) -> Answer {
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
    let Open {
        session: id,
        policy: name,
        caller_uid,
        values,
        owned,
        roles,
        scope,
        subject,
        task,
        tenant,
        workspace,
    } = asked;
    keeper.sessions.admit(id).map_err(OpenRefusal::Session)?;
    let loaded = match keeper.policies.get(&name) {
        Some(Ok(loaded)) => loaded,
        Some(Err(error)) => return Err(OpenRefusal::Rules(error.clone())),
        None => return Err(OpenRefusal::Policy { name }),
    };
    let scope = scope
        .map(|bytes| tell::read_scope(&bytes))
        .transpose()
        .map_err(OpenRefusal::Scope)?;
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| OpenRefusal::Random {
        why: error.to_string(),
    })?;
    let opening = Opening {
        at_ms: keeper.now_ms(),
        boundary: None,
        caller: Some(caller_uid),
        key: Key::new(key),
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
    let scene = Scene {
        at: keeper.book.now(),
        facts: &facts,
        policy: loaded.hash,
        session: id,
    };
    let record = Decision::opened(&scene, &loaded.policy, caller_uid);
    let _place = keeper.book.record(&record).map_err(OpenRefusal::Record)?;
    keeper
        .sessions
        .insert(Session::new(id, Rc::clone(loaded), facts));
    Ok(())
}

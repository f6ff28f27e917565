//! A reviewer answers.

use std::time::Instant;

use custody_approvals::{self as kept, Key, State, StoreError, Word};
use custody_config::Caller;
use custody_wire::{
    operator::{Answer, Judged},
    session::{self, Reviewer, Signed, Verdict, Waits},
};
use gate::approval::{Needs, Reach, Scope, Statement, StatementError};

use super::{
    Desk, DeskError,
    keep::{ended, from_json},
    now,
    rights::NotYours,
};
use crate::{opening::OpenError, serve::Service};

/// The longest reason for a refusal.
const WHY_MAX: usize = 1_000;

/// Why an answer is not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error(transparent)]
    Desk(#[from] DeskError),
    #[error("its time limit is over already")]
    Limit,
    #[error("{why}")]
    NotFound { why: String },
    #[error(transparent)]
    NotYours(#[from] NotYours),
    #[error("you approved {most} calls within a minute; take a minute to look at what you approve")]
    Pace { most: u32 },
    #[error("each call that is signed for is signed alone, once: leave the scope out")]
    Reach,
    #[error(
        "this call needs your signature; approve it in a terminal: `custody approve {pending} --key FILE`"
    )]
    Signature { pending: u64 },
    #[error("{0}")]
    Statement(StatementError),
    #[error("the signed statement is of another call, or goes further than you say")]
    StatementDiffers,
    #[error("the reason has more than {WHY_MAX} bytes, or is empty")]
    Why,
}

/// Yes.
pub(crate) async fn approve(
    service: &Service,
    caller: &Caller,
    of: Judged,
    scope: Scope,
    signed: Option<Signed>,
) -> Answer {
    let admitted = admit(service, caller, of).await.and_then(|(key, waits)| {
        let fits = fits(&waits, of, scope, signed.as_ref())?;
        let most = service.desk.limits.answers_per_minute;
        if service
            .desk
            .answers
            .admit(&caller.uid, most, Instant::now())
        {
            Ok((key, fits))
        } else {
            Err(NotTaken::Pace { most })
        }
    });
    let (key, fingerprint) = match admitted {
        Ok(admitted) => admitted,
        Err(not) => return refused(caller, of, &not),
    };
    let answered = kept::Answered {
        at: now(),
        by: kept::Reviewer {
            uid: caller.uid,
            key: fingerprint.clone(),
        },
        call: of.digest,
        statement: signed.as_ref().map(|it| text(&it.statement)),
        signature: signed.as_ref().map(|it| text(&it.signature)),
        word: Word::Approve { scope },
    };
    // Two steps: from the second on it may have been used.
    let taken = service.desk.ask(move |store, now| {
        let _row = store.answer(key, &answered, now)?;
        store.take(key, now)
    });
    if let Err(error) = taken.await {
        // Two tabs are one answer.
        service.desk.answers.give_back(&caller.uid);
        return refused(caller, of, &NotTaken::Desk(error));
    }
    let reviewer = Reviewer {
        uid: caller.uid,
        key: fingerprint,
    };
    tell(service, of, reviewer, Verdict::Approve { scope, signed }).await
}

/// No.
pub(crate) async fn refuse(service: &Service, caller: &Caller, of: Judged, why: String) -> Answer {
    let admitted = admit(service, caller, of).await.and_then(|(key, _waits)| {
        if why.trim().is_empty() || why.len() > WHY_MAX {
            Err(NotTaken::Why)
        } else {
            Ok(key)
        }
    });
    let key = match admitted {
        Ok(key) => key,
        Err(not) => return refused(caller, of, &not),
    };
    let answered = kept::Answered {
        at: now(),
        by: kept::Reviewer {
            uid: caller.uid,
            key: None,
        },
        call: of.digest,
        statement: None,
        signature: None,
        word: Word::Refuse { why: why.clone() },
    };
    let answer = service
        .desk
        .ask(move |store, now| store.answer(key, &answered, now));
    if let Err(error) = answer.await {
        return refused(caller, of, &NotTaken::Desk(error));
    }
    let reviewer = Reviewer {
        uid: caller.uid,
        key: None,
    };
    tell(service, of, reviewer, Verdict::Refuse { why }).await
}

/// The call, if it waits here and `caller` may answer for it.
async fn admit(service: &Service, caller: &Caller, of: Judged) -> Result<(Key, Waits), NotTaken> {
    let desk = &service.desk;
    let row = desk
        .find(caller, of.pending, Some(of.session))
        .await
        .map_err(|why| NotTaken::NotFound { why })?;
    let not_found = |why: &str| NotTaken::NotFound { why: why.into() };
    let waits = from_json(&row.asked.waits).ok_or_else(|| not_found("the call cannot be read"))?;
    let profile = service.sessions.profile(of.session);
    desk.may_answer(caller, &row.asked, waits.needs, profile)?;
    Ok((row.asked.key(), waits))
}

/// Whether the approval is one of this call; the fingerprint of the key that it is signed with, if it is.
fn fits(
    waits: &Waits,
    of: Judged,
    scope: Scope,
    signed: Option<&Signed>,
) -> Result<Option<String>, NotTaken> {
    if scope.until.is_some_and(|until| until <= now()) {
        return Err(NotTaken::Limit);
    }
    match (waits.needs, signed) {
        // A signature that nobody verifies says nothing: it is not passed on.
        (Needs::Approval, _) => Ok(None),
        (Needs::Signature, None) => Err(NotTaken::Signature {
            pending: of.pending,
        }),
        (Needs::Signature, Some(_)) if scope.reach != Reach::Once => Err(NotTaken::Reach),
        // The vault verifies it; here it is seen to be of this call, so that none is used up in vain.
        (Needs::Signature, Some(signed)) => {
            let statement = Statement::read(&signed.statement).map_err(NotTaken::Statement)?;
            let same = statement.call == of.digest
                && statement.session == of.session
                && statement.decision == waits.decision
                && statement.scope == scope
                && statement.policy == waits.policy_hash
                && statement.tool == waits.tool;
            if !same {
                return Err(NotTaken::StatementDiffers);
            }
            Ok(custody_approvals::fingerprint::of(&signed.signature))
        }
    }
}

/// Tells the gate, and what it says.
async fn tell(service: &Service, of: Judged, reviewer: Reviewer, verdict: Verdict) -> Answer {
    let approved = matches!(verdict, Verdict::Approve { .. });
    let uid = reviewer.uid;
    let answered = session::Answered {
        session: of.session,
        pending: of.pending,
        digest: of.digest,
        reviewer,
        verdict,
    };
    match service.gate.answer(answered).await {
        Ok(()) => {
            tracing::info!(session = %of.session, pending = of.pending, uid, approved, "answered");
            Answer::Done
        }
        Err(error) => {
            let why = format!("the gate did not take the answer: {error}");
            tracing::warn!(session = %of.session, pending = of.pending, uid, why, "not answered");
            if approved {
                not_taken(&service.desk, of, &error, why.clone()).await;
            }
            Answer::Refused { why }
        }
    }
}

/// What becomes of a call whose approval the gate did not take.
async fn not_taken(desk: &Desk, of: Judged, error: &OpenError, why: String) {
    let key = Key {
        session: of.session,
        position: of.pending,
    };
    let (end, why) = match error {
        // It waits there as before, and so it does here: nothing of the approval was used.
        OpenError::NotAnswered { outcome: None, .. } => {
            let given_back = desk.ask(move |store, now| store.give_back(key, now));
            if let Err(error) = given_back.await {
                tracing::error!(%error, "a call that still waits cannot be answered any more");
            }
            return;
        }
        OpenError::NotAnswered {
            outcome: Some(outcome),
            ..
        } => ended(outcome),
        // A gate that went away may have heard it.
        OpenError::Gone => (State::InDoubt, why),
        OpenError::Refused { .. } | OpenError::TooLong { .. } => (State::Lapsed, why),
    };
    let ended = desk.ask(move |store, now| store.finish(key, end, &why, now));
    match ended.await {
        // The gate said first how it ended.
        Ok(_) | Err(DeskError::Store(StoreError::State { .. })) => {}
        Err(error) => tracing::error!(%error, "the end of a call is not kept"),
    }
}

fn refused(caller: &Caller, of: Judged, not: &NotTaken) -> Answer {
    let why = not.to_string();
    tracing::info!(
        uid = caller.uid,
        session = %of.session,
        pending = of.pending,
        why,
        "an answer is not taken"
    );
    Answer::Refused { why }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

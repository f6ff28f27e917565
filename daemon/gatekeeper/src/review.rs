//! What reviewers say to calls that wait.
//!
//! An answer counts for the call that was shown and for no other: by session, position and digest. An
//! approved call is decided on again when the answer comes, and again right before it is handed to the
//! vault; what holds it then and was not shown holds it anew.

use std::rc::Rc;

use custody_ledger::sync::Durable;
use custody_wire::{
    agent,
    session::{Answered, Outcome, Reviewer, Signed, Verdict},
};
use gate::{
    approval::{Expect, Needs, Reach, Scope, Statement, StatementError},
    call::Call,
    chain::Place,
    id::SessionId,
    mutant::Mutant,
    nonce::Nonce,
    record::{self, Decision, SignedStatement, Verification, Why},
    session::{Standing, StandingError},
};
use tokio::task;

use crate::{
    book::Unrecorded,
    call::{self, Asked, Begun, Rule},
    keeper::Keeper,
    pending::{For, Past, Waiting},
    session::Session,
    shown::Shown,
    wait::{self, Again},
};

/// The longest fingerprint of a key: `SHA256:` and 43 digits, with room.
const FINGERPRINT_MAX: usize = 128;

/// The most characters of a reason that the agent is told.
const WORDS_MAX: usize = 1_000;

/// How long an approved call may wait for the disk and for one of its session's slots, in milliseconds:
/// who approved it expects it to be done now.
const BEGUN_WITHIN_MS: u64 = 60_000;

/// Why an answer does not count. Its text goes to the reviewer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("call {pending} was approved already")]
    Approved { pending: u64 },
    #[error("the session has changed since call {pending} was shown, and it waits anew: {why}")]
    Anew { pending: u64, why: String },
    #[error("the call that was shown is not call {pending}: its digest is another")]
    Digest { pending: u64 },
    #[error("call {pending} was not approved in its time")]
    Late { pending: u64 },
    #[error("session `{session}` is over, or never was")]
    NoSession { session: SessionId },
    #[error("the vault is restarting, and nothing was done; the call still waits: try again")]
    NoVault,
    #[error("call {pending} waits no longer: {}", words(outcome))]
    Over { pending: u64, outcome: Outcome },
    #[error("{0}")]
    Record(Unrecorded),
    #[error("call {pending} is refused now, approved or not: {why}")]
    Refused { pending: u64, why: String },
    #[error("the approval is for the time until {until}, which is over")]
    ScopeOver { until: u64 },
    #[error("a reviewer signs calls like {pending}, and this answer is not signed")]
    Signature { pending: u64 },
    #[error("the answer says one scope and its statement another")]
    SignedScope,
    #[error("{0}")]
    Standing(StandingError),
    #[error("{0}")]
    Statement(StatementError),
    #[error("the answer has a part that cannot be kept: {what}")]
    Text { what: &'static str },
    #[error("call {pending} waits for the end of its turn, and for no person")]
    Turn { pending: u64 },
    #[error("session `{session}` has no call {pending} that waits")]
    Unknown { session: SessionId, pending: u64 },
}

impl ReviewError {
    /// What became of the call; none where it waits as before.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Over { outcome, .. } => Some(outcome.clone()),
            Self::Refused { why, .. } => Some(Outcome::Refused { why: why.clone() }),
            // What comes of the other answer is said when it is known.
            Self::Approved { .. } => Some(Outcome::InDoubt {
                why: self.to_string(),
            }),
            Self::Anew { .. }
            | Self::Late { .. }
            | Self::NoSession { .. }
            | Self::Turn { .. }
            | Self::Unknown { .. } => Some(Outcome::Lapsed {
                why: self.to_string(),
            }),
            Self::Digest { .. }
            | Self::NoVault
            | Self::Record(_)
            | Self::ScopeOver { .. }
            | Self::Signature { .. }
            | Self::SignedScope
            | Self::Standing(_)
            | Self::Statement(_)
            | Self::Text { .. } => None,
        }
    }
}

/// Takes an answer: recorded when this returns. What comes of an approved call is said later.
pub(crate) fn answer(keeper: &Rc<Keeper>, answered: Answered) -> Result<(), ReviewError> {
    let Answered {
        session: id,
        pending,
        digest,
        reviewer,
        verdict,
    } = answered;
    let session = keeper
        .sessions
        .of(id)
        .ok_or(ReviewError::NoSession { session: id })?;
    let reviewer = readable(reviewer)?;
    let (waiting, shown) = waits(&session, pending)?;
    if keeper.now_ms() >= waiting.deadline_ms {
        // The sleeper comes late; the time is over all the same.
        if let Some(waiting) = wait::take(keeper, &session, pending) {
            wait::lapse(keeper, &session, &waiting, wait::UNANSWERED);
        }
        return Err(ReviewError::Late { pending });
    }
    if digest != waiting.call && !Mutant::GateApprovalDigest.is_on() {
        return Err(ReviewError::Digest { pending });
    }
    match verdict {
        Verdict::Lapse { why } => {
            let why = plain(&why);
            if let Some(waiting) = wait::take(keeper, &session, pending) {
                wait::lapse(keeper, &session, &waiting, &why);
                let answer = call::refused(0, Rule::Busy, &why);
                session.pending.borrow_mut().settle(&waiting, answer);
            }
            Ok(())
        }
        Verdict::Refuse { why } => refuse(keeper, &session, &waiting, reviewer, &why),
        Verdict::Approve { scope, signed } => {
            let approval = Approval {
                reviewer,
                scope,
                signed,
            };
            approve(keeper, &session, waiting, &shown, approval)
        }
    }
}

/// The call, if it waits for a person; or why not.
fn waits(session: &Session, pending: u64) -> Result<(Waiting, Rc<Shown>), ReviewError> {
    let all = session.pending.borrow();
    let Some(waiting) = all.at(pending) else {
        return Err(match all.was(pending) {
            Some(Past::Approved) => ReviewError::Approved { pending },
            Some(Past::Over(outcome)) => ReviewError::Over {
                pending,
                outcome: outcome.clone(),
            },
            None => ReviewError::Unknown {
                session: session.id,
                pending,
            },
        });
    };
    match &waiting.waits_for {
        For::Person(shown) => Ok((waiting.clone(), Rc::clone(shown))),
        For::Turn => Err(ReviewError::Turn { pending }),
    }
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { status } => format!("it was approved and performed (status {status})"),
        Outcome::Failed { why } => format!("it was approved, and nothing was done: {why}"),
        Outcome::InDoubt { why } => format!("it was approved, and may have been done: {why}"),
        Outcome::Lapsed { why } => why.clone(),
        Outcome::Refused { why } => {
            format!("it was refused, and a refused call is never approved: {why}")
        }
    }
}

fn readable(reviewer: Reviewer) -> Result<record::Reviewer, ReviewError> {
    let Reviewer { uid, key } = reviewer;
    let plain =
        |it: &String| it.len() <= FINGERPRINT_MAX && it.bytes().all(|b| b.is_ascii_graphic());
    if key.as_ref().is_some_and(|it| !plain(it)) {
        return Err(ReviewError::Text {
            what: "the key's fingerprint",
        });
    }
    Ok(record::Reviewer { key, uid })
}

/// A sentence of somebody's, on one line and not too long: the agent reads it.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(WORDS_MAX)
        .collect()
}

fn refuse(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    waiting: &Waiting,
    reviewer: record::Reviewer,
    why: &str,
) -> Result<(), ReviewError> {
    let uid = reviewer.uid;
    let why = Why::from(plain(why));
    let record = Decision::ReviewerRefused {
        at: keeper.book.now(),
        call: waiting.call,
        decision: waiting.decision,
        reviewer,
        session: session.id,
        why: why.clone(),
    };
    let place = keeper.book.record(&record).map_err(ReviewError::Record)?;
    tracing::info!(session = %session.id, record = place.position, uid, "refused by a reviewer");
    session
        .facts
        .borrow_mut()
        .record_refusal(waiting.call, place);
    drop(wait::take(keeper, session, waiting.decision.position));
    let said = format!(
        "a reviewer refused this call: {why}; no answer takes that back, so ask for something else"
    );
    let answer = call::refused(0, Rule::Reviewer, &said);
    session.pending.borrow_mut().settle(waiting, answer);
    let outcome = Outcome::Refused {
        why: why.as_str().into(),
    };
    wait::over(keeper, session, waiting, outcome);
    Ok(())
}

/// What a reviewer approves by.
struct Approval {
    reviewer: record::Reviewer,
    scope: Scope,
    signed: Option<Signed>,
}

fn approve(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    mut waiting: Waiting,
    shown: &Rc<Shown>,
    approval: Approval,
) -> Result<(), ReviewError> {
    let pending = waiting.decision.position;
    let Approval {
        reviewer,
        scope,
        signed,
    } = approval;
    let policy = &session.loaded.policy;
    let unix_ms = keeper.book.now();
    if let Some(until) = scope.until.filter(|until| *until <= unix_ms) {
        return Err(ReviewError::ScopeOver { until });
    }
    // Before it is recorded: what cannot be handed over now is not approved and lost.
    let link = keeper.vault.link().ok_or(ReviewError::NoVault)?;
    if shown.needs() == Needs::Signature && signed.is_none() {
        return Err(ReviewError::Signature { pending });
    }
    let complete = Call::from_bytes(shown.call())
        .map_err(|error| ReviewError::Statement(StatementError::Json(error)))?;
    let statement = signed
        .as_ref()
        .map(|signed| {
            let expect = Expect {
                audience: link.audience(),
                epoch: Nonce(link.epoch()),
                call: waiting.call,
                session: session.id,
                policy: session.loaded.hash,
                tool: &complete.tool,
                now_ms: unix_ms,
            };
            read(signed, &expect, waiting.decision, scope)
        })
        .transpose()?;
    if scope.reach != Reach::Once {
        session
            .facts
            .borrow()
            .may_stand(policy, &complete)
            .map_err(ReviewError::Standing)?;
    }
    match wait::again(keeper, session, &waiting, &shown.reviewed) {
        Again::Allowed(_) => {}
        other @ (Again::Anew(_) | Again::Refused(_) | Again::Unreadable(_)) => {
            let Some(waiting) = wait::take(keeper, session, pending) else {
                return Err(ReviewError::Approved { pending });
            };
            return Err(not_approved(keeper, session, &waiting, &other));
        }
    }
    let uid = reviewer.uid;
    let record = Decision::Approved {
        at: keeper.book.now(),
        call: waiting.call,
        decision: waiting.decision,
        reviewer,
        scope,
        session: session.id,
        signed: statement,
    };
    let place = keeper.book.record(&record).map_err(ReviewError::Record)?;
    tracing::info!(
        session = %session.id,
        pending,
        uid,
        reach = scope.reach.as_str(),
        record = place.position,
        "approved"
    );
    if scope.reach != Reach::Once {
        let now_ms = keeper.now_ms();
        let standing = Standing {
            approval: place,
            call: complete,
            reach: scope.reach,
            reviewed: shown.reviewed.clone(),
            until_ms: scope
                .until
                .map(|until| now_ms.saturating_add(until.saturating_sub(unix_ms))),
        };
        // There was room a moment ago.
        session
            .facts
            .borrow_mut()
            .record_approval(policy, standing, now_ms)
            .map_err(ReviewError::Standing)?;
    }
    wait::approved(keeper, session, pending);
    let within = scope
        .until
        .map_or(BEGUN_WITHIN_MS, |until| until.saturating_sub(unix_ms));
    waiting.deadline_ms = keeper.now_ms().saturating_add(within.min(BEGUN_WITHIN_MS));
    let to_vault = signed.filter(|_| shown.needs() == Needs::Signature);
    let durable = keeper.book.durable(place);
    let (keeper, session, shown) = (Rc::clone(keeper), Rc::clone(session), Rc::clone(shown));
    drop(task::spawn_local(async move {
        let answer = perform(
            &keeper, &session, &waiting, &shown, place, durable, to_vault,
        )
        .await;
        let outcome = outcome(&answer);
        {
            let mut pending = session.pending.borrow_mut();
            pending.over(waiting.call);
            pending.settle(&waiting, answer);
        }
        wait::over(&keeper, &session, &waiting, outcome);
    }));
    Ok(())
}

/// What approving a call comes to that is held anew or refused now. It waits no longer.
fn not_approved(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    waiting: &Waiting,
    again: &Again,
) -> ReviewError {
    let pending = waiting.decision.position;
    let answer = wait::not_again(keeper, session, waiting, again);
    let outcome = outcome(&answer);
    let anew = matches!(answer, agent::Answer::Held { .. });
    if !anew {
        session.pending.borrow_mut().settle(waiting, answer);
    }
    let why = match &outcome {
        Outcome::Lapsed { why }
        | Outcome::Refused { why }
        | Outcome::Failed { why }
        | Outcome::InDoubt { why } => why.clone(),
        Outcome::Done { .. } => String::new(),
    };
    wait::over(keeper, session, waiting, outcome);
    if anew {
        ReviewError::Anew { pending, why }
    } else {
        ReviewError::Refused { pending, why }
    }
}

/// The statement, held to the call that waits. Whose signature it is the vault sees.
fn read(
    signed: &Signed,
    expect: &Expect<'_>,
    decision: Place,
    scope: Scope,
) -> Result<SignedStatement, ReviewError> {
    if signed.statement.len().max(signed.signature.len()) > Signed::PART_MAX {
        return Err(ReviewError::Text {
            what: "a statement or a signature of so many bytes",
        });
    }
    let statement = Statement::read(&signed.statement).map_err(ReviewError::Statement)?;
    statement.admit(expect).map_err(ReviewError::Statement)?;
    if statement.decision != decision {
        return Err(ReviewError::Statement(StatementError::Decision));
    }
    if statement.scope != scope {
        return Err(ReviewError::SignedScope);
    }
    let text = |bytes: &[u8], what| {
        let text = String::from_utf8(bytes.into()).ok();
        text.filter(|it| !it.contains('\0'))
            .ok_or(ReviewError::Text { what })
    };
    Ok(SignedStatement {
        digest: Statement::digest_of(&signed.statement),
        signature: text(&signed.signature, "the signature")?,
        statement: text(&signed.statement, "the statement")?,
    })
}

/// Performs an approved call, when its approval is on disk.
async fn perform(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    waiting: &Waiting,
    shown: &Shown,
    approval: Place,
    durable: Durable,
    signed: Option<Signed>,
) -> agent::Answer {
    if let Err(error) = durable.await {
        tracing::error!(
            error = custody_service::reason::chain_of(&error),
            "an approval is not on disk"
        );
        return call::failed(
            0,
            "the approval could not be written to disk, and nothing was done",
            false,
            Verification::UNSUPPORTED,
        );
    }
    let Some(slot) = wait::slot(session).await else {
        wait::lapse_record(keeper, session, waiting, wait::ENDED);
        return call::refused(0, Rule::Closed, "the session is over");
    };
    if keeper.now_ms() >= waiting.deadline_ms {
        wait::lapse_record(keeper, session, waiting, wait::LATE);
        return call::refused(0, Rule::Busy, wait::LATE);
    }
    let asked = Asked {
        number: 0,
        tool: &waiting.tool,
        arguments: &waiting.arguments,
    };
    match wait::again(keeper, session, waiting, &shown.reviewed) {
        Again::Allowed(allowed) => {
            let allowed = allowed.resting_on(approval);
            match call::dispatch(keeper, session, asked, allowed, slot, signed) {
                Begun::Answered(answer) => answer,
                Begun::Performing(performing) => {
                    let (answer, slot) = performing.finish().await;
                    drop(slot);
                    answer
                }
            }
        }
        other @ (Again::Anew(_) | Again::Refused(_) | Again::Unreadable(_)) => {
            session.pending.borrow_mut().over(waiting.call);
            wait::not_again(keeper, session, waiting, &other)
        }
    }
}

/// What control is told of how an approved call ended.
fn outcome(answer: &agent::Answer) -> Outcome {
    match answer {
        agent::Answer::Done { status, .. } | agent::Answer::Leased { status, .. } => {
            Outcome::Done { status: *status }
        }
        agent::Answer::Failed {
            why,
            in_doubt: true,
            ..
        } => Outcome::InDoubt { why: why.clone() },
        agent::Answer::Failed { why, .. } => Outcome::Failed { why: why.clone() },
        agent::Answer::Held { pending, .. } => Outcome::Lapsed {
            why: format!("the session has changed, and it waits anew as call {pending}"),
        },
        agent::Answer::Refused { why, .. } => Outcome::Refused { why: why.clone() },
        agent::Answer::Over { .. } | agent::Answer::Stream { .. } | agent::Answer::Tools { .. } => {
            Outcome::Failed {
                why: "the gate answered something else".into(),
            }
        }
    }
}

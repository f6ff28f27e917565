//! One permit, from its check to its receipt.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use custody_wire::{perform::Http, permit::Answer, session::Signed};
use gate::{
    chain::Place,
    mutant::Mutant,
    permit::PermitError,
    policy::Credential,
    record::{Effect, Finding, Freshness, Outcome, Verification, result_digest},
    request::{IDEMPOTENCY_KEY, IF_MATCH},
};

use crate::{
    accept::{self, Accepted, Refusal},
    gate_link::Link,
    lease,
    precondition::{self, Looked, PRECONDITION_FAILED},
    receipts::{ChainFailed, Cleared},
    vault::Vault,
    verify::{self, Subject},
    worker::{Performed, Worker},
    workers::NoWorker,
};

/// How long the gate's record may take to disk; 4 ms is usual, 13 ms the slowest of a hundred.
const DURABLE: Duration = Duration::from_secs(5);

/// Where a call has got to: what is true of it if it is cut short.
#[derive(Debug, Default)]
struct Progress {
    freshness: Cell<Freshness>,
    handed_over: Cell<bool>,
    intent: RefCell<Option<Place>>,
}

/// How a call ended.
enum Ended {
    ChainFailed(ChainFailed),
    Performed(Performed),
    Refused {
        why: String,
    },
    /// What the call rests on is no longer so.
    Stale {
        why: String,
    },
}

/// Performs what `permit` binds, once, and says what came of it. `None` if the receipts failed:
/// then nothing is released.
pub(crate) async fn perform(
    vault: &Rc<Vault>,
    link: &Link,
    number: u64,
    permit: &[u8],
    call: &[u8],
    signed: Option<&Signed>,
) -> Option<Answer> {
    vault.catch_up();
    // No await in here: copies of one permit race to exactly one.
    let accepted = match accept::accept(vault, link, permit, call, signed) {
        Ok(accepted) => accepted,
        Err(refused) => {
            let why = refused.why.to_string();
            tracing::warn!(why, "permit refused");
            if let Some(bound) = refused.bound {
                let outcome = Outcome::Refused {
                    why: why.as_str().into(),
                };
                let _receipt = vault.receipts.receipt(*bound, None, outcome).ok()?;
            }
            return Some(Answer::Refused { number, why });
        }
    };
    if accepted.leased.is_some() {
        return lease::open(vault, link, number, accepted).await;
    }
    let progress = Progress::default();
    let ended = tokio::select! {
        biased;
        ended = carry_out(vault, link, &accepted, &progress) => ended,
        () = accepted.session.over() => cut_short(&progress),
    };
    let verification = read_back(vault, &accepted, &ended).await;
    conclude(vault, number, &accepted, &progress, ended, verification)
}

/// The steps from an accepted call to what the worker says of it.
async fn carry_out(
    vault: &Rc<Vault>,
    link: &Link,
    accepted: &Accepted,
    progress: &Progress,
) -> Ended {
    let bound = &accepted.bound;
    let (rules, worker, mut request) = match worker(vault, accepted).await {
        Ok(found) => found,
        Err(NotReady::Refused { why }) => return Ended::Refused { why },
        Err(NotReady::NotSent { why }) => return Ended::Performed(Performed::NotSent { why }),
    };
    let cleared = if accepted.idempotent || Mutant::VaultIntent.is_on() {
        Cleared::Idempotent
    } else {
        if !link.is_durable(bound.decision.position, DURABLE).await {
            return Ended::Refused {
                why: "the gate's record of the decision did not reach the disk".into(),
            };
        }
        let intent = vault.receipts.append(|at| Effect::Intent {
            at,
            call: accepted.needed_later().then(|| accepted.call.to_value()),
            effect: bound.clone(),
        });
        let intent = match intent {
            Ok(intent) => intent,
            Err(failed) => return Ended::ChainFailed(failed),
        };
        *progress.intent.borrow_mut() = Some(intent);
        if accepted.has_key {
            // One intent, one key: a target that honours it knows the request again.
            let key = intent.digest.to_string();
            request.headers.push((IDEMPOTENCY_KEY.into(), key));
        }
        if Mutant::VaultIntentUnawaited.is_on() {
            Cleared::Idempotent
        } else {
            match vault.receipts.on_disk(intent).await {
                Ok(on_disk) => Cleared::Intended(on_disk),
                Err(failed) => return Ended::ChainFailed(failed),
            }
        }
    };
    // Last of all that waits: what is looked at here is to be as fresh as it can be.
    let tool = accepted.session.loaded.policy.tools().get(&bound.tool);
    let looked = match tool {
        Some(tool) if !Mutant::VaultPrecondition.is_on() => {
            precondition::look(vault, accepted, rules, tool).await
        }
        Some(_) | None => Looked::Unasked,
    };
    match &looked {
        Looked::Stale { why } => return Ended::Stale { why: why.clone() },
        Looked::Conditional(version) => request.headers.push((IF_MATCH.into(), version.clone())),
        Looked::Seen { .. } | Looked::Unasked => {}
    }
    // Nothing waits between these checks and the hand-over. What custodyd said by now counts.
    match still_good(vault, link, accepted) {
        Ok(()) => {}
        Err(NotReady::Refused { why }) => return Ended::Refused { why },
        Err(NotReady::NotSent { .. }) => return cut_short(progress),
    }
    progress.handed_over.set(true);
    let again = accepted.has_key.then(|| request.clone());
    let performed = worker.perform(request, cleared).await;
    if let Performed::Done {
        status,
        span: (began, _whole),
        ..
    } = &performed
    {
        match looked {
            Looked::Conditional(_) if *status == PRECONDITION_FAILED => {
                let why = "stale: the target has another version than the one that the call rests on \
                           (status 412); nothing was done, so read it again";
                return Ended::Stale { why: why.into() };
            }
            Looked::Conditional(_) => progress.freshness.set(Freshness::Closed),
            Looked::Seen { at } => {
                let ms = began.saturating_sub(at).div_ceil(1_000_000);
                progress.freshness.set(Freshness::Narrowed { ms });
            }
            Looked::Stale { .. } | Looked::Unasked => {}
        }
    }
    match (performed, again) {
        // The policy says that the target performs requests with one key once.
        (Performed::InDoubt { why }, Some(request)) if !accepted.session.is_over() => {
            tracing::warn!(tool = %bound.tool, call = %bound.call, why, "asked again with its key");
            Ended::Performed(ask_again(vault, accepted, rules, request, why).await)
        }
        (performed, _) => Ended::Performed(performed),
    }
}

/// Why nothing is handed over.
pub(crate) enum NotReady {
    /// Nothing was sent.
    NotSent { why: String },
    /// The permit is not acted on.
    Refused { why: String },
}

/// The worker for a call, and the request as it sends it.
pub(crate) async fn worker<'a>(
    vault: &Vault,
    accepted: &'a Accepted,
) -> Result<(&'a Credential, Rc<Worker>, Http), NotReady> {
    let label = &accepted.bound.credential;
    let Some(rules) = accepted.session.loaded.policy.credential(label) else {
        // `accept` saw it a moment ago, and policies do not change.
        let why = format!("credential `{label}` is not in the policy");
        return Err(NotReady::Refused { why });
    };
    let wanted = accepted.wanted(rules, &accepted.request.origin);
    let worker = match vault.workers.find(wanted, vault.means()).await {
        Ok(worker) => worker,
        Err(error @ NoWorker::Egress(_)) => {
            let why = error.to_string();
            return Err(NotReady::Refused { why });
        }
        Err(error @ NoWorker::NotStarted { .. }) => {
            let why = error.to_string();
            return Err(NotReady::NotSent { why });
        }
    };
    let Some(addresses) = worker.addresses(&accepted.request.origin) else {
        let why = "the worker's egress does not have the origin".into();
        return Err(NotReady::NotSent { why });
    };
    let request = accepted.http(addresses);
    Ok((rules, worker, request))
}

/// Whether a call may still be handed over, by what custodyd and the gate have said up to now.
pub(crate) fn still_good(
    vault: &Rc<Vault>,
    link: &Link,
    accepted: &Accepted,
) -> Result<(), NotReady> {
    vault.catch_up();
    let refused = |why: String| Err(NotReady::Refused { why });
    if let Err(why) = vault.credentials.borrow().find(&accepted.bound.credential) {
        return refused(why.to_string());
    }
    if !link.is_current() {
        return refused(Refusal::GateGone.to_string());
    }
    if accepted.session.is_over() {
        let why = "the session ended".into();
        return Err(NotReady::NotSent { why });
    }
    // The worker's start and the way to disk took their time.
    if vault.clock.boot_ns() >= accepted.expires {
        return refused(Refusal::Permit(PermitError::Expired).to_string());
    }
    Ok(())
}

/// Sends the same request with the same key once more: what is in doubt stays so unless the target
/// answers.
async fn ask_again(
    vault: &Vault,
    accepted: &Accepted,
    rules: &Credential,
    request: Http,
    why: String,
) -> Performed {
    let wanted = accepted.wanted(rules, &accepted.request.origin);
    let Ok(worker) = vault.workers.find(wanted, vault.means()).await else {
        return Performed::InDoubt { why };
    };
    // The first may have been done whatever becomes of this one.
    match worker.perform(request, Cleared::Idempotent).await {
        done @ Performed::Done { .. } => done,
        Performed::NotSent { .. } | Performed::InDoubt { .. } => Performed::InDoubt { why },
    }
}

fn cut_short(progress: &Progress) -> Ended {
    let why = "the session ended".into();
    Ended::Performed(if progress.handed_over.get() {
        Performed::InDoubt { why }
    } else {
        Performed::NotSent { why }
    })
}

/// Looks whether what was claimed, or may have been done, is there.
async fn read_back(vault: &Vault, accepted: &Accepted, ended: &Ended) -> Verification {
    let answer = match ended {
        Ended::Performed(Performed::Done { status, body, .. }) if claims(*status) => {
            Some(body.as_slice())
        }
        Ended::Performed(Performed::InDoubt { .. }) => None,
        // Nobody says that anything was done.
        Ended::Performed(Performed::Done { .. } | Performed::NotSent { .. })
        | Ended::ChainFailed(_)
        | Ended::Refused { .. }
        | Ended::Stale { .. } => return Verification::UNSUPPORTED,
    };
    let (bound, policy) = (&accepted.bound, &accepted.session.loaded.policy);
    let tool = policy.tools().get(&bound.tool);
    let Some((tool, rules)) = tool.zip(policy.credential(&bound.credential)) else {
        return Verification::UNSUPPORTED;
    };
    if tool.verify.is_none() {
        return Verification::UNSUPPORTED;
    }
    let subject = Subject {
        arguments: &accepted.call.arguments,
        answer,
        name: &accepted.call.tool,
        tool,
    };
    // What was done stays done when the session ends: only nobody looks any more.
    let found = tokio::select! {
        biased;
        () = accepted.session.over() => Verification {
            finding: Finding::Unobservable,
            reads: 0,
            why: Some("the session ended before it was read back".into()),
        },
        found = verify::read_back(vault, accepted.reader(rules), subject) => found,
    };
    if Mutant::VaultReadBack.is_on() {
        return Verification {
            finding: Finding::Verified,
            ..found
        };
    }
    if found.finding == Finding::Mismatched && answer.is_some() {
        let locks = tool
            .verify
            .as_ref()
            .is_some_and(|verify| verify.lock_on_mismatch);
        vault.mismatched(bound, policy.name(), locks, found.why());
    }
    found
}

/// Whether a status says that something was done (RFC 9110, section 15.3).
const fn claims(status: u16) -> bool {
    matches!(status, 200..=299)
}

/// Writes the receipt, and only then makes the answer.
fn conclude(
    vault: &Vault,
    number: u64,
    accepted: &Accepted,
    progress: &Progress,
    ended: Ended,
    verification: Verification,
) -> Option<Answer> {
    let write = |outcome| {
        let intent = *progress.intent.borrow();
        vault
            .receipts
            .receipt(accepted.bound.clone(), intent, outcome)
            .ok()
    };
    let shown = verification.clone();
    let failed = |why: String, in_doubt, receipt: Place| Answer::Failed {
        number,
        receipt: receipt.digest,
        why,
        in_doubt,
        verification: shown,
    };
    let (tool, call) = (&accepted.bound.tool, accepted.bound.call);
    match ended {
        Ended::ChainFailed(ChainFailed) => None,
        Ended::Refused { why } => {
            tracing::warn!(%tool, %call, why, "permit refused");
            let _receipt = write(Outcome::Refused {
                why: why.as_str().into(),
            })?;
            Some(Answer::Refused { number, why })
        }
        Ended::Stale { why } => {
            tracing::warn!(%tool, %call, why, "effect stale");
            let receipt = write(Outcome::Stale {
                why: why.as_str().into(),
            })?;
            Some(failed(why, false, receipt))
        }
        Ended::Performed(Performed::NotSent { why }) => {
            tracing::warn!(%tool, %call, why, "effect failed");
            let receipt = write(Outcome::Failed {
                why: why.as_str().into(),
            })?;
            Some(failed(why, false, receipt))
        }
        Ended::Performed(Performed::InDoubt { why }) => {
            let finding = verification.finding.as_str();
            tracing::warn!(%tool, %call, why, finding, "effect in doubt");
            let told = why.as_str().into();
            // That it is not there says nothing yet: it may still be on its way.
            let receipt = write(match verification.finding {
                Finding::Verified => Outcome::Found {
                    verification,
                    why: told,
                },
                Finding::Mismatched
                | Finding::Unobservable
                | Finding::Unsupported
                | Finding::VerifierFailure => Outcome::InDoubt {
                    verification,
                    why: told,
                },
            })?;
            Some(failed(why, true, receipt))
        }
        Ended::Performed(Performed::Done {
            status,
            media_type,
            body,
            scrubbed,
            etag,
            span: _,
        }) => {
            let policy = &accepted.session.loaded.policy;
            if claims(status) {
                let target = &accepted.request.target;
                let versions = &accepted.session.versions;
                versions.seen(policy, tool, target, etag.as_deref(), &body);
            }
            let finding = verification.finding.as_str();
            tracing::info!(%tool, %call, status, scrubbed, finding, "effect performed");
            let freshness = progress.freshness.get();
            let receipt = write(Outcome::Done {
                bytes: u64::try_from(body.len()).unwrap_or(u64::MAX),
                freshness,
                result: result_digest(&body),
                scrubbed,
                status,
                verification: verification.clone(),
            })?;
            Some(Answer::Done {
                number,
                receipt: receipt.digest,
                result: body,
                status,
                media_type,
                verification,
                freshness,
            })
        }
    }
}

//! One permit, from its check to its receipt.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use custody_wire::permit::Answer;
use gate::{
    chain::Place,
    permit::PermitError,
    record::{Effect, Outcome, result_digest},
};

use crate::{
    accept::{self, Accepted, Refusal},
    gate_link::Link,
    receipts::{ChainFailed, Cleared},
    vault::Vault,
    worker::Performed,
    workers::{Means, NoWorker, Wanted},
};

/// How long the gate's record may take to disk; 4 ms is usual, 13 ms the slowest of a hundred.
const DURABLE: Duration = Duration::from_secs(5);

/// Where a call has got to: what is true of it if it is cut short.
#[derive(Debug, Default)]
struct Progress {
    handed_over: Cell<bool>,
    intent: RefCell<Option<Place>>,
}

/// How a call ended.
enum Ended {
    ChainFailed(ChainFailed),
    Performed(Performed),
    Refused { why: String },
}

/// Performs what `permit` binds, once, and says what came of it. `None` if the receipts failed:
/// then nothing is released.
pub(crate) async fn perform(
    vault: &Rc<Vault>,
    link: &Link,
    number: u64,
    permit: &[u8],
    call: &[u8],
) -> Option<Answer> {
    vault.catch_up();
    // No await in here: copies of one permit race to exactly one.
    let accepted = match accept::accept(vault, link, permit, call) {
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
    let progress = Progress::default();
    let ended = tokio::select! {
        biased;
        ended = carry_out(vault, link, &accepted, &progress) => ended,
        () = accepted.session.over() => cut_short(&progress),
    };
    conclude(vault, number, &accepted, &progress, ended)
}

/// The steps from an accepted call to what the worker says of it.
async fn carry_out(vault: &Vault, link: &Link, accepted: &Accepted, progress: &Progress) -> Ended {
    let bound = &accepted.bound;
    let Some(rules) = accepted.session.loaded.policy.credential(&bound.credential) else {
        // `accept` saw it a moment ago, and policies do not change.
        let why = format!("credential `{}` is not in the policy", bound.credential);
        return Ended::Refused { why };
    };
    let wanted = Wanted {
        session: bound.session,
        open: &accepted.session,
        label: &bound.credential,
        rules,
        origin: &accepted.request.origin,
    };
    let means = Means {
        credentials: &vault.credentials,
        custodyd: &vault.custodyd,
        resolver: &vault.resolver,
    };
    let worker = match vault.workers.find(wanted, means).await {
        Ok(worker) => worker,
        Err(error @ NoWorker::Egress(_)) => {
            return Ended::Refused {
                why: error.to_string(),
            };
        }
        Err(error @ NoWorker::NotStarted { .. }) => {
            return Ended::Performed(Performed::NotSent {
                why: error.to_string(),
            });
        }
    };
    let Some(addresses) = worker.addresses(&accepted.request.origin) else {
        return Ended::Performed(Performed::NotSent {
            why: "the worker's egress does not have the origin".into(),
        });
    };
    let request = accepted.http(addresses);
    let cleared = if accepted.idempotent {
        Cleared::Idempotent
    } else {
        if !link.is_durable(bound.decision.position, DURABLE).await {
            return Ended::Refused {
                why: "the gate's record of the decision did not reach the disk".into(),
            };
        }
        let intent = vault.receipts.append(|at| Effect::Intent {
            at,
            effect: bound.clone(),
        });
        let intent = match intent {
            Ok(intent) => intent,
            Err(failed) => return Ended::ChainFailed(failed),
        };
        *progress.intent.borrow_mut() = Some(intent);
        match vault.receipts.on_disk(intent).await {
            Ok(on_disk) => Cleared::Intended(on_disk),
            Err(failed) => return Ended::ChainFailed(failed),
        }
    };
    // Nothing waits between these checks and the hand-over.
    if !link.is_current() {
        return Ended::Refused {
            why: Refusal::GateGone.to_string(),
        };
    }
    if accepted.session.is_over() {
        return cut_short(progress);
    }
    // The worker's start and the way to disk took their time.
    if vault.clock.boot_ns() >= accepted.expires {
        return Ended::Refused {
            why: Refusal::Permit(PermitError::Expired).to_string(),
        };
    }
    progress.handed_over.set(true);
    Ended::Performed(worker.perform(request, cleared).await)
}

fn cut_short(progress: &Progress) -> Ended {
    let why = "the session ended".into();
    Ended::Performed(if progress.handed_over.get() {
        Performed::InDoubt { why }
    } else {
        Performed::NotSent { why }
    })
}

/// Writes the receipt, and only then makes the answer.
fn conclude(
    vault: &Vault,
    number: u64,
    accepted: &Accepted,
    progress: &Progress,
    ended: Ended,
) -> Option<Answer> {
    let write = |outcome| {
        let intent = *progress.intent.borrow();
        vault
            .receipts
            .receipt(accepted.bound.clone(), intent, outcome)
            .ok()
    };
    let failed = |why: String, in_doubt, receipt: Place| Answer::Failed {
        number,
        receipt: receipt.digest,
        why,
        in_doubt,
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
        Ended::Performed(Performed::NotSent { why }) => {
            tracing::warn!(%tool, %call, why, "effect failed");
            let receipt = write(Outcome::Failed {
                why: why.as_str().into(),
            })?;
            Some(failed(why, false, receipt))
        }
        Ended::Performed(Performed::InDoubt { why }) => {
            tracing::warn!(%tool, %call, why, "effect in doubt");
            let receipt = write(Outcome::InDoubt {
                why: why.as_str().into(),
            })?;
            Some(failed(why, true, receipt))
        }
        Ended::Performed(Performed::Done {
            status,
            media_type,
            body,
            scrubbed,
        }) => {
            tracing::info!(%tool, %call, status, scrubbed, "effect performed");
            let receipt = write(Outcome::Done {
                bytes: u64::try_from(body.len()).unwrap_or(u64::MAX),
                result: result_digest(&body),
                scrubbed,
                status,
            })?;
            Some(Answer::Done {
                number,
                receipt: receipt.digest,
                result: body,
                status,
                media_type,
            })
        }
    }
}

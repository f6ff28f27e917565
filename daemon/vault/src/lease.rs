//! One lease, from its accepted permit to its receipt.
//!
//! Its bytes never come here: the vault makes the pair over which they go, gives one end to the worker and
//! the other to the gate, and keeps none. It writes an intent before the worker is asked, so that whatever
//! ends it, a line of the chain says that it was opened.

use std::{cell::Cell, rc::Rc};

use custody_sys::channel;
use custody_wire::{perform::Passed, permit::Answer};
use gate::{
    chain::Place,
    record::{Effect, Ended, Outcome, Streamed, Verification, Why},
};

use crate::{
    accept::Accepted,
    gate_link::Link,
    perform::{self, NotReady},
    stream::Open,
    vault::Vault,
    worker::Performed,
};

/// Why a lease was not opened.
enum Unopened {
    /// The receipts failed: nothing is said.
    Chain,
    /// Nothing of it was handed over, or nothing came back.
    Failed { why: String, in_doubt: bool },
    /// The permit is not acted on.
    Refused { why: String },
}

impl From<NotReady> for Unopened {
    fn from(not: NotReady) -> Self {
        match not {
            NotReady::NotSent { why } => Self::Failed {
                why,
                in_doubt: false,
            },
            NotReady::Refused { why } => Self::Refused { why },
        }
    }
}

/// Opens what `accepted` is a lease of, hands its reading end to the gate, and says what came over it. `None`
/// if the receipts failed.
pub(crate) async fn open(
    vault: &Rc<Vault>,
    link: &Link,
    number: u64,
    accepted: Accepted,
) -> Option<Answer> {
    let handed = Cell::new(None);
    let opened = tokio::select! {
        biased;
        opened = hand_over(vault, link, number, &accepted, &handed) => opened,
        () = accepted.session.over() => Err(Unopened::Failed {
            why: "the session ended".into(),
            in_doubt: handed.get().is_some(),
        }),
    };
    let intent = handed.get();
    let open = match opened {
        Ok(open) => open,
        Err(unopened) => return unopened_answer(vault, number, &accepted, intent, unopened),
    };
    // Whoever dies here closes its end of the pair; whatever is taken back is cut.
    let ended = tokio::select! {
        biased;
        () = accepted.session.over() => open.cut("the session ended").await,
        () = link.ended() => open.cut("the gate is gone").await,
        ended = open.ended() => match (ended, taken_back(vault, &accepted)) {
            (Ended::Cut { .. }, Some(why)) => Ended::Cut { why },
            (ended, _) => ended,
        },
    };
    let Passed {
        bytes,
        scrubbed,
        sha256,
    } = open.passed();
    let stream = Streamed {
        bytes,
        ended,
        scrubbed,
        sha256,
        status: open.status,
    };
    let (tool, call) = (&accepted.bound.tool, accepted.bound.call);
    tracing::info!(%tool, %call, bytes, scrubbed, ended = stream.ended.in_words(), "lease over");
    let outcome = Outcome::Streamed(stream.clone());
    let receipt = vault
        .receipts
        .receipt(accepted.bound.clone(), intent, outcome)
        .ok()?;
    Some(Answer::Streamed {
        number,
        receipt: receipt.digest,
        stream,
    })
}

/// The steps from an accepted lease to the gate's end of it.
async fn hand_over(
    vault: &Rc<Vault>,
    link: &Link,
    number: u64,
    accepted: &Accepted,
    handed: &Cell<Option<Place>>,
) -> Result<Open, Unopened> {
    let (_rules, worker, request) = perform::worker(vault, accepted).await?;
    perform::still_good(vault, link, accepted)?;
    let (ours, theirs) = channel::pair_stream().map_err(|error| Unopened::Failed {
        why: format!("socketpair(2) failed: {error}"),
        in_doubt: false,
    })?;
    let line = vault.receipts.append(|at| Effect::Intent {
        at,
        call: None,
        effect: accepted.bound.clone(),
    });
    handed.set(Some(line.map_err(|_failed| Unopened::Chain)?));
    // Nothing waits between these checks and the hand-over.
    let opened = worker.stream(request, theirs).await;
    let open = opened.map_err(|performed| match performed {
        Performed::NotSent { why } => Unopened::Failed {
            why,
            in_doubt: false,
        },
        Performed::InDoubt { why } => Unopened::Failed {
            why,
            in_doubt: true,
        },
        // It answered a stream as a request.
        Performed::Done { .. } => Unopened::Failed {
            why: "the worker did not keep to the protocol".into(),
            in_doubt: true,
        },
    })?;
    let status = open.status;
    link.answer_with(Answer::Opened { number, status }, Some(ours))
        .await;
    Ok(open)
}

/// Why the credential is no longer usable, if it is not: custodyd kills its workers before it says so.
fn taken_back(vault: &Rc<Vault>, accepted: &Accepted) -> Option<Why> {
    vault.catch_up();
    let credentials = vault.credentials.borrow();
    let found = credentials.find(&accepted.bound.credential);
    found.err().map(|why| why.to_string().as_str().into())
}

/// Writes the receipt of what was not opened, and only then makes the answer.
fn unopened_answer(
    vault: &Vault,
    number: u64,
    accepted: &Accepted,
    intent: Option<Place>,
    unopened: Unopened,
) -> Option<Answer> {
    let write = |outcome| {
        let bound = accepted.bound.clone();
        vault.receipts.receipt(bound, intent, outcome).ok()
    };
    let (tool, call) = (&accepted.bound.tool, accepted.bound.call);
    match unopened {
        Unopened::Chain => None,
        Unopened::Refused { why } => {
            tracing::warn!(%tool, %call, why, "permit refused");
            let _receipt = write(Outcome::Refused {
                why: why.as_str().into(),
            })?;
            Some(Answer::Refused { number, why })
        }
        Unopened::Failed { why, in_doubt } => {
            tracing::warn!(%tool, %call, why, "lease failed");
            let told = why.as_str().into();
            let receipt = write(if in_doubt {
                Outcome::InDoubt {
                    verification: Verification::UNSUPPORTED,
                    why: told,
                }
            } else {
                Outcome::Failed { why: told }
            })?;
            Some(Answer::Failed {
                number,
                receipt: receipt.digest,
                why,
                in_doubt,
                verification: Verification::UNSUPPORTED,
            })
        }
    }
}

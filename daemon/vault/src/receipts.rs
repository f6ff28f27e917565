//! The vault's chain: intents before, receipts after.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use custody_ledger::{sync::Durability, writer::Writer};
use gate::{
    chain::{Place, keys::Certificate},
    record::{Bound, Effect, Outcome},
};
use tokio::sync::Notify;

use custody_service::{clock::Clock, reason};

/// The chain. A failure of it is the end of the vault: no effect without a receipt.
#[derive(Debug)]
pub(crate) struct Receipts {
    writer: RefCell<Writer<Effect>>,
    durability: Durability,
    clock: Rc<dyn Clock>,
    failed: Cell<bool>,
    failure: Notify,
}

/// The chain failed. The reason is in the log; the vault ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the receipts cannot be written")]
pub(crate) struct ChainFailed;

/// Proof that a line is on disk. Not `Clone`: one intent, one hand-over.
#[derive(Debug)]
pub(crate) struct OnDisk {
    place: Place,
}

/// What must be so before a request is handed to a worker.
#[derive(Debug)]
pub(crate) enum Cleared {
    /// It may be repeated without another effect: no intent is needed.
    Idempotent,
    /// Its intent is on disk.
    Intended(OnDisk),
}

impl Cleared {
    /// The position of the intent, where there is one.
    pub(crate) fn intent(&self) -> Option<u64> {
        match self {
            Self::Idempotent => None,
            Self::Intended(on_disk) => Some(on_disk.place.position),
        }
    }
}

impl Receipts {
    pub(crate) fn new(writer: Writer<Effect>, clock: Rc<dyn Clock>) -> Self {
        let durability = writer.durability();
        Self {
            writer: RefCell::new(writer),
            durability,
            clock,
            failed: Cell::new(false),
            failure: Notify::new(),
        }
    }

    /// Appends one line. From here a crash of this process cannot lose it.
    pub(crate) fn append(&self, body: impl FnOnce(u64) -> Effect) -> Result<Place, ChainFailed> {
        if self.failed.get() {
            return Err(ChainFailed);
        }
        let body = body(self.clock.unix_ms());
        self.writer
            .borrow_mut()
            .append(&body)
            .map_err(|error| self.fail(&error))
    }

    /// Keeps the instance's word for the key that signs here.
    pub(crate) fn certified(&self, certificate: Certificate) {
        let kept = self.writer.borrow_mut().certificate(certificate);
        if let Err(error) = kept {
            tracing::error!(
                error = reason::chain_of(&error),
                "a certificate was not kept"
            );
        }
    }

    /// Appends what came of an effect.
    pub(crate) fn receipt(
        &self,
        effect: Bound,
        intent: Option<Place>,
        outcome: Outcome,
    ) -> Result<Place, ChainFailed> {
        self.append(|at| Effect::Receipt {
            at,
            effect,
            intent,
            outcome,
        })
    }

    /// Waits until the line at `place` is on disk.
    pub(crate) async fn on_disk(&self, place: Place) -> Result<OnDisk, ChainFailed> {
        let durable = self.durability.durable(place.position).await;
        durable
            .map(|()| OnDisk { place })
            .map_err(|error| self.fail(&error))
    }

    /// The newest line that is on disk.
    pub(crate) fn synced(&self) -> Place {
        self.durability.synced()
    }

    /// Ready when the chain has failed.
    pub(crate) async fn failure(&self) {
        while !self.failed.get() {
            self.failure.notified().await;
        }
    }

    fn fail(&self, error: &dyn std::error::Error) -> ChainFailed {
        tracing::error!(
            error = reason::chain_of(error),
            "the receipts failed; nothing more is performed"
        );
        self.failed.set(true);
        self.failure.notify_waiters();
        self.failure.notify_one();
        ChainFailed
    }
}

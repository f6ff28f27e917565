//! The decision records: every outcome, before it has any effect.

use std::{cell::RefCell, rc::Rc};

use custody_ledger::{
    sync::{Durability, Durable},
    writer::Writer,
};
use gate::{
    chain::{Place, keys::Certificate},
    record::Decision,
};

use custody_service::{clock::Clock, reason};

/// The chain of the decision records. What it cannot keep is not done.
#[derive(Debug)]
pub(crate) struct Book {
    writer: RefCell<Writer<Decision>>,
    durability: Durability,
    clock: Rc<dyn Clock>,
}

/// A record could not be kept. The whole reason is in the log; this one is for the agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the decision cannot be recorded, so nothing is done; the operator finds the cause in the log of custody-gate"
)]
pub(crate) struct Unrecorded;

impl Book {
    pub(crate) fn new(writer: Writer<Decision>, clock: Rc<dyn Clock>) -> Self {
        let durability = writer.durability();
        Self {
            writer: RefCell::new(writer),
            durability,
            clock,
        }
    }

    /// Milliseconds since 1970, for the record.
    pub(crate) fn now(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// Appends a record: from here a crash of this process cannot lose it.
    pub(crate) fn record(&self, decision: &Decision) -> Result<Place, Unrecorded> {
        self.writer.borrow_mut().append(decision).map_err(|error| {
            tracing::error!(
                error = reason::chain_of(&error),
                "a decision was not recorded"
            );
            Unrecorded
        })
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

    /// Ready when the record at `place` is on disk. Awaiting it starts the sync.
    pub(crate) fn durable(&self, place: Place) -> Durable {
        self.durability.durable(place.position)
    }

    /// The newest record that is on disk.
    pub(crate) fn synced(&self) -> Place {
        self.durability.synced()
    }
}

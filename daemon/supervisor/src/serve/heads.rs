//! The newest lines of the two chains, noted in the journal from time to time: a tail that is cut
//! afterwards shows.

use std::time::{Duration, Instant};

use custody_wire::supervise::Head;

/// How often heads go to the journal: a tail that is cut afterwards shows.
const HEADS_EVERY: Duration = Duration::from_secs(60);

/// The newest lines of the two chains, as gate and vault said them.
#[derive(Debug, Default)]
pub(super) struct Heads {
    pub(super) decisions: Option<Head>,
    pub(super) receipts: Option<Head>,
    /// The positions that were noted last.
    noted: (Option<u64>, Option<u64>),
    next: Option<Instant>,
}

impl Heads {
    /// When they are noted next.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Notes them if it is time.
    pub(super) fn note_if_due(&mut self, now: Instant) {
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + HEADS_EVERY);
            self.note();
        }
    }

    /// Notes them if one has grown.
    pub(super) fn note(&mut self) {
        let positions = |head: &Option<Head>| head.map(|head| head.position);
        let now = (positions(&self.decisions), positions(&self.receipts));
        if now == self.noted {
            return;
        }
        self.noted = now;
        for (chain, head) in [("decisions", self.decisions), ("receipts", self.receipts)] {
            if let Some(Head { position, digest }) = head {
                tracing::info!(chain, position, %digest, "ledger head");
            }
        }
    }
}

//! Rows of calls that are over are forgotten in the end: the ledger says for good what was decided and done.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use crate::serve::Service;

/// How long a row stays after its call began to wait, in milliseconds: 30 days. No call waits longer than a
/// day (`hold_seconds` of a policy), so what is forgotten could not be used any more either.
const AGE: u64 = 30 * 24 * 60 * 60 * 1_000;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The most that go in one transaction: others wait for it.
const AT_ONCE: usize = 256;

/// Forgets what is old, at the start and then every hour, for ever.
pub async fn prune(service: Arc<Service>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let _now = ticks.tick().await;
        let mut all = 0_u64;
        loop {
            let pruned = service
                .desk
                .ask(|store, now| store.prune(now.saturating_sub(AGE), AT_ONCE));
            match pruned.await {
                Ok(0) => break,
                Ok(some) => all = all.saturating_add(some),
                Err(error) => {
                    tracing::warn!(%error, "old approvals stay");
                    break;
                }
            }
        }
        if all > 0 {
            tracing::info!(rows = all, "old approvals are forgotten");
        }
    }
}

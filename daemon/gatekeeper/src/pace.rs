//! How fast refusals may come.
//!
//! Each outcome is recorded, refusals too. An allowed call costs an effect; a refused one costs the
//! agent nothing, so that a flood of them would fill the disk. Beyond a burst the session's
//! channel is read more slowly: nothing is dropped, and no other session waits.

use std::time::Duration;

use tokio::time::Instant;

/// Refusals that may come at once.
const BURST: u32 = 256;

/// One refusal each so long, after the burst: 64 a second.
const EACH: Duration = Duration::from_micros(15_625);

/// A bucket of refusals (a token bucket that is filled by time).
#[derive(Debug)]
pub(crate) struct Pace {
    /// When the bucket is full again.
    full: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { full: now }
    }

    /// Counts one refusal; says how long to wait before the next request is read.
    pub(crate) fn refused(&mut self, now: Instant) -> Duration {
        self.full = self.full.max(now) + EACH;
        self.full
            .saturating_duration_since(now)
            .saturating_sub(EACH.saturating_mul(BURST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_is_slowed() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for n in 0..BURST {
            assert_eq!(pace.refused(start), Duration::ZERO, "{n}");
        }
        assert_eq!(pace.refused(start), EACH);
        assert_eq!(pace.refused(start), EACH * 2);
    }

    #[test]
    fn time_fills_the_bucket_again_and_never_over_its_rim() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for _ in 0..BURST * 2 {
            let _wait = pace.refused(start);
        }
        let later = start + Duration::from_secs(3600);
        for n in 0..BURST {
            assert_eq!(pace.refused(later), Duration::ZERO, "{n}");
        }
        assert!(pace.refused(later) > Duration::ZERO);
    }
}

//! How fast refusals may come.
//!
//! Each outcome is recorded, refusals too. An allowed call costs an effect; a refused one costs the
//! agent nothing, so that a flood of them would fill the disk: by their number, and by the
//! arguments that a record keeps whole. Beyond a burst the session's channel is read more slowly:
//! nothing is dropped, and no other session waits.

use std::time::Duration;

use tokio::time::Instant;

/// Refusals that may come at once.
const BURST: u32 = 256;

/// One refusal each so long, after the burst: 64 a second.
const EACH: Duration = Duration::from_micros(15_625);

/// What one of them may carry. More counts as more: 256 KiB a second.
const BYTES: usize = 4 << 10;

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

    /// Counts the refusal of a request of so many bytes; says how long to wait before the next one
    /// is read.
    pub(crate) fn refused(&mut self, now: Instant, bytes: usize) -> Duration {
        let tokens = u32::try_from(bytes.div_ceil(BYTES).max(1)).unwrap_or(u32::MAX);
        self.full = self.full.max(now) + EACH.saturating_mul(tokens);
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
            assert_eq!(pace.refused(start, 1), Duration::ZERO, "{n}");
        }
        assert_eq!(pace.refused(start, 1), EACH);
        assert_eq!(pace.refused(start, 1), EACH * 2);
    }

    #[test]
    fn time_fills_the_bucket_again_and_never_over_its_rim() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for _ in 0..BURST * 2 {
            let _wait = pace.refused(start, 1);
        }
        let later = start + Duration::from_secs(3600);
        for n in 0..BURST {
            assert_eq!(pace.refused(later, 1), Duration::ZERO, "{n}");
        }
        assert!(pace.refused(later, 1) > Duration::ZERO);
    }

    #[test]
    fn what_is_long_counts_as_many() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.refused(start, 0), Duration::ZERO);
        assert_eq!(pace.refused(start, BYTES), Duration::ZERO);
        assert_eq!(pace.refused(start, BYTES + 1), Duration::ZERO);
        // Four so far, and four times the longest arguments: 260.
        for _ in 0..4 {
            let _wait = pace.refused(start, 256 << 10);
        }
        assert_eq!(pace.refused(start, 1), EACH * 5);
        // A minute of the longest ones is 256 KiB each second, and the burst.
        let (mut now, mut bytes) = (start, 0);
        let mut pace = Pace::new(start);
        while now < start + Duration::from_secs(60) {
            bytes += 256 << 10;
            now += pace.refused(now, 256 << 10);
        }
        assert!((60..=66).contains(&(bytes >> 18)), "{bytes}");
    }
}

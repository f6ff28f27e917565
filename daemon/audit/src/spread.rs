//! How long something took: median and 95th percentile of any number of times, in bounded memory.

use std::collections::BTreeMap;

use serde::Serialize;

/// So many steps to each power of two: what is said is at most 1/32 too high.
const STEPS: u64 = 32;

/// Counts of times, in milliseconds, by their size.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Spread {
    /// By the highest time that counts as the same.
    counts: BTreeMap<u64, u64>,
    count: u64,
    most: u64,
}

/// What is said of a [`Spread`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Times {
    /// How many there were.
    pub count: u64,
    /// Half of them took no longer. At most 1/32 too high.
    pub median_ms: u64,
    /// 95 of a hundred took no longer. At most 1/32 too high.
    pub p95_ms: u64,
    /// The longest, exactly.
    pub longest_ms: u64,
}

impl Spread {
    /// One more.
    pub fn add(&mut self, ms: u64) {
        let count = self.counts.entry(up(ms)).or_default();
        *count = count.saturating_add(1);
        self.count = self.count.saturating_add(1);
        self.most = self.most.max(ms);
    }

    /// What they come to.
    pub fn times(&self) -> Times {
        Times {
            count: self.count,
            median_ms: self.quantile(50),
            p95_ms: self.quantile(95),
            longest_ms: self.most,
        }
    }

    fn quantile(&self, percent: u64) -> u64 {
        let rank = self.count.saturating_mul(percent).div_ceil(100);
        let mut seen = 0_u64;
        for (up, count) in &self.counts {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return (*up).min(self.most);
            }
        }
        self.most
    }
}

/// The highest time that counts as the same as `ms`.
fn up(ms: u64) -> u64 {
    let power = ms.checked_ilog2().unwrap_or(0);
    // Below this every millisecond is its own.
    match power.checked_sub(STEPS.ilog2()) {
        None | Some(0) => ms,
        Some(shift) => ms | (1_u64 << shift).saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_took_no_time() {
        assert_eq!(Spread::default().times(), Times::default());
    }

    #[test]
    fn the_median_and_the_95th_of_a_hundred_are_the_50th_and_the_95th() {
        let mut spread = Spread::default();
        (1..=100).rev().for_each(|it| spread.add(it * 10));
        let times = spread.times();
        assert!((500..=515).contains(&times.median_ms), "{times:?}");
        assert!((950..=979).contains(&times.p95_ms), "{times:?}");
        assert_eq!((times.count, times.longest_ms), (100, 1_000));
    }

    proptest! {
        #[test]
        fn what_is_said_is_never_too_low_and_at_most_a_32nd_too_high(
            mut all in prop::collection::vec(0..10_000_000_u64, 1..200),
        ) {
            let mut spread = Spread::default();
            all.iter().for_each(|it| spread.add(*it));
            all.sort_unstable();
            let exact = all[(all.len() * 95).div_ceil(100) - 1];
            let said = spread.times().p95_ms;
            prop_assert!(said >= exact && said <= exact + exact / 32, "{said} for {exact}");
        }
    }
}

//! How often in a minute: whoever is asked all day says yes to everything.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Over which time is counted.
const MINUTE: Duration = Duration::from_secs(60);

/// The moments of the last minute, of each.
#[derive(Debug)]
pub(super) struct Pace<K>(Mutex<HashMap<K, VecDeque<Instant>>>);

impl<K> Default for Pace<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Pace<K> {
    /// Counts one more of `whose`, if there were less than `most` in the last minute.
    pub(super) fn admit(&self, whose: &K, most: u32, now: Instant) -> bool {
        let mut all = self.all();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        all.retain(|_, moments| {
            while moments
                .front()
                .is_some_and(|it| now.duration_since(*it) >= MINUTE)
            {
                let _oldest = moments.pop_front();
            }
            !moments.is_empty()
        });
        let moments = all.entry(whose.clone()).or_default();
        if moments.len() >= most {
            return false;
        }
        moments.push_back(now);
        true
    }

    /// The newest one of `whose` did not count after all.
    pub(super) fn give_back(&self, whose: &K) {
        if let Some(moments) = self.all().get_mut(whose) {
            let _newest = moments.pop_back();
        }
    }

    pub(super) fn forget(&self, whose: &K) {
        drop(self.all().remove(whose));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<K, VecDeque<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_minute_and_then_none_until_the_first_is_a_minute_old() {
        let pace = Pace::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        for second in 0..3 {
            assert!(pace.admit(&1, 3, at(second)));
        }
        assert!(!pace.admit(&1, 3, at(59)));
        assert!(pace.admit(&2, 3, at(59)), "another is another");
        assert!(pace.admit(&1, 3, at(60)));
        assert!(!pace.admit(&1, 3, at(60)));
        pace.give_back(&1);
        assert!(pace.admit(&1, 3, at(60)));
        assert!(!pace.admit(&3, 0, at(60)));
        assert!(pace.admit(&1, 3, at(200)));
        assert_eq!(pace.all().len(), 1, "the others are forgotten");
    }
}

//! Permits that were used: each once.
//!
//! It lives in memory alone. A restart draws a new epoch, which voids every permit at once.

use std::collections::HashMap;

use gate::mutant::Mutant;

/// The most spent permits that are remembered: with a permit's longest life of 30 s and the margin
/// that is 2,500 calls a second, without end. More is refused, never forgotten early.
pub(crate) const SPENT_MAX: usize = 100_000;

/// How long a spent permit is remembered beyond its expiry. Expiry is checked by the same clock,
/// so this is only distance from the edge.
const MARGIN_NS: u64 = 10_000_000_000;

/// The nonces of spent permits, with the time until which each is kept.
#[derive(Debug)]
pub(crate) struct Spent {
    until: HashMap<[u8; 16], u64>,
    most: usize,
}

/// Why a permit cannot be spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum SpendError {
    /// It was spent before.
    #[error("the permit was used before")]
    Again,
    /// Too many live permits are remembered.
    #[error("{most} permits were used within their lifetime; try again later")]
    Full {
        /// How many.
        most: usize,
    },
}

impl Spent {
    /// Nothing is spent. At most `most` are remembered.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            until: HashMap::new(),
            most,
        }
    }

    /// Spends the permit with this nonce. Exactly one caller succeeds.
    pub(crate) fn spend(
        &mut self,
        nonce: [u8; 16],
        expires: u64,
        now: u64,
    ) -> Result<(), SpendError> {
        if self.until.contains_key(&nonce) && !Mutant::VaultPermitReuse.is_on() {
            return Err(SpendError::Again);
        }
        if self.until.len() >= self.most {
            self.until.retain(|_nonce, until| *until > now);
        }
        if self.until.len() >= self.most {
            return Err(SpendError::Full { most: self.most });
        }
        let _none = self.until.insert(nonce, expires.saturating_add(MARGIN_NS));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_spent_once() {
        let mut spent = Spent::new(10);
        assert_eq!(spent.spend([1; 16], 100, 0), Ok(()));
        assert_eq!(spent.spend([1; 16], 100, 0), Err(SpendError::Again));
        assert_eq!(spent.spend([1; 16], 999, u64::MAX), Err(SpendError::Again));
        assert_eq!(spent.spend([2; 16], 100, 0), Ok(()));
    }

    #[test]
    fn a_full_set_refuses_and_forgets_only_what_has_expired() {
        let mut spent = Spent::new(2);
        spent.spend([1; 16], 100, 0).unwrap();
        spent.spend([2; 16], 200, 0).unwrap();
        let full = Err(SpendError::Full { most: 2 });
        assert_eq!(spent.spend([3; 16], 300, 100 + MARGIN_NS - 1), full);
        assert_eq!(spent.spend([3; 16], 300, 100 + MARGIN_NS), Ok(()));
        assert_eq!(spent.spend([2; 16], 200, 150), Err(SpendError::Again));
    }
}

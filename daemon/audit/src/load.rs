//! What reviewers are asked, and what became of it.

use serde::Serialize;

use crate::spread::{Spread, Times};

/// What was said of calls, and what became of those that a person was asked about.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Load {
    /// Calls that were let through without a person's answer to exactly this asking.
    pub allowed: u64,
    /// Calls that began to wait for a person.
    pub held: u64,
    /// Calls that the gate refused.
    pub refused: u64,
    /// Held calls that a reviewer approved.
    pub approved: u64,
    /// Held calls that a reviewer refused.
    pub turned_down: u64,
    /// Held calls that nobody answered in their time.
    pub expired: u64,
    /// Held calls that ended otherwise: with their session, the gate, or what had changed.
    pub ended: u64,
    /// How long the answered ones waited.
    pub waits: Spread,
}

/// A [`Load`], for a report.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Said {
    /// Calls that were decided on: allowed, held and refused.
    pub decided: u64,
    /// Allowed.
    pub allowed: u64,
    /// Held for a person.
    pub held: u64,
    /// Refused by the gate.
    pub refused: u64,
    /// Of the held, approved.
    pub approved: u64,
    /// Of the held, refused by a reviewer.
    pub turned_down: u64,
    /// Of the held, not answered in time.
    pub expired: u64,
    /// Of the held, ended otherwise.
    pub ended: u64,
    /// Of the held, those of which nothing more was read: they still wait, or what followed was left out.
    pub open: u64,
    /// How long the answered ones waited.
    pub waits: Times,
}

impl Load {
    /// What it comes to.
    pub fn said(&self) -> Said {
        let over = [self.approved, self.turned_down, self.expired, self.ended];
        let over = over.into_iter().fold(0, u64::saturating_add);
        Said {
            decided: self
                .allowed
                .saturating_add(self.held)
                .saturating_add(self.refused),
            allowed: self.allowed,
            held: self.held,
            refused: self.refused,
            approved: self.approved,
            turned_down: self.turned_down,
            expired: self.expired,
            ended: self.ended,
            open: self.held.saturating_sub(over),
            waits: self.waits.times(),
        }
    }
}

impl Said {
    /// How many a reviewer answered.
    pub const fn answered(&self) -> u64 {
        self.approved.saturating_add(self.turned_down)
    }
}

/// `part` of `whole` in percent, with one decimal; a dash of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".into();
    }
    let tenths = u128::from(part)
        .saturating_mul(1_000)
        .saturating_add(u128::from(whole) / 2)
        / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_one_decimal_and_none_of_nothing() {
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(2, 3), "66.7 %");
        assert_eq!(share(u64::MAX, u64::MAX), "100.0 %");
        assert_eq!(share(0, 0), "–");
    }
}

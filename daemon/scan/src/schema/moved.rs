//! How the bounds of a value moved between two schemas.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{
    Bounds,
    facts::number,
    keyword::{NUMBERS, Tighter},
};

/// Which way a bound moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moved {
    /// More values fit.
    Looser,
    /// Neither set of values holds the other.
    Otherwise,
    /// Fewer values fit.
    Tighter,
}

impl Moved {
    /// How one set of values became another.
    pub fn of_sets<T: Ord>(before: &BTreeSet<T>, after: &BTreeSet<T>) -> Option<Self> {
        match (before.is_subset(after), after.is_subset(before)) {
            (true, true) => None,
            (true, false) => Some(Self::Looser),
            (false, true) => Some(Self::Tighter),
            (false, false) => Some(Self::Otherwise),
        }
    }
}

impl Bounds {
    /// The bounds in numbers that are others in `after`: keyword, and which way.
    pub fn moved_to(&self, after: &Self) -> Vec<(&'static str, Moved)> {
        NUMBERS
            .iter()
            .filter_map(|(keyword, tighter, _)| {
                let moved = match (self.numbers.get(keyword), after.numbers.get(keyword)) {
                    (None, None) => return None,
                    (None, Some(_)) => Moved::Tighter,
                    (Some(_), None) => Moved::Looser,
                    (Some(old), Some(new)) => {
                        match (number(new).partial_cmp(&number(old)), tighter) {
                            (Some(Ordering::Equal), _) => return None,
                            // Multiples of 6 are multiples of 3; those of 5 are not.
                            (_, _) if *keyword == "multipleOf" => Moved::Otherwise,
                            (Some(Ordering::Greater), Tighter::Greater)
                            | (Some(Ordering::Less), Tighter::Less) => Moved::Tighter,
                            (Some(Ordering::Greater), Tighter::Less)
                            | (Some(Ordering::Less), Tighter::Greater) => Moved::Looser,
                            (None, _) => Moved::Otherwise,
                        }
                    }
                };
                Some((*keyword, moved))
            })
            .collect()
    }
}

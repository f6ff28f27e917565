//! What one schema says of a value, and how two of them are put together.

use std::{cmp::Ordering, sync::Arc};

use gate::json::Value;

use super::{
    Bounds, Types,
    keyword::{NUMBERS, Tighter},
};

/// What is known of a value: never less than may be.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) types: Types,
    pub(super) choice: Option<Vec<Arc<Value>>>,
    pub(super) bounds: Bounds,
}

impl Facts {
    pub(super) fn any() -> Self {
        Self {
            types: Types::ANY,
            choice: None,
            bounds: Bounds::default(),
        }
    }

    pub(super) fn never() -> Self {
        Self {
            types: Types::NONE,
            ..Self::any()
        }
    }

    /// Both hold.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.types = self.types.and(other.types);
        self.choice = match (self.choice.take(), other.choice) {
            (Some(a), Some(b)) => Some(if a.len() <= b.len() { a } else { b }),
            (one, other) => one.or(other),
        };
        for (keyword, bound) in other.bounds.numbers {
            self.bounds.tighten(keyword, bound);
        }
        self.bounds.patterns.extend(other.bounds.patterns);
        self
    }

    /// One of them holds. A bound that not all have is none.
    pub(super) fn one_of(branches: Vec<Self>) -> Self {
        let mut branches = branches.into_iter();
        let Some(mut sum) = branches.next() else {
            return Self::any();
        };
        for branch in branches {
            sum.types = sum.types.or(branch.types);
            sum.choice = match (sum.choice.take(), branch.choice) {
                (Some(mut a), Some(b)) => {
                    a.extend(b);
                    Some(a)
                }
                (_, _) => None,
            };
            sum.bounds
                .numbers
                .retain(|keyword, bound| branch.bounds.numbers.get(keyword) == Some(bound));
            sum.bounds
                .patterns
                .retain(|pattern| branch.bounds.patterns.contains(pattern));
        }
        sum
    }
}

impl Bounds {
    /// Takes a bound in, where it is tighter than the one that is there.
    pub(super) fn tighten(&mut self, keyword: &'static str, bound: Value) {
        let Some((_, tighter, _)) = NUMBERS.iter().find(|(name, ..)| *name == keyword) else {
            return;
        };
        let wanted = match tighter {
            Tighter::Greater => Ordering::Greater,
            Tighter::Less => Ordering::Less,
        };
        match self.numbers.get(keyword) {
            Some(old) if number(&bound).partial_cmp(&number(old)) != Some(wanted) => {}
            Some(_) | None => {
                self.numbers.insert(keyword, bound);
            }
        }
    }
}

/// The number of a value; not a number of what is none.
pub(super) const fn number(value: &Value) -> f64 {
    match value {
        Value::Int(n) => n.as_f64(),
        Value::Real(x) => x.get(),
        Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Text(_) => {
            f64::NAN
        }
    }
}

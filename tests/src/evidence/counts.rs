//! How much was tried: rows and mechanisms, never one divided by the other.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::row::Row;

/// Rows and mechanisms of a part of the suite. IPv4 and IPv6 of one trick are one mechanism.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Count {
    /// Different tricks.
    pub mechanisms: usize,
    /// Attempts.
    pub rows: usize,
}

/// The counts of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Counts {
    /// Of the whole.
    pub all: Count,
    /// By class.
    pub classes: BTreeMap<String, Count>,
    /// By family: what stands before the slash of an id.
    pub families: BTreeMap<String, Count>,
    /// By outcome.
    pub outcomes: BTreeMap<String, Count>,
}

/// Counts the rows.
pub fn of(rows: &[Row]) -> Counts {
    let by = |key: &dyn Fn(&Row) -> String| {
        let mut parts: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            parts.entry(key(row)).or_default().push(row);
        }
        parts
            .into_iter()
            .map(|(part, rows)| (part, count(&rows)))
            .collect()
    };
    Counts {
        all: count(&rows.iter().collect::<Vec<_>>()),
        classes: by(&|row| row.class.name().into()),
        families: by(&|row| row.family().into()),
        outcomes: by(&|row| row.outcome.name().into()),
    }
}

fn count(rows: &[&Row]) -> Count {
    let mechanisms: BTreeSet<&str> = rows.iter().map(|row| row.mechanism.as_str()).collect();
    Count {
        mechanisms: mechanisms.len(),
        rows: rows.len(),
    }
}

//! From outcomes to the status of property E: computed, never written by hand.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::row::{Class, Outcome, Row};
use crate::refused;

/// The words that an E PASS has, and no others (§12.4 of the specification).
pub const PASS_WORDS: &str =
    "no demonstrable alternative path within the declared zone and the attempted classes";

/// Fewer mechanisms than this in a class leave it untested.
pub const MECHANISMS_MIN: usize = 3;

/// The statuses of the specification's §3.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// A bypass was demonstrated inside the declared zone.
    Fail,
    /// A bypass succeeds only in configurations that are refused by the rules of §12.3.
    OutOfScope,
    /// Both halves are there and nothing was reached.
    Pass,
    /// A half, or one of the five, is missing.
    Untested,
}

/// The register's half, as far as the status needs it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct RegisterHalf {
    /// Where the comparison with the source was made: the revision, and whether the tree was
    /// changed since.
    pub revision: String,
    /// Entries of the register.
    pub entries: usize,
    /// What does not agree; empty when it was checked and agrees.
    pub drifts: Vec<String>,
    /// The register's own limits, copied.
    pub limits: Vec<String>,
    /// The zone: its roots, each with the reason, and what changes if they are drawn wider.
    pub zone: Vec<String>,
}

/// A refusal of a configuration in which a bypass succeeds (§12.3): all three parts are needed.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct RefusedConfiguration {
    /// The attempt that succeeds where the configuration is permitted: a row of the suite, or
    /// `refused/name`, which has a runner of its own and is no row.
    pub attempt: String,
    /// The configurations that are refused, by name.
    pub refused: Vec<String>,
    /// The configurations that remain supported.
    pub supported: Vec<String>,
    /// The shipped profile that enforces the refusal.
    pub profile: String,
    /// The test that shows that it does not start.
    pub test: String,
    /// What the refusal cannot observe.
    pub cannot_observe: String,
}

impl RefusedConfiguration {
    fn is_whole(&self) -> bool {
        !self.refused.is_empty()
            && !self.supported.is_empty()
            && [&self.profile, &self.test, &self.cannot_observe]
                .iter()
                .all(|text| !text.trim().is_empty())
    }
}

impl From<&refused::Row> for RefusedConfiguration {
    fn from(row: &refused::Row) -> Self {
        let without = |profile: &String| format!("profile {profile}, where it is not so");
        Self {
            attempt: row.attempt.clone(),
            refused: vec![row.title.clone()],
            supported: row.refused_by.iter().map(without).collect(),
            profile: row.refused_by.join(", "),
            test: row.test.clone(),
            cannot_observe: row.blind_spot.clone(),
        }
    }
}

/// What must be known of a configuration that is refused: where it is, where it is permitted and
/// the attempt succeeds, and what the refusal cannot observe.
pub fn of_refused(row: &refused::Row) -> String {
    let permitted = if row.permitted_by.is_empty() {
        "by no shipped profile".to_owned()
    } else {
        format!("by {}", row.permitted_by.join(", "))
    };
    let shown = |seen: &refused::Seen| if seen.holds { "shown" } else { "not shown" };
    let there = match &row.still_refused {
        None => format!(
            "succeeds where it is permitted ({})",
            shown(&row.reached_where_permitted)
        ),
        Some(seen) => format!("is {} ({})", row.reached_where_permitted.words, shown(seen)),
    };
    format!(
        "refused configuration `{}` ({}): refused by {} ({}), permitted {permitted}; `{}` (its own \
         runner, no row) {there}; not observed: {}",
        row.id,
        row.title,
        row.refused_by.join(", "),
        shown(&row.not_started),
        row.attempt,
        row.blind_spot
    )
}

/// The computed status, with everything that it rests on.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct EStatus {
    /// In the words of version 0.1.
    pub status: Status,
    /// In the words of version 0.2: `PASS`, `FAIL`, `NOT_ESTABLISHED` or `OUT_OF_SCOPE`.
    pub status_v0_2: String,
    /// One sentence.
    pub words: String,
    /// What was tried where: the status is as wide as this and no wider.
    pub scope: Vec<String>,
    /// What decided it, each a sentence.
    pub because: Vec<String>,
    /// For each class, the mechanisms that were refused with both controls.
    pub mechanisms: BTreeMap<String, BTreeSet<String>>,
    /// What does not lower the status and must be known.
    pub caveats: Vec<String>,
    /// The register's limits, copied.
    pub limits: Vec<String>,
    /// What the procedure itself cannot do (§12.4).
    pub structural: Vec<String>,
}

/// Computes the status from what was observed.
pub fn compute(
    rows: &[Row],
    register: Option<&RegisterHalf>,
    refused: &[RefusedConfiguration],
    mut scope: Vec<String>,
) -> EStatus {
    let mut because = Vec::new();
    let mut caveats = Vec::new();

    let (excused, open): (Vec<&Row>, Vec<&Row>) = rows
        .iter()
        .filter(|row| matches!(row.outcome, Outcome::Reached { .. }))
        .partition(|row| {
            refused
                .iter()
                .any(|configuration| configuration.attempt == row.id && configuration.is_whole())
        });
    let (gaps, open): (Vec<&Row>, Vec<&Row>) = open.into_iter().partition(|row| is_admitted(row));
    for row in &open {
        because.push(format!("`{}` reached the effect: {}", row.id, row.outcome));
    }
    caveats.extend(gaps.iter().map(|row| of_gap(row)));
    scope.extend(beyond(&gaps));
    let mechanisms = counted(rows);
    let missing = missing_halves(rows, register, &mechanisms);
    for row in rows {
        // Of the five it is more than a caveat: a missing half.
        if let (Class::Confinement, Outcome::NotAttempted { need }) = (row.class, &row.outcome) {
            caveats.push(format!("`{}` was not attempted: it needs {need}", row.id));
        }
        // A door that nobody knows to be closed reaches no protected effect by itself.
        if let (Class::Confinement, Outcome::Inconclusive { why }) = (row.class, &row.outcome) {
            caveats.push(format!("`{}` is inconclusive: {why}", row.id));
        }
        caveats.extend(row.notes.iter().map(|note| format!("`{}`: {note}", row.id)));
    }

    let status = if !open.is_empty() {
        Status::Fail
    } else if !missing.is_empty() {
        Status::Untested
    } else if !excused.is_empty() {
        Status::OutOfScope
    } else {
        Status::Pass
    };
    for row in excused {
        because.push(format!(
            "`{}` succeeds only in configurations that are refused",
            row.id
        ));
    }
    because.extend(missing);
    EStatus {
        status,
        status_v0_2: match status {
            Status::Fail => "FAIL",
            Status::OutOfScope => "OUT_OF_SCOPE",
            Status::Pass => "PASS",
            Status::Untested => "NOT_ESTABLISHED",
        }
        .into(),
        words: match status {
            Status::Fail => "an attempt reached the effect without the controlled path",
            Status::OutOfScope => "the bypass succeeds only in configurations that are refused",
            Status::Pass => PASS_WORDS,
            Status::Untested => "the available evidence does not demonstrate the property",
        }
        .into(),
        scope,
        because,
        mechanisms,
        caveats,
        limits: register.map(|half| half.limits.clone()).unwrap_or_default(),
        structural: STRUCTURAL.map(String::from).to_vec(),
    }
}

/// Whether it is a known gap that reaches no protected effect, or one outside the declared zone: a
/// caveat. What reaches one inside it is a bypass, known or not.
const fn is_admitted(row: &Row) -> bool {
    match row.outcome {
        Outcome::Reached { protected, .. } => {
            row.known_gap.is_some() && (!protected || row.beyond.is_some())
        }
        Outcome::Inconclusive { .. } | Outcome::NotAttempted { .. } | Outcome::Refused { .. } => {
            false
        }
    }
}

/// Whether it reached a protected effect.
const fn reaches_protected(row: &Row) -> bool {
    matches!(
        row.outcome,
        Outcome::Reached {
            protected: true,
            ..
        }
    )
}

/// The caveat of a known gap.
fn of_gap(row: &Row) -> String {
    let reason = row.known_gap.as_deref().unwrap_or_default();
    match &row.beyond {
        Some(beyond) if reaches_protected(row) => format!(
            "`{}` is a known gap and reaches a protected effect outside the declared zone: \
             {beyond} ({reason})",
            row.id
        ),
        Some(_) | None => format!(
            "`{}` is a known gap and reaches no protected effect: {reason}",
            row.id
        ),
    }
}

/// Where the zone ends: each sentence once, with the attempts that reach there.
fn beyond(gaps: &[&Row]) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in gaps.iter().filter(|row| reaches_protected(row)) {
        if let Some(sentence) = &row.beyond {
            let id = format!("`{}`", row.id);
            found.entry(sentence).or_default().push(id);
        }
    }
    let line = |(sentence, ids): (&str, Vec<String>)| {
        let reach = if ids.len() == 1 {
            "attempt"
        } else {
            "attempts"
        };
        let verb = if ids.len() == 1 { "reaches" } else { "reach" };
        format!(
            "outside the declared zone: {sentence}; {reach} {} {verb} it",
            ids.join(", ")
        )
    };
    found.into_iter().map(line).collect()
}

/// The mechanisms of each class that were refused with both controls.
fn counted(rows: &[Row]) -> BTreeMap<String, BTreeSet<String>> {
    let mut mechanisms: BTreeMap<String, BTreeSet<String>> = Class::ALL
        .iter()
        .map(|class| (class.name().to_owned(), BTreeSet::new()))
        .collect();
    for row in rows {
        if matches!(row.outcome, Outcome::Refused { .. }) && row.reach.holds && row.twin.holds {
            mechanisms
                .entry(row.class.name().to_owned())
                .or_default()
                .insert(row.mechanism.clone());
        }
    }
    mechanisms
}

fn missing_halves(
    rows: &[Row],
    register: Option<&RegisterHalf>,
    mechanisms: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut missing = Vec::new();
    match register {
        None => missing.push("the register was not checked against the source".into()),
        Some(half) => {
            if half.entries == 0 {
                missing.push("the register is empty".into());
            }
            missing.extend(half.drifts.iter().map(|drift| format!("register: {drift}")));
        }
    }
    for class in Class::ALL {
        let found = mechanisms.get(class.name()).map_or(0, BTreeSet::len);
        if found < MECHANISMS_MIN {
            missing.push(format!(
                "class `{class}` has {found} refused mechanisms with both controls; \
                 {MECHANISMS_MIN} are needed"
            ));
        }
    }
    for row in rows.iter().filter(|row| row.class != Class::Confinement) {
        match &row.outcome {
            Outcome::Inconclusive { why } => {
                missing.push(format!("`{}` is inconclusive: {why}", row.id));
            }
            Outcome::Refused { .. } if !(row.reach.holds && row.twin.holds) => {
                missing.push(format!("`{}` was refused without both controls", row.id));
            }
            Outcome::NotAttempted { need } => {
                missing.push(format!("`{}` was not attempted: it needs {need}", row.id));
            }
            Outcome::Reached { .. } | Outcome::Refused { .. } => {}
        }
    }
    missing
}

const STRUCTURAL: [&str; 2] = [
    "the procedure is asymmetric: the register needs access to the source, the attempts need only \
     a running service",
    "the procedure cannot prove absence: an edge that the scan misses makes the zone smaller, and \
     a trick that nobody attempted is not in the rows",
];

#[cfg(test)]
mod tests;

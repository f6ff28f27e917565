//! From outcomes to the status of property E: computed, never written by hand.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::row::{Class, Outcome, Row};

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
    /// The attempt that succeeds where the configuration is permitted.
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
    scope: Vec<String>,
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
    for row in &open {
        because.push(format!("`{}` reached the effect: {}", row.id, row.outcome));
    }
    let mechanisms = counted(rows);
    let missing = missing_halves(rows, register, &mechanisms);
    for row in rows {
        if let Outcome::NotAttempted { need } = &row.outcome {
            caveats.push(format!("`{}` was not attempted: it needs {need}", row.id));
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
    for row in rows {
        match &row.outcome {
            Outcome::Inconclusive { why } => {
                missing.push(format!("`{}` is inconclusive: {why}", row.id));
            }
            Outcome::Refused { .. } if !(row.reach.holds && row.twin.holds) => {
                missing.push(format!("`{}` was refused without both controls", row.id));
            }
            Outcome::NotAttempted { .. } | Outcome::Reached { .. } | Outcome::Refused { .. } => {}
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
mod tests {
    use super::*;
    use crate::evidence::row::Control;

    fn half() -> RegisterHalf {
        RegisterHalf {
            revision: "0".repeat(40),
            entries: 4,
            drifts: Vec::new(),
            limits: vec!["a limit".into()],
            zone: vec!["custody-bridge: in the session".into()],
        }
    }

    fn scope() -> Vec<String> {
        vec!["one host".into()]
    }

    fn control() -> Control {
        Control {
            holds: true,
            what: "seen".into(),
        }
    }

    fn row(class: Class, mechanism: &str) -> Row {
        Row {
            id: format!("{class}/{mechanism}"),
            class,
            mechanism: mechanism.into(),
            question: "may it?".into(),
            source: "a paper".into(),
            promised: vec!["seccomp".into()],
            outcome: Outcome::Refused {
                layer: "seccomp".into(),
                reason: "EPERM".into(),
            },
            reach: control(),
            twin: control(),
            legs: Vec::new(),
            expected: None,
            as_expected: true,
            notes: Vec::new(),
        }
    }

    fn rows() -> Vec<Row> {
        Class::ALL
            .into_iter()
            .flat_map(|class| ["a", "b", "c"].map(|mechanism| row(class, mechanism)))
            .collect()
    }

    fn status(rows: &[Row]) -> Status {
        compute(rows, Some(&half()), &[], scope()).status
    }

    #[test]
    fn both_halves_and_nothing_reached_is_a_pass_in_the_mandated_words() {
        let e = compute(&rows(), Some(&half()), &[], scope());
        assert_eq!((e.status, e.words.as_str()), (Status::Pass, PASS_WORDS));
        assert_eq!(e.limits, ["a limit"]);
        assert_eq!(e.scope, ["one host"]);
        assert_eq!(e.structural.len(), 2);
    }

    #[test]
    fn one_that_reached_is_a_fail_whatever_else_is_missing() {
        let mut rows = rows();
        rows[4].outcome = Outcome::Reached {
            proof: "the witness saw nonce 1".into(),
        };
        assert_eq!(status(&rows), Status::Fail);
        assert_eq!(compute(&rows, None, &[], scope()).status, Status::Fail);
        assert_eq!(
            compute(&rows[4..5], None, &[], scope()).status,
            Status::Fail
        );
    }

    #[test]
    fn a_missing_class_leaves_it_untested() {
        for class in Class::ALL {
            let rows: Vec<Row> = rows().into_iter().filter(|r| r.class != class).collect();
            let e = compute(&rows, Some(&half()), &[], scope());
            assert_eq!(e.status, Status::Untested);
            assert_eq!(e.status_v0_2, "NOT_ESTABLISHED");
            assert!(e.because[0].contains(class.name()), "{:?}", e.because);
        }
        assert_eq!(status(&[]), Status::Untested);
    }

    #[test]
    fn one_mechanism_in_three_rows_is_one_mechanism() {
        let mut rows = rows();
        for row in &mut rows {
            if row.class == Class::UnregisteredTool {
                row.mechanism = "same".into();
            }
        }
        assert_eq!(status(&rows), Status::Untested);
    }

    #[test]
    fn an_inconclusive_row_leaves_it_untested() {
        let mut rows = rows();
        rows.push(row(Class::UnregisteredTool, "d"));
        rows[15].outcome = Outcome::Inconclusive {
            why: "the twin failed".into(),
        };
        assert_eq!(status(&rows), Status::Untested);
    }

    #[test]
    fn a_refusal_without_both_controls_does_not_count() {
        for arm in [true, false] {
            let mut rows = rows();
            if arm {
                rows[0].reach.holds = false;
            } else {
                rows[0].twin.holds = false;
            }
            assert_eq!(status(&rows), Status::Untested);
        }
    }

    #[test]
    fn no_register_half_or_a_drift_leaves_it_untested() {
        assert_eq!(
            compute(&rows(), None, &[], scope()).status,
            Status::Untested
        );
        let drift = RegisterHalf {
            drifts: vec!["read but not listed".into()],
            ..half()
        };
        assert_eq!(
            compute(&rows(), Some(&drift), &[], scope()).status,
            Status::Untested
        );
        let empty = RegisterHalf {
            entries: 0,
            ..half()
        };
        assert_eq!(
            compute(&rows(), Some(&empty), &[], scope()).status,
            Status::Untested
        );
    }

    #[test]
    fn not_attempted_is_a_caveat_where_enough_mechanisms_remain_and_a_hole_where_not() {
        let mut rows = rows();
        let need = Outcome::NotAttempted {
            need: "vsock".into(),
        };
        rows.push(row(Class::AuthenticatedClient, "d"));
        rows[15].outcome = need.clone();
        let e = compute(&rows, Some(&half()), &[], scope());
        assert_eq!(e.status, Status::Pass);
        assert!(e.caveats[0].contains("vsock"));
        rows[0].outcome = need;
        assert_eq!(status(&rows), Status::Untested);
    }

    #[test]
    fn a_refused_configuration_needs_all_its_parts() {
        let mut rows = rows();
        rows.push(row(Class::ExtractedCallable, "d"));
        rows[15].outcome = Outcome::Reached {
            proof: "seen".into(),
        };
        let whole = RefusedConfiguration {
            attempt: rows[15].id.clone(),
            refused: vec!["in-process guard".into()],
            supported: vec!["sealed".into()],
            profile: "sealed".into(),
            test: "tests/profile.rs".into(),
            cannot_observe: "the network it sits on".into(),
        };
        assert_eq!(
            compute(&rows, Some(&half()), std::slice::from_ref(&whole), scope()).status,
            Status::OutOfScope
        );
        for part in 0..5 {
            let mut lacking = whole.clone();
            match part {
                0 => lacking.refused.clear(),
                1 => lacking.supported.clear(),
                2 => lacking.profile.clear(),
                3 => lacking.test.clear(),
                _ => lacking.cannot_observe.clear(),
            }
            assert_eq!(
                compute(&rows, Some(&half()), &[lacking], scope()).status,
                Status::Fail
            );
        }
    }
}

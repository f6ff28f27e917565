use custody_wire::profile::Profile;

use super::*;
use crate::evidence::row::{Class, Control, Expected, Leg};

fn leg(run: Isolation, layer: &str, outcome: LegOutcome) -> Leg {
    Leg {
        run,
        layer: layer.into(),
        outcome,
        saw: "seen".into(),
    }
}

pub(in crate::evidence) fn row(legs: Vec<Leg>) -> Row {
    let control = Control {
        holds: true,
        what: "seen".into(),
    };
    Row {
        id: "family/name".into(),
        class: Class::Confinement,
        kernel: "6.12".into(),
        profile: Profile::Standard,
        mechanism: "a trick".into(),
        question: "may it?".into(),
        source: "a paper".into(),
        promised: vec!["seccomp".into()],
        outcome: Outcome::Refused {
            layer: "seccomp".into(),
            reason: "EPERM".into(),
        },
        reach: control.clone(),
        twin: control,
        legs,
        expected: Some(Expected {
            outcome: "refused".into(),
            layers: vec!["seccomp".into()],
            ..Expected::default()
        }),
        as_expected: true,
        known_gap: None,
        beyond: None,
        single_legs: Vec::new(),
        observed: None,
        notes: Vec::new(),
    }
}

fn listed(mut row: Row, layer: &str) -> Row {
    if let Some(expected) = &mut row.expected {
        expected.single_legs = BTreeMap::from([(layer.into(), "by nature".into())]);
    }
    row
}

#[test]
fn a_single_leg_that_nobody_listed_is_named_and_fails_its_row() {
    let mut single = row(vec![leg(Isolation::AllBut, "seccomp", LegOutcome::Reached)]);
    single.single_legs = vec!["seccomp".into()];
    let found = of(std::slice::from_ref(&single), true).unlisted;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].layer, "seccomp");
    assert!(!single.comes_as_expected());

    let single = listed(single, "seccomp");
    assert_eq!(of(std::slice::from_ref(&single), true).unlisted, []);
    assert!(single.comes_as_expected());
}

#[test]
fn a_listed_leg_that_stands_alone_no_more_is_stale_where_the_matrix_is_whole() {
    let row = listed(
        row(vec![leg(Isolation::AllBut, "seccomp", LegOutcome::Refused)]),
        "seccomp",
    );
    assert_eq!(of(std::slice::from_ref(&row), true).stale.len(), 1);
    assert_eq!(of(&[row], false).stale, []);
}

#[test]
fn a_row_that_is_reached_nowhere_shows_nothing_and_is_named() {
    let mut row = row(vec![leg(Isolation::Only, "uid", LegOutcome::Refused)]);
    assert!(
        of(std::slice::from_ref(&row), true)
            .not_discriminating
            .is_empty()
    );
    row.reach.holds = false;
    assert_eq!(
        of(std::slice::from_ref(&row), true)
            .not_discriminating
            .len(),
        1
    );
    row.legs
        .push(leg(Isolation::Only, "landlock", LegOutcome::Reached));
    assert!(of(&[row], true).not_discriminating.is_empty());
}

#[test]
fn the_table_marks_what_refuses_alone_and_what_stands_alone() {
    let mut row = row(vec![
        leg(Isolation::Only, "landlock", LegOutcome::Reached),
        leg(Isolation::Only, "seccomp", LegOutcome::Refused),
        leg(Isolation::Only, "uid", LegOutcome::Refused),
        leg(Isolation::Only, "bpf_lsm", LegOutcome::NotRun),
    ]);
    row.single_legs = vec!["uid".into()];
    let table = of(&[row], true).table();
    assert!(table.ends_with("- . R !\n"), "{table}");
    assert!(table.contains("| | | uid\n"), "{table}");
}

use custody_wire::profile::Profile;

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
        kernel: "6.12".into(),
        profile: Profile::Standard,
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
        known_gap: None,
        beyond: None,
        single_legs: Vec::new(),
        observed: None,
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
        protected: true,
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
fn an_inconclusive_door_of_the_confinement_is_a_caveat() {
    let mut rows = rows();
    rows.push(row(Class::Confinement, "a door"));
    rows[15].outcome = Outcome::Inconclusive {
        why: "the reach arm does not reach".into(),
    };
    let e = compute(&rows, Some(&half()), &[], scope());
    assert_eq!(e.status, Status::Pass);
    assert!(e.caveats[0].contains("the reach arm"), "{:?}", e.caveats);
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
fn a_refused_configuration_needs_all_its_parts() {
    let mut rows = rows();
    rows.push(row(Class::ExtractedCallable, "d"));
    rows[15].outcome = Outcome::Reached {
        proof: "seen".into(),
        protected: true,
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

#[test]
fn a_known_gap_that_reaches_no_protected_effect_is_a_caveat_and_any_other_a_fail() {
    let with = |known_gap: Option<&str>, protected| {
        let mut rows = rows();
        for class in [Class::Confinement, Class::AuthenticatedClient] {
            let outcome = Outcome::Reached {
                proof: "a door opened".into(),
                protected,
            };
            rows.push(Row {
                outcome,
                known_gap: known_gap.map(String::from),
                ..row(class, "covert")
            });
        }
        compute(&rows, Some(&half()), &[], scope())
    };
    let admitted = with(Some("timing can be measured"), false);
    assert_eq!(admitted.status, Status::Pass);
    let of_gaps = |caveat: &&String| caveat.contains("timing can be measured");
    assert_eq!(admitted.caveats.iter().filter(of_gaps).count(), 2);
    assert_eq!(with(Some("timing"), true).status, Status::Fail);
    assert_eq!(with(None, false).status, Status::Fail);
}

#[test]
fn a_gap_outside_the_declared_zone_is_in_the_scope_with_every_attempt_that_reaches_it() {
    let mut rows = rows();
    for mechanism in ["later", "hook"] {
        let mut gap = row(Class::WithoutAuthorization, mechanism);
        gap.outcome = Outcome::Reached {
            proof: "the owner ran it".into(),
            protected: true,
        };
        gap.known_gap = Some("files are written in place".into());
        gap.beyond = Some("what the owner runs later".into());
        rows.push(gap);
    }
    let e = compute(&rows, Some(&half()), &[], scope());
    assert_eq!(e.status, Status::Pass);
    assert_eq!(
        e.scope.last().unwrap(),
        "outside the declared zone: what the owner runs later; attempts \
         `without_authorization/later`, `without_authorization/hook` reach it"
    );
    let caveats: Vec<_> = e
        .caveats
        .iter()
        .filter(|caveat| caveat.contains("reaches a protected effect outside the declared zone"))
        .collect();
    assert_eq!(caveats.len(), 2, "{:?}", e.caveats);

    // A sentence is no excuse for what is no known gap.
    rows[15].known_gap = None;
    assert_eq!(status(&rows), Status::Fail);
}

#[test]
fn one_of_the_five_that_was_not_attempted_leaves_it_untested_and_a_door_does_not() {
    let with = |class: Class| {
        let mut rows = rows();
        rows.push(row(class, "d"));
        rows[15].outcome = Outcome::NotAttempted {
            need: "io_uring".into(),
        };
        compute(&rows, Some(&half()), &[], scope())
    };
    for class in Class::ALL {
        let e = with(class);
        assert_eq!(e.status, Status::Untested);
        assert!(e.because[0].contains("not attempted"), "{:?}", e.because);
    }
    let door = with(Class::Confinement);
    assert_eq!(door.status, Status::Pass);
    assert!(door.caveats[0].contains("io_uring"), "{:?}", door.caveats);
}

#[test]
fn a_refused_configuration_is_a_caveat_with_its_blind_spot_and_covers_its_own_attempt() {
    let seen = |holds| refused::Seen {
        holds,
        words: "seen".into(),
    };
    let configuration = refused::Row {
        id: "host_network".into(),
        title: "the host's network".into(),
        refused_by: vec!["standard".into()],
        permitted_by: Vec::new(),
        test: "refused::host_network".into(),
        attempt: "refused/host-network".into(),
        attempted_under: "plan".into(),
        not_started: seen(true),
        reached_where_permitted: seen(false),
        still_refused: None,
        blind_spot: "nothing".into(),
    };
    let text = of_refused(&configuration);
    assert!(text.contains("refused by standard (shown)"), "{text}");
    assert!(text.contains("permitted (not shown)"), "{text}");
    let refusal = RefusedConfiguration::from(&configuration);
    assert!(refusal.is_whole());
    assert_eq!(refusal.attempt, "refused/host-network");
}

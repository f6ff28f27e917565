//! The bypass suite, as a test: every row as expected, both halves there, the mandated words.

use anyhow::Context as _;
use custody_tests::{
    evidence::{
        Evidence,
        row::{Isolation, LegOutcome, Outcome},
        status::{PASS_WORDS, Status},
    },
    ground, register,
    suite::{
        run,
        trial::{Ablate, NOT_THERE},
    },
};

/// Names the evidence of a whole run of the suite with these programs, made just before:
/// `cargo xtask test` has it judged here, and the suite is not run twice.
const EVIDENCE: &str = "CUSTODY_EVIDENCE";

/// The evidence of that run, or of one of our own.
#[expect(clippy::print_stdout, reason = "libtest says whose output it is")]
fn evidence() -> anyhow::Result<Evidence> {
    if let Some(file) = std::env::var_os(EVIDENCE) {
        let text = std::fs::read(&file).with_context(|| format!("{EVIDENCE}: {file:?}"))?;
        return Ok(serde_json::from_slice(&text)?);
    }
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let half = register::check(&source)?;
    let mut show = |row: &_| println!("{}", run::line(row));
    run::run(&run::Options::default(), Some(half), &mut show)
}

#[test]
#[serial_test::file_serial(custody)]
fn every_attempt_comes_as_expected_and_e_follows_from_the_rows() {
    if !ground::can_run() {
        return;
    }
    let evidence = evidence().unwrap();
    for row in &evidence.attempts {
        assert!(row.as_expected, "{}", run::line(row));
        if let Outcome::Refused { .. } = row.outcome {
            assert!(row.reach.holds && row.twin.holds, "{row:#?}");
        }
        if let Outcome::Reached { .. } = row.outcome {
            continue; // a known gap: no leg holds it, and there is none to be shown
        }
        for leg in &row.legs {
            let is_there = !leg.saw.starts_with(NOT_THERE);
            assert!(
                leg.outcome != LegOutcome::NotRun || !is_there,
                "{}: {leg:?}",
                row.id
            );
        }
    }
    let e = &evidence.e_status;
    assert_eq!(
        (e.status, e.words.as_str()),
        (Status::Pass, PASS_WORDS),
        "{e:#?}"
    );
    assert!(!e.limits.is_empty() && !evidence.non_claims.is_empty());
}

#[test]
#[serial_test::file_serial(custody)]
fn a_run_of_no_attempt_is_an_error_and_leaves_no_evidence() {
    if !ground::can_run() {
        return;
    }
    let options = run::Options {
        only: vec!["no such attempt".into()],
        ..run::Options::default()
    };
    let error = run::run(&options, None, &mut |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("no attempt was run"),
        "{error:#}"
    );
}

#[test]
#[serial_test::file_serial(custody)]
fn a_policy_that_gives_the_authority_away_is_seen_as_reached_and_fails() {
    if !ground::can_run() {
        return;
    }
    let verified = "authority = \"verified\"\nvalue = \"recipient\"";
    let payload = "authority = \"payload\"\ntype = \"email\"";
    let options = run::Options {
        only: vec!["gate/foreign-recipient".into()],
        policy: vec![(verified.into(), payload.into())],
        ..run::Options::default()
    };
    let evidence = run::run(&options, None, &mut |_| {}).unwrap();
    let row = &evidence.attempts[0];
    assert!(matches!(row.outcome, Outcome::Reached { .. }), "{row:#?}");
    assert!(!row.as_expected);
    assert_eq!(evidence.e_status.status, Status::Fail);
}

#[test]
#[serial_test::file_serial(custody)]
fn each_layer_is_taken_away_and_left_alone_by_itself_the_hooks_of_a_cgroup_too() {
    if !ground::can_run() {
        return;
    }
    let options = run::Options {
        only: vec!["deputy/unix-path".into(), "direct/tcp".into()],
        ablate: Ablate::all(),
        ..run::Options::default()
    };
    let evidence = run::run(&options, None, &mut |_| {}).unwrap();
    let outcome = |id: &str, run, layer: &str| {
        let row = evidence.attempts.iter().find(|row| row.id == id).unwrap();
        let legs = row.legs.iter();
        let leg = legs
            .filter(|leg| leg.run == run)
            .find(|leg| leg.layer == layer);
        leg.unwrap_or_else(|| panic!("{id}: no {run:?} {layer}"))
            .outcome
    };
    let tcp = |layer| outcome("direct/tcp", Isolation::Only, layer);
    assert_eq!(tcp("cgroup_inet"), LegOutcome::Refused);
    assert_eq!(tcp("cgroup_unix"), LegOutcome::Reached);
    let deputy = |layer| outcome("deputy/unix-path", Isolation::Only, layer);
    assert_eq!(deputy("cgroup_inet"), LegOutcome::Reached);
    assert_eq!(deputy("cgroup_unix"), LegOutcome::Refused);
    for id in ["deputy/unix-path", "direct/tcp"] {
        let nothing = outcome(id, Isolation::Nothing, "");
        assert_eq!(nothing, LegOutcome::Reached, "{id}");
        for layer in ["cgroup_inet", "cgroup_unix", "seccomp", "uid"] {
            let without = outcome(id, Isolation::AllBut, layer);
            assert_eq!(without, LegOutcome::Refused, "{id} without {layer}");
        }
    }
    assert_eq!(evidence.ablation.unlisted, []);
    assert!(evidence.ablation.not_discriminating.is_empty());
    assert!(evidence.host.hooks.len() >= 9, "{:?}", evidence.host.hooks);
}

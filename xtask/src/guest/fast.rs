//! The part that runs with every change: the tests of LSM programs, which the kernel of a host may
//! refuse, and some of the suite in the strictest profile.
//!
//! What it prints is read by [`crate::test`]: it ends with counts as libtest writes them.

use std::{fs, path::Path, time::Instant};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::{
    Options, Outcome, Series, missing, prepare, run,
    test_programs::{self, Scope},
};
use crate::{places::Places, say};

/// One kernel, the oldest that is supported.
const SERIES: &str = "6.12";

/// They need a kernel that takes LSM programs, and one whose cgroup2 has the controllers `memory` and
/// `pids`: a host may have them elsewhere.
const TESTS: [&str; 2] = ["custody-supervisor::lsm", "custody-tests::limits"];

/// Attempts that LSM programs refuse as a second lock, and few enough for an emulated machine.
const ATTEMPTS: &str = "deputy/";

/// Both in one boot. One that fails does not keep the other from running.
const BOTH: &str = r#"attempts=$1
shift
code=0
"$@" || code=$?
custody-bypass --profile hardened --only "$attempts" --json /output/evidence.json || code=$?
exit $code"#;

/// Where QEMU or a kernel cannot be had that is said, and nothing fails: what was not attempted is
/// in the summary.
pub(super) fn command(places: &Places) -> Result<()> {
    let series: Series = SERIES.parse()?;
    let ready = match missing() {
        Some(missing) => Err(format!("needs {missing}")),
        None => prepare(places, &series).map_err(|error| format!("{error:#}")),
    };
    if let Err(why) = ready {
        say::line(format_args!("not attempted: a guest: {why}"));
        say::line(Counts::skipped());
        return Ok(());
    }
    let output = super::emptied(places.target.join("guest/fast"))?;
    let names = TESTS.map(str::to_owned);
    let programs = test_programs::build(places, &names, Scope::Workspace)?;
    let tests = test_programs::command(&programs, &["--test-threads=1".to_owned()])?;
    let mut both: Vec<String> = ["/bin/sh", "-c", BOTH, "fast", ATTEMPTS]
        .map(str::to_owned)
        .to_vec();
    both.extend(tests);
    let started = Instant::now();
    let outcome = run(
        places,
        &Options {
            tests: programs,
            ..Options::new(series, output, both)
        },
    )?;
    judge(&outcome, started)
}

/// Makes `options` run the tests that need a stock kernel, and nothing else.
pub(crate) fn lsm_tests(places: &Places, options: &mut Options) -> Result<()> {
    let names = TESTS.map(str::to_owned);
    options.tests = test_programs::build(places, &names, Scope::Package)?;
    options.command = test_programs::command(&options.tests, &["--test-threads=1".to_owned()])?;
    Ok(())
}

/// A guest is there so that these tests run: what was not attempted in it has failed.
///
/// # Errors
/// Names the first reason.
pub(crate) fn all_attempted(outcome: &Outcome) -> Result<()> {
    let file = outcome.output.join("serial.log");
    let serial = fs::read_to_string(&file).with_context(|| format!("`{}`", file.display()))?;
    match not_attempted(&serial) {
        Some(why) => bail!("not attempted on kernel {}: {why}", outcome.kernel),
        None => Ok(()),
    }
}

fn not_attempted(serial: &str) -> Option<&str> {
    let mut lines = serial.lines();
    lines.find_map(|line| line.trim().strip_prefix("not attempted: "))
}

fn judge(outcome: &Outcome, started: Instant) -> Result<()> {
    let counts = Counts::of(&outcome.output.join("evidence.json"))?;
    say::line(format_args!(
        "{counts}; finished in {:.2}s",
        started.elapsed().as_secs_f64()
    ));
    if outcome.code != 0 {
        bail!(
            "exit status {} on kernel {}; see `{}`",
            outcome.code,
            outcome.kernel,
            outcome.output.display()
        );
    }
    all_attempted(outcome)?;
    if counts.passed == 0 {
        bail!("the suite attempted nothing that begins with `{ATTEMPTS}`");
    }
    Ok(())
}

/// Rows of the suite, each counted as a test.
#[derive(Debug, Default, Eq, PartialEq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

#[derive(Deserialize)]
struct Evidence {
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    as_expected: bool,
    outcome: String,
}

impl Counts {
    fn of(evidence: &Path) -> Result<Self> {
        let text = fs::read_to_string(evidence)
            .with_context(|| format!("the suite left no `{}`", evidence.display()))?;
        let evidence: Evidence = serde_json::from_str(&text).context("the suite's evidence")?;
        let mut counts = Self::default();
        for row in &evidence.attempts {
            let of_kind = match (row.as_expected, row.outcome.as_str()) {
                (false, _) => &mut counts.failed,
                // As expected, and nothing was shown by it.
                (true, "not_attempted") => &mut counts.ignored,
                (true, _) => &mut counts.passed,
            };
            *of_kind += 1;
        }
        Ok(counts)
    }

    const fn skipped() -> Self {
        Self {
            passed: 0,
            failed: 0,
            ignored: 1,
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.failed == 0 { "ok" } else { "FAILED" };
        write!(
            f,
            "test result: {word}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out",
            self.passed, self.failed, self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_was_not_attempted_in_a_guest_is_found() {
        assert_eq!(not_attempted("test a ... ok\r\n"), None);
        let serial = "---- a stdout ----\r\nnot attempted: needs root\r\n";
        assert_eq!(not_attempted(serial), Some("needs root"));
    }

    #[test]
    fn a_row_is_counted_as_a_test_and_one_that_was_not_attempted_as_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("evidence.json");
        fs::write(
            &file,
            r#"{"format":"x","attempts":[
                {"as_expected":true,"outcome":"refused"},
                {"as_expected":true,"outcome":"not_attempted"},
                {"as_expected":false,"outcome":"refused","id":"a"}
            ]}"#,
        )
        .unwrap();
        let counts = Counts::of(&file).unwrap();
        assert_eq!((counts.passed, counts.failed, counts.ignored), (1, 1, 1));
        assert!(
            counts
                .to_string()
                .starts_with("test result: FAILED. 1 passed; 1 failed; 1 ignored")
        );
        assert!(Counts::of(&folder.path().join("none")).is_err());
    }
}

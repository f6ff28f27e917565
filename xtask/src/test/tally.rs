//! Reads what test runners print, and adds it up.

use std::fmt;

/// Counts, and what was not attempted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Test, why.
    pub(crate) not_attempted: Vec<(String, String)>,
    section: Section,
    /// Whose output is being shown.
    test: Option<String>,
}

/// Where in the output of libtest we are.
#[derive(Debug, Default, Eq, PartialEq)]
enum Section {
    #[default]
    Running,
    /// The output of tests that passed.
    Successes,
    /// The output of tests that failed.
    Failures,
}

impl Tally {
    /// Takes one line; says whether a person wants to see it.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.result(counts);
            self.section = Section::Running;
            self.test = None;
            return !counts.starts_with("ok. 0 passed; 0 failed; 0 ignored");
        }
        match line {
            "successes:" => self.section = Section::Successes,
            "failures:" => self.section = Section::Failures,
            _ => {}
        }
        if let Some(test) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" ----"))
        {
            self.test = Some(test.trim_end_matches(" stdout").to_owned());
        }
        if let Some(why) = line.trim_start().strip_prefix("not attempted: ") {
            self.not_attempted(why);
        }
        match self.section {
            Section::Running => !is_routine(line),
            Section::Successes => false,
            Section::Failures => true,
        }
    }

    /// A stage failed; if its runner counted no failure, that is one.
    pub(crate) fn stage_failed(&mut self) {
        self.failed = self.failed.max(1);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.not_attempted.extend(other.not_attempted);
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s`
    fn result(&mut self, counts: &str) {
        for part in counts.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(word)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
        // They were among those that passed, and are not.
        let unmoved = self
            .not_attempted
            .iter_mut()
            .filter(|(test, _)| test.starts_with(PENDING));
        for (test, _) in unmoved {
            *test = test.split_off(PENDING.len());
            self.passed = self.passed.saturating_sub(1);
            self.skipped += 1;
        }
    }

    fn not_attempted(&mut self, why: &str) {
        let why = why.trim().to_owned();
        match (&self.section, &self.test) {
            // libtest counts it as passed; it is moved when the count is known.
            (Section::Successes, Some(test)) => {
                let test = format!("{PENDING}{test}");
                if self
                    .not_attempted
                    .last()
                    .is_none_or(|(last, _)| *last != test)
                {
                    self.not_attempted.push((test, why));
                }
            }
            (Section::Running | Section::Failures, _) | (Section::Successes, None) => {
                self.not_attempted.push(("runner".to_owned(), why));
            }
        }
    }
}

/// What says nothing to a person while tests run: tests that pass, runners without a test.
fn is_routine(line: &str) -> bool {
    let test = line.starts_with("test ") && (line.ends_with(" ok") || line.contains("... ignored"));
    let heads = ["running ", "Compiling ", "Doc-tests ", "Running unittests "];
    let head = heads.iter().any(|head| line.trim_start().starts_with(head));
    test || head || line.is_empty()
}

/// Marks a test whose count is still among those that passed.
const PENDING: &str = "\u{0}";

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        for line in text.lines() {
            tally.read(line);
        }
        tally
    }

    const TWO_RUNNERS: &str = "\
running 3 tests
test a ... ok
test b ... ok
test c ... ignored, slow

successes:

---- a stdout ----
not attempted: needs root
not attempted: needs a second thing

---- b stdout ----
well

successes:
    a
    b

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
test d ... FAILED

failures:

---- d stdout ----
not attempted: never mind

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";

    #[test]
    fn runners_are_added_up_and_a_test_that_attempted_nothing_is_skipped() {
        let tally = tally(TWO_RUNNERS);
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 2 skipped");
        assert_eq!(
            tally.not_attempted[0],
            ("a".to_owned(), "needs root".to_owned())
        );
    }

    #[test]
    fn a_stage_that_fails_without_a_count_is_one_failure() {
        let mut none = tally("error[E0308]: mismatched types\n");
        none.stage_failed();
        assert_eq!(none.to_string(), "0 passed, 1 failed, 0 skipped");
        let mut one = tally(TWO_RUNNERS);
        one.stage_failed();
        assert_eq!(one.failed, 1);
    }

    #[test]
    fn what_passed_is_not_shown_and_what_failed_is() {
        let mut tally = Tally::default();
        assert!(!tally.read("test a ... ok"));
        assert!(tally.read("test a ... FAILED"));
        assert!(tally.read("error: no such command"));
    }
}

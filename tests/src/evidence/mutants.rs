//! What each attempt came to without the rule that is promised to refuse it, as committed data.
//!
//! `fixtures/mutants.json` is written by `cargo xtask mutants --write`: a build of its own in which
//! one rule is off, and the attempts that name it in an installation of those programs.

use serde::{Deserialize, Serialize};

const FILE: &str = include_str!("../../../fixtures/mutants.json");

/// The version of the file's format.
pub const FORMAT: &str = "custody-mutants/2";

/// The committed file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// [`FORMAT`].
    pub format: String,
    /// The mutants that were run.
    pub mutants: Vec<Run>,
}

/// One mutant, or several together.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its name; several are joined by `+`.
    pub mutant: String,
    /// Which of the separable properties A to G that is a part of, or `-`; several are joined by `+`.
    pub letter: String,
    /// The property that is gone.
    pub property: String,
    /// What noticed, or did not.
    pub tests: Vec<Test>,
}

/// A test or an attempt, under a mutant.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The attempt, or the tests as `package::module::`.
    pub test: String,
    /// Whether it noticed: a test failed, the attempt reached.
    pub killed: bool,
    /// What was seen.
    pub saw: String,
}

/// What a row says of its mutant.
pub(crate) fn said(mutant: &str, attempt: &str) -> String {
    let file: Option<File> = serde_json::from_str(FILE).ok();
    let found = file.and_then(|file| {
        let run = file.mutants.into_iter().find(|run| run.mutant == mutant)?;
        run.tests.into_iter().find(|test| test.test == attempt)
    });
    match found {
        // A test refuses such a file.
        None => format!("not ablated; mutant {mutant}, which was not run yet"),
        Some(test) if test.killed => format!(
            "not ablated; mutant {mutant}: without the rule it is reached: {}",
            test.saw
        ),
        Some(test) => format!(
            "not ablated; mutant {mutant}: without the rule it is not reached either: {}",
            test.saw
        ),
    }
}

#[cfg(test)]
mod tests {
    use gate::mutant::{Letter, Mutant};

    use super::*;
    use crate::attempts;

    fn file() -> File {
        serde_json::from_str(FILE).unwrap()
    }

    #[test]
    fn every_mutant_that_there_is_was_run_and_something_noticed_it() {
        let file = file();
        assert_eq!(file.format, FORMAT);
        for mutant in Mutant::ALL {
            let runs = file.mutants.iter();
            let noticed = runs
                .filter(|run| run.mutant.split('+').any(|name| name == mutant.name()))
                .flat_map(|run| &run.tests)
                .any(|test| test.killed);
            let again = "run `cargo xtask mutants --write`";
            assert!(noticed, "{}: {again}", mutant.name());
        }
    }

    #[test]
    fn each_property_is_noticed_when_it_is_taken_away_and_the_file_says_which() {
        let file = file();
        for run in &file.mutants {
            let names = run.mutant.split('+');
            let mutants = names.filter_map(|name| Mutant::ALL.iter().find(|it| it.name() == name));
            let letters: Vec<&str> = mutants.map(|it| it.letter().as_str()).collect();
            assert_eq!(run.letter, letters.join("+"), "{}", run.mutant);
        }
        for letter in Letter::ALL {
            let of_it = |run: &&Run| run.letter == letter.as_str();
            let killed = |run: &Run| run.tests.iter().any(|test| test.killed);
            let noticed = file.mutants.iter().filter(of_it).any(killed);
            assert!(noticed, "{letter:?}");
        }
    }

    #[test]
    fn every_mutant_that_an_attempt_names_is_there_and_was_run_with_it() {
        let file = file();
        for attempt in attempts::all() {
            let Some(named) = attempt.mutant() else {
                continue;
            };
            for name in named.split('+') {
                let is_there = Mutant::ALL.iter().any(|it| it.name() == name);
                assert!(is_there, "{}: there is no mutant `{name}`", attempt.id);
            }
            let mut runs = file.mutants.iter().filter(|run| run.mutant == named);
            let was_run = runs.any(|run| run.tests.iter().any(|test| test.test == attempt.id));
            assert!(was_run, "{}: run `cargo xtask mutants --write`", attempt.id);
        }
    }

    #[test]
    fn every_attempt_under_a_mutant_is_one_that_names_it() {
        for run in file().mutants {
            for test in run.tests.iter().filter(|test| !test.test.contains("::")) {
                let attempt = attempts::all().into_iter().find(|it| it.id == test.test);
                let attempt = attempt.unwrap_or_else(|| panic!("no attempt `{}`", test.test));
                assert_eq!(attempt.mutant(), Some(&*run.mutant), "{}", test.test);
            }
        }
    }
}

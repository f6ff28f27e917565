//! The peer's public corpus: its figures and ours.

use std::{collections::BTreeMap, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{answers::Theirs, compare::Authority};
use crate::{bench::python, places::Places, say, stage};

/// Where it lies.
pub(super) const FILE: &str = "fixtures/authority/outside/verb-authority/schema_corpus.json";

/// A scanner's figures on the corpus.
#[derive(Debug, Default, Deserialize)]
struct Figures {
    policies: usize,
    policy_matches: usize,
    policies_wrongly_free: usize,
    policies_wrongly_locked: usize,
    decisions: usize,
    decision_matches: usize,
    wrongly_allowed: usize,
    wrongly_stopped: usize,
}

/// What the corpus's file expects.
#[derive(Deserialize)]
struct Case {
    id: String,
    expected: CaseExpected,
    #[serde(default)]
    calls: Vec<CaseCall>,
}

#[derive(Deserialize)]
struct CaseExpected {
    policy: BTreeMap<String, Authority>,
}

#[derive(Deserialize)]
struct CaseCall {
    id: String,
    expected: String,
}

impl Figures {
    fn of(theirs: &Theirs, corpus: &Value) -> Result<Self> {
        let cases = corpus
            .get("cases")
            .cloned()
            .context("a corpus without cases")?;
        let cases: Vec<Case> = serde_json::from_value(cases).context("the corpus")?;
        let mut figures = Self::default();
        for case in &cases {
            let judged = theirs
                .corpus
                .get(&case.id)
                .context("a case without an answer")?;
            for (argument, expected) in &case.expected.policy {
                let found = judged
                    .authority
                    .get(argument)
                    .context("an argument without an answer")?;
                figures.policy(*expected, *found);
            }
            for call in &case.calls {
                let found = judged
                    .decisions
                    .get(&call.id)
                    .context("a call without an answer")?;
                figures.decision(&call.expected, found);
            }
        }
        Ok(figures)
    }

    fn policy(&mut self, expected: Authority, found: Authority) {
        self.policies += 1;
        match (expected, found) {
            (a, b) if a == b => self.policy_matches += 1,
            (Authority::Locked, _) => self.policies_wrongly_free += 1,
            (_, Authority::Locked) => self.policies_wrongly_locked += 1,
            (_, _) => {}
        }
    }

    fn decision(&mut self, expected: &str, found: &str) {
        self.decisions += 1;
        match (expected, found) {
            (a, b) if a == b => self.decision_matches += 1,
            ("block", _) => self.wrongly_allowed += 1,
            (_, "block") => self.wrongly_stopped += 1,
            (_, _) => {}
        }
    }
}

pub(super) fn print(places: &Places, theirs: &Theirs, corpus: &Value) -> Result<()> {
    let program = places.target.join("release/examples/corpus");
    let said = stage::output(Command::new(program).arg(places.root.join(FILE)))?;
    let ours: Figures = serde_json::from_str(&said).context("our figures")?;
    say::step(
        "the peer's public corpus; our decisions are those of the gate, under a policy made from the scan",
    );
    say::line(format_args!(
        "{:26} {:>9} {:>13} {:>15} {:>10} {:>15} {:>15}",
        "",
        "policies",
        "wrongly free",
        "wrongly locked",
        "decisions",
        "wrongly allowed",
        "wrongly stopped"
    ));
    for (name, figures) in [
        ("custody", &ours),
        (python::VERB_AUTHORITY.0, &Figures::of(theirs, corpus)?),
    ] {
        say::line(format_args!(
            "{name:26} {:>9} {:>13} {:>15} {:>10} {:>15} {:>15}",
            format!("{}/{}", figures.policy_matches, figures.policies),
            figures.policies_wrongly_free,
            figures.policies_wrongly_locked,
            format!("{}/{}", figures.decision_matches, figures.decisions),
            figures.wrongly_allowed,
            figures.wrongly_stopped
        ));
    }
    ensure!(
        ours.policies_wrongly_free == 0 && ours.wrongly_allowed == 0,
        "ours frees or allows what the corpus locks"
    );
    Ok(())
}

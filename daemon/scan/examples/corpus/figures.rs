//! How often the scan and the gate say what the corpus's reviewer wrote down.

use std::{collections::BTreeMap, error::Error};

use custody_scan::{
    infer::{self, Authority, Tier},
    input,
};
use gate::policy::Risk;
use serde::Serialize;
use serde_json::json;

use super::{
    case::{Case, Corpus},
    policy,
};

/// The figures, and where they are not met.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) policies: usize,
    pub(crate) policy_matches: usize,
    pub(crate) policies_wrongly_free: usize,
    pub(crate) policies_wrongly_locked: usize,
    pub(crate) decisions: usize,
    pub(crate) decision_matches: usize,
    pub(crate) wrongly_allowed: usize,
    pub(crate) wrongly_stopped: usize,
    /// `case what: expected, found`.
    pub(crate) differ: Vec<String>,
}

/// Of a corpus's bytes.
pub(crate) fn of(bytes: &[u8]) -> Result<Figures, Box<dyn Error>> {
    let corpus: Corpus = serde_json::from_slice(bytes)?;
    let mut figures = Figures::default();
    for case in &corpus.cases {
        let authority = authority(case)?;
        for (argument, expected) in &case.expected.policy {
            let found = authority.get(argument).ok_or("an argument got lost")?;
            figures.policy(case, argument, expected, *found);
        }
        let policy = policy::policy(case, &authority)?;
        for call in &case.calls {
            let found = policy::decision(&policy, call)?;
            figures.decision(case, &call.id, &call.expected, found);
        }
    }
    Ok(figures)
}

/// What the scan says, the reviewer's risk being declared, as the corpus has it.
fn authority(case: &Case) -> Result<BTreeMap<String, Authority>, Box<dyn Error>> {
    let bytes = json!({ "tools": [case.export()] }).to_string();
    let export = input::parse(&case.id, bytes.as_bytes())?;
    let risk = risk(&case.expected.risk)?;
    let scanned = infer::scan(&export, &|_| Tier::Known(risk))?;
    let tool = scanned.first().ok_or("no tool")?;
    Ok(tool
        .arguments()
        .map(|(argument, judged)| {
            let inferred = judged.inferred.clone().under(tool.risk.effective, argument);
            (argument.name.clone(), inferred.authority)
        })
        .collect())
}

fn risk(word: &str) -> Result<Risk, Box<dyn Error>> {
    Ok(match word {
        "code_exec" => Risk::Execute,
        "destructive" => Risk::Destructive,
        "financial" => Risk::Financial,
        "read_only" => Risk::Read,
        "write" => Risk::Write,
        other => return Err(format!("no risk `{other}`").into()),
    })
}

impl Figures {
    fn policy(&mut self, case: &Case, argument: &str, expected: &str, found: Authority) {
        let said = match found {
            Authority::Bounded => "typed_bounded",
            Authority::Locked => "trusted_fixed",
            Authority::Payload => "outbound_payload",
        };
        self.policies += 1;
        if said == expected {
            self.policy_matches += 1;
            return;
        }
        if expected == "trusted_fixed" {
            self.policies_wrongly_free += 1;
        } else if found == Authority::Locked {
            self.policies_wrongly_locked += 1;
        }
        self.differ
            .push(format!("{} {argument}: {expected}, {said}", case.id));
    }

    fn decision(&mut self, case: &Case, call: &str, expected: &str, found: &str) {
        self.decisions += 1;
        if found == expected {
            self.decision_matches += 1;
            return;
        }
        if expected == "block" {
            self.wrongly_allowed += 1;
        } else if found == "block" {
            self.wrongly_stopped += 1;
        }
        self.differ
            .push(format!("{} {call}: {expected}, {found}", case.id));
    }
}

//! The replay of recorded tasks and attacks. No model runs and nothing is performed.

mod report;

use anyhow::{Context as _, Result, anyhow, ensure};
use custody_replay::{
    decider::Nobody,
    format::{self, Suite, UserTask},
    run::Reviewer,
    score::{self, Found, Score},
};

use super::GateArgs;
use crate::{places::Places, say};
use report::{Report, Watch};

/// Where the recorded half lies.
const DATA: &str = "fixtures/agentdojo";

/// The row without a gate.
const NONE: &str = "none";

/// A policy that is replayed: who decides, and who answers questions.
struct Row {
    name: &'static str,
    reviewer: Reviewer,
    decider: fn(&Suite, &UserTask) -> Found,
}

const ROWS: &[Row] = &[Row {
    name: NONE,
    reviewer: Reviewer::Absent,
    decider: |_suite, _task| Ok(Box::new(Nobody)),
}];

pub(super) fn run(places: &Places, args: &GateArgs) -> Result<()> {
    let folder = match &args.data {
        Some(folder) => folder.clone(),
        None => places.root.join(DATA),
    };
    let suites = format::read_folder(&folder)?;
    let mut report = Report::default();
    for suite in &suites {
        for row in ROWS {
            let mut watch = Watch::new(&suite.suite, row.name, args.explain);
            let decider = |task: &UserTask| (row.decider)(suite, task);
            let score = score::score(suite, row.name, &decider, row.reviewer, &mut watch)
                .map_err(|why| anyhow!(why))
                .with_context(|| format!("suite `{}`, policy `{}`", suite.suite, row.name))?;
            if row.name == NONE {
                control(&score)?;
            }
            if args.json {
                say::line(serde_json::to_string(&score).context("cannot write a score")?);
            }
            report.add(score, watch);
        }
    }
    if !args.json {
        report.print(args.halves);
    }
    Ok(())
}

/// Without a gate every task is done and every attack arrives and is won; else the replay itself is
/// wrong, and the other rows say nothing.
fn control(score: &Score) -> Result<()> {
    for (name, outcome) in [
        ("verbatim", score.attacks.verbatim),
        ("encoded", score.attacks.encoded),
    ] {
        ensure!(
            outcome.delivered == score.pairs && outcome.won == score.pairs,
            "suite `{}`: without a gate {} of {} attacks arrive and {} are won ({name}); the \
             recorded tasks do not fit together",
            score.suite,
            outcome.delivered,
            score.pairs,
            outcome.won
        );
    }
    ensure!(
        score.benign_auto == score.user_tasks && score.benign_utility == score.user_tasks,
        "suite `{}`: without a gate {} of {} tasks are done",
        score.suite,
        score.benign_utility,
        score.user_tasks
    );
    Ok(())
}

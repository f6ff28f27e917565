//! The replay of recorded tasks and attacks. No model runs and nothing is performed.

mod policies;
mod report;

use anyhow::{Context as _, Result, anyhow, ensure};
use custody_replay::{
    custody::Custody,
    decider::Nobody,
    format::{self, Suite, UserTask},
    generate::{Additions, Without},
    run::Reviewer,
    score::{self, Found, Score},
};
use gate::{id::ToolName, policy::Policy, session::Scope};

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
    decider: for<'a> fn(&'a Policy, &UserTask) -> Found<'a>,
}

const ROWS: &[Row] = &[
    Row {
        name: NONE,
        reviewer: Reviewer::Absent,
        decider: |_policy, _task| Ok(Box::new(Nobody)),
    },
    Row {
        name: "custody",
        reviewer: Reviewer::Absent,
        decider: |policy, _task| Ok(Box::new(gate(policy)?)),
    },
    // What a host application that knows its task may say before the agent starts: an oracle here.
    Row {
        name: "custody+scope",
        reviewer: Reviewer::Absent,
        decider: |policy, task| Ok(Box::new(gate(policy)?.within(scope(task)?))),
    },
    Row {
        name: "custody+reviewer",
        reviewer: Reviewer::Oracle,
        decider: |policy, _task| Ok(Box::new(gate(policy)?)),
    },
];

pub(super) fn run(places: &Places, args: &GateArgs) -> Result<()> {
    let ours = places.root.join(DATA);
    let suites = format::read_folder(args.data.as_deref().unwrap_or(&ours))?;
    let additions = policies::additions(&ours)?;
    if args.write_policies {
        return suites
            .iter()
            .try_for_each(|suite| policies::write(&ours, suite, &additions));
    }
    let mut report = Report::default();
    for suite in &suites {
        let policy = policies::of(&ours, suite, &additions)?;
        for row in ROWS {
            let mut watch = Watch::new(&suite.suite, row.name, args.explain);
            let decider = |task: &UserTask| (row.decider)(&policy, task);
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
        if args.curve {
            for without in Without::ALL {
                curve(suite, &additions, without, &mut report)?;
            }
        }
    }
    if !args.json {
        report.print(args.halves);
    }
    Ok(())
}

/// What the gate does with one of its rules left out of the policies.
fn curve(
    suite: &Suite,
    additions: &Additions,
    without: Without,
    report: &mut Report,
) -> Result<()> {
    let policy = policies::without(suite, additions, without)?;
    let name = format!("without {}", without.as_str());
    let mut watch = Watch::new(&suite.suite, &name, false);
    let decider = |_task: &UserTask| -> Found<'_> { Ok(Box::new(gate(&policy)?)) };
    let score = score::score(suite, &name, &decider, Reviewer::Absent, &mut watch)
        .map_err(|why| anyhow!(why))
        .with_context(|| format!("suite `{}`, {name}", suite.suite))?;
    report.add(score, watch);
    Ok(())
}

/// The tools that the task's own calls use, each as often.
/// The gate under a policy of a suite, which names no rules of an operator's.
fn gate(policy: &Policy) -> Result<Custody<'_>, String> {
    Custody::new(policy).map_err(|error| error.to_string())
}

fn scope(task: &UserTask) -> Result<Scope, String> {
    let mut scope = Scope::default();
    for call in &task.calls {
        let tool = ToolName::parse(&call.tool).map_err(|error| error.to_string())?;
        let calls = scope.tools.entry(tool).or_default().calls.get_or_insert(0);
        *calls = calls.saturating_add(1);
    }
    Ok(scope)
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

//! `test`: all checks and tests, each stage with a time limit, one sum at the end.
//!
//! The last line is `N passed, N failed, N skipped`. A stage that fails counts as one failure if
//! its runner counted none. A test that says `not attempted:` is skipped, not passed, and listed.
//!
//! Stages that wait for the network run beside those that compile; what they say is shown in their
//! turn. All programs and tests are compiled once, by the stage `build`, with the same features.

use std::{
    fs,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike as _},
};

use crate::{places::Places, say, stage};

mod beside;
mod stages;
mod tally;

use beside::{Ended, all};
use stages::Stage;
use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these stages
    #[arg(long = "stage", value_enum)]
    stages: Vec<Stage>,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    let logs = places.target.join("test-logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make `{}`", logs.display()))?;

    let started = Instant::now();
    let chosen: Vec<Stage> = Stage::ALL
        .into_iter()
        .filter(|stage| args.stages.is_empty() || args.stages.contains(stage))
        .collect();
    let evidence = stages::evidence(places);
    let judged = chosen.contains(&Stage::Bypass).then_some(&*evidence);
    if judged.is_some() && evidence.exists() {
        // Of a run that leaves none the test says so.
        fs::remove_file(&evidence).context("cannot remove the older evidence")?;
    }
    let mut total = Tally::default();
    let mut lines = Vec::new();
    all(places, &chosen, judged, |stage, ended| {
        let Ended {
            tally, why, took, ..
        } = ended;
        let word = if tally.failed == 0 { "ok" } else { "FAILED" };
        lines.push(format!(
            "    {:8} {word:7} {:>5} s   {tally}",
            stage.name(),
            took.as_secs()
        ));
        if stage == Stage::Unprivileged {
            total.failed += tally.failed;
        } else {
            total.add(tally);
        }
        if stage::interrupted() {
            bail!("interrupted");
        }
        // What follows would only repeat it.
        let useless = why.is_some() && matches!(stage, Stage::Setup | Stage::Build);
        Ok(if useless {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;

    say::step("summary");
    lines.iter().for_each(say::line);
    say::line(format_args!(
        "    {:8}         {:>5} s   some stages ran side by side; processors {} s",
        "whole",
        started.elapsed().as_secs(),
        processors()?.as_secs()
    ));
    if !total.not_attempted.is_empty() {
        say::line("    not attempted:");
        for (test, why) in &total.not_attempted {
            say::line(format_args!("      {test}: {why}"));
        }
    }
    let wants_tests = args.stages.is_empty() || args.stages.contains(&Stage::Tests);
    if wants_tests && total.passed == 0 {
        say::line("    no test passed: that is an error");
        total.failed = total.failed.max(1);
    }
    say::line(&total);
    if total.failed > 0 {
        bail!("{} failed", total.failed);
    }
    Ok(())
}

/// The time of processors that all stages took together (getrusage(2)).
fn processors() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let time = |value: TimeVal| {
        let micros = value.num_microseconds();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

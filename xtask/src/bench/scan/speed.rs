//! How long both take for large exports.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result};
use nix::sys::resource::UsageWho;

use super::large;
use crate::{
    bench::{
        launch::cpu_of,
        python,
        series::{self, Series},
    },
    say, stage,
};

/// How many whole runs of a scanner are timed, beside the first: it is not counted.
const RUNS: usize = 10;

/// Whole runs of both, taken by turns: from the start of the process to the report in a file.
pub(super) fn compare(folder: &Path, environment: &Path, custody: &Path) -> Result<()> {
    let both = Sizes::write(folder, "half.json", large::TOOLS / 2)?;
    let whole = Sizes::write(folder, "large.json", large::TOOLS)?;
    let report = folder.join("report.json");
    let python = environment.join("bin/python");
    let ours = |export: &Sizes| {
        let mut command = Command::new(custody);
        command
            .arg("scan")
            .arg(&export.path)
            .args(["--format", "json", "--output"]);
        command.arg(&report);
        command
    };
    let theirs = |export: &Sizes| {
        let mut command = Command::new(&python);
        command
            .args(["-I", "-m", "verb_authority", "scan"])
            .arg(&export.path);
        command.args(["--format", "json", "--output"]).arg(&report);
        command
    };
    say::step(format_args!(
        "from start to end, {RUNS} runs each, taken by turns"
    ));
    let mut all = [
        Series::new(format!("custody scan, {both}")),
        Series::new(format!("{}, {both}", python::VERB_AUTHORITY.0)),
        Series::new(format!("custody scan, {whole}")),
        Series::new(format!("{}, {whole}", python::VERB_AUTHORITY.0)),
    ];
    let refused = stage::output(&mut theirs(&whole)).err();
    for run in 0..=RUNS {
        let mut commands = vec![ours(&both), theirs(&both), ours(&whole)];
        if refused.is_none() {
            commands.push(theirs(&whole));
        }
        for (series, command) in all.iter_mut().zip(&mut commands) {
            let before = cpu_of(UsageWho::RUSAGE_CHILDREN)?;
            let begin = Instant::now();
            stage::output(command)?;
            if run > 0 {
                series.push(begin.elapsed());
                let cpu = cpu_of(UsageWho::RUSAGE_CHILDREN)?;
                series.add_cpu(cpu.saturating_sub(before));
            }
        }
    }
    let measured = if refused.is_none() {
        all.len()
    } else {
        all.len() - 1
    };
    series::compare(all.get(..measured).unwrap_or_default());
    if let Some(error) = refused {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        say::line(format_args!(
            "{}, {whole}: refused: {why}",
            python::VERB_AUTHORITY.0
        ));
    }
    Ok(())
}

/// A generated export.
struct Sizes {
    path: PathBuf,
    tools: usize,
}

impl Sizes {
    fn write(folder: &Path, name: &str, tools: usize) -> Result<Self> {
        let path = folder.join(name);
        fs::write(&path, large::export(tools).to_string()).context("cannot write an export")?;
        Ok(Self { path, tools })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} arguments", self.tools * large::ARGUMENTS)
    }
}

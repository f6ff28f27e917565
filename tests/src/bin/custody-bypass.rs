//! `custody-bypass`: attacks an installation of its own and writes down what happened.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::Context as _;
use clap::Parser;
use custody_tests::{
    attempts,
    evidence::{
        Evidence,
        status::{RegisterHalf, Status},
    },
    register,
    suite::run,
};
use nix::sys::signal::{SigSet, Signal};

/// Attacks an installation of its own, made from the programs beside it, and writes evidence.
///
/// Nothing of a real installation is touched. Exit status: 0 where every row came as expected
/// and nothing was reached; 1 otherwise; 2 for a wrong command line. A run that could not start
/// confinement leaves no evidence.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where the evidence is written
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only attempts whose id begins with this; the status is then untested
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// List the attempts and run none
    #[arg(long)]
    list: bool,
    /// The register's half, as `custody-register --json` wrote it. By default it is made anew in
    /// the source tree that this runs in; elsewhere `register.json` beside this program is taken
    #[arg(long, value_name = "FILE")]
    register: Option<PathBuf>,
    /// Show each layer's own run too
    #[arg(long)]
    legs: bool,
}

/// Whether someone asked for the end.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// An interrupted run cleans up what it put on the host, instead of leaving it.
fn watch_signals() -> anyhow::Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    // Before there is another thread: each inherits the mask (pthread_sigmask(3)).
    signals.thread_block()?;
    let _detached = thread::Builder::new().spawn(move || {
        if signals.wait().is_ok() {
            STOPPED.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(())
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    watch_signals()?;
    let mut out = io::stdout().lock();
    if options.list {
        for attempt in attempts::all() {
            writeln!(out, "{:<28} {}", attempt.id, attempt.question)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let half = half(&options)?;
    let legs = options.legs;
    let mut show = |row: &_| {
        let text = run::line(row);
        let text = if legs {
            text.as_str()
        } else {
            text.lines().next().unwrap_or("")
        };
        // Whoever closed standard output still gets the evidence.
        drop(writeln!(out, "{text}"));
    };
    let evidence = run::run(
        &run::Options {
            only: options.only,
            policy: Vec::new(),
            stopped: Some(&STOPPED),
        },
        half,
        &mut show,
    )?;
    if let Some(path) = &options.json {
        fs::write(path, serde_json::to_vec_pretty(&evidence)?)
            .with_context(|| format!("`{}`", path.display()))?;
    }
    summary(&mut out, &evidence)?;
    Ok(exit(&evidence))
}

fn half(options: &Options) -> anyhow::Result<Option<RegisterHalf>> {
    if let Some(path) = &options.register {
        let text = fs::read(path).with_context(|| format!("`{}`", path.display()))?;
        return Ok(Some(
            serde_json::from_slice(&text).context("the register's half")?,
        ));
    }
    if run::is_source(Path::new(".")) {
        return Ok(Some(register::check(Path::new("."))?));
    }
    // As it was when the programs were built: it names the revision itself.
    let own = std::env::current_exe()?.with_file_name("register.json");
    match fs::read(&own) {
        Ok(text) => Ok(Some(
            serde_json::from_slice(&text).with_context(|| format!("`{}`", own.display()))?,
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("`{}`", own.display())),
    }
}

fn summary(out: &mut impl io::Write, evidence: &Evidence) -> io::Result<()> {
    let e = &evidence.e_status;
    let status = serde_json::to_string(&e.status).unwrap_or_default();
    writeln!(out, "\nE: {} ({})", status.trim_matches('"'), e.words)?;
    for scope in &e.scope {
        writeln!(out, "  scope: {scope}")?;
    }
    for because in &e.because {
        writeln!(out, "  because {because}")?;
    }
    for (class, mechanisms) in &e.mechanisms {
        let mechanisms: Vec<&str> = mechanisms.iter().map(String::as_str).collect();
        writeln!(out, "  {class}: {}", mechanisms.join("; "))?;
    }
    match &evidence.register {
        Some(half) => writeln!(
            out,
            "  register: {} entries, {} drifts, at revision {}",
            half.entries,
            half.drifts.len(),
            half.revision
        )?,
        None => writeln!(out, "  register: not held against the source in this run")?,
    }
    for text in e.limits.iter().chain(&e.structural) {
        writeln!(out, "  limit: {text}")?;
    }
    for text in &e.caveats {
        writeln!(out, "  caveat: {text}")?;
    }
    Ok(())
}

fn exit(evidence: &Evidence) -> ExitCode {
    let as_expected = evidence.attempts.iter().all(|row| row.as_expected);
    let reached = match evidence.e_status.status {
        Status::Fail => true,
        Status::OutOfScope | Status::Pass | Status::Untested => false,
    };
    if as_expected && !reached {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

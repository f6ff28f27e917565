//! `custody-bypass`: attacks an installation of its own and writes down what happened.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Context as _, ensure};
use clap::Parser;
use custody_tests::{
    attempts,
    evidence::{
        Evidence,
        status::{RegisterHalf, Status},
        summary,
    },
    refused, register,
    suite::{run, trial::Ablate},
};
use custody_wire::{layer::Layer, profile::Profile};
use nix::sys::signal::{SigSet, Signal};

/// Attacks an installation of its own, made from the programs beside it, and writes evidence.
///
/// Nothing of a real installation is touched. Exit status: 0 where every row came as expected, no
/// layer stands alone that is not listed, every refused configuration was shown, and, in a whole
/// run, E is PASS or OUT_OF_SCOPE; 1 otherwise; 2 for a wrong command line. With `--only` E is
/// untested by nature and does not count. A run that could not start confinement leaves no evidence.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where the evidence is written
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Take every layer away in turn, and leave every layer alone in turn, in every row that
    /// layers are promised to refuse. Without it only the promised ones are tried
    #[arg(long)]
    ablate: bool,
    /// The same, of these layers alone; may be repeated
    #[arg(long, value_name = "LAYER", conflicts_with = "ablate", value_parser = layer)]
    ablate_layer: Vec<Layer>,
    /// The profile of the sessions: dev, standard or hardened
    #[arg(long, value_name = "PROFILE", default_value = "standard", value_parser = profile)]
    profile: Profile,
    /// Only attempts whose id begins with this; may be repeated. The status is then untested
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Provoke every refused configuration too, and reach its effect where it is permitted
    #[arg(long)]
    refused: bool,
    /// List the attempts and run none
    #[arg(long)]
    list: bool,
    /// List the mutants that attempts name, and which, and run none: a name, a tab, ids
    #[arg(long, hide = true)]
    list_mutants: bool,
    /// The register's half, as `custody-register --json` wrote it. By default it is made anew in
    /// the source tree that this runs in; elsewhere `register.json` beside this program is taken
    #[arg(long, value_name = "FILE")]
    register: Option<PathBuf>,
    /// How many isolating runs of one attempt are made beside each other, where they do not meet [default: two
    /// for each processor]
    #[arg(long, value_name = "NUMBER")]
    beside: Option<std::num::NonZeroUsize>,
    /// Show each layer's own run too
    #[arg(long)]
    legs: bool,
}

fn layer(name: &str) -> Result<Layer, String> {
    let found = Layer::ALL.into_iter().find(|layer| layer.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = Layer::ALL.iter().map(|layer| layer.name()).collect();
        format!("there is no such layer; one of {}", names.join(", "))
    })
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::parse(name).ok_or_else(|| "one of dev, standard, hardened".into())
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
    if options.list_mutants {
        list_mutants(&mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let half = half(&options)?;
    let refused = if options.refused {
        provoke(&mut out)?
    } else {
        Vec::new()
    };
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
    let ablate = if options.ablate {
        Ablate::all()
    } else if options.ablate_layer.is_empty() {
        Ablate::Promised
    } else {
        Ablate::These(options.ablate_layer.into_iter().collect())
    };
    let shows_matrix = ablate != Ablate::Promised;
    let whole = options.only.is_empty();
    let evidence = run::run(
        &run::Options {
            only: options.only,
            ablate,
            beside: options.beside,
            profile: options.profile,
            refused,
            stopped: Some(&STOPPED),
            ..run::Options::default()
        },
        half,
        &mut show,
    )?;
    if let Some(path) = &options.json {
        fs::write(path, serde_json::to_vec_pretty(&evidence)?)
            .with_context(|| format!("`{}`", path.display()))?;
    }
    if shows_matrix {
        write!(out, "\n{}", evidence.ablation.table())?;
    }
    write!(out, "\n{}", summary::of(&evidence)?)?;
    Ok(if is_good(&evidence, whole) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn list_mutants(out: &mut impl io::Write) -> io::Result<()> {
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for attempt in attempts::all() {
        if let Some(mutant) = attempt.mutant() {
            named.entry(mutant).or_default().push(attempt.id);
        }
    }
    for (mutant, ids) in named {
        writeln!(out, "{mutant}\t{}", ids.join(" "))?;
    }
    Ok(())
}

/// Both halves of every refused configuration, each in an installation of its own.
fn provoke(out: &mut impl io::Write) -> anyhow::Result<Vec<refused::Row>> {
    let mut rows = Vec::new();
    for configuration in refused::all()? {
        ensure!(!STOPPED.load(Ordering::Relaxed), "interrupted");
        let row = refused::run(&configuration);
        let mark = if row.is_as_said() { " " } else { "!" };
        let halves = [Some(&row.not_started), Some(&row.reached_where_permitted)];
        let seen = halves.into_iter().chain([row.still_refused.as_ref()]);
        let words: Vec<&str> = seen.flatten().map(|seen| seen.words.as_str()).collect();
        writeln!(out, "{mark} refused {:<24} {}", row.id, words.join(" | "))?;
        rows.push(row);
    }
    Ok(rows)
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

/// Whether the run came as it must. A part of the suite cannot establish E: there its rows alone
/// count.
fn is_good(evidence: &Evidence, whole: bool) -> bool {
    let as_expected = evidence.attempts.iter().all(|row| row.as_expected);
    let established = match evidence.e_status.status {
        Status::OutOfScope | Status::Pass => true,
        Status::Fail => false,
        Status::Untested => !whole,
    };
    let shown = evidence
        .refused_configurations
        .iter()
        .all(refused::Row::is_as_said);
    as_expected && established && shown && evidence.ablation.stale.is_empty()
}

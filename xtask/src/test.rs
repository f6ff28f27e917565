//! `test`: all checks and tests, each stage with a time limit, one sum at the end.
//!
//! The last line is `N passed, N failed, N skipped`. A stage that fails counts as one failure if
//! its runner counted none. A test that says `not attempted:` is skipped, not passed, and listed.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build, bypass,
    places::{self, Places},
    say, stage,
};

mod tally;

use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these stages
    #[arg(long = "stage", value_enum)]
    stages: Vec<Stage>,
}

/// In the order in which they run: the quick ones first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Stage {
    /// rustfmt
    Fmt,
    /// The tree's own rules
    Tidy,
    /// clippy, warnings refused
    Clippy,
    /// What is missing is installed; the stages before need none of it
    Setup,
    /// The eBPF object and all programs
    Build,
    /// Every test as nobody, where the user who calls is root; not counted, since `tests` runs them too
    Unprivileged,
    /// Every test of the workspace, as the user who calls
    Tests,
    /// The same as root, where the user who calls is not root
    Root,
    /// The bypass suite
    Bypass,
}

impl Stage {
    const ALL: [Self; 9] = [
        Self::Fmt,
        Self::Tidy,
        Self::Clippy,
        Self::Setup,
        Self::Build,
        Self::Unprivileged,
        Self::Tests,
        Self::Root,
        Self::Bypass,
    ];

    /// A generous multiple of a cold run on two cores.
    const fn limit(self) -> Duration {
        Duration::from_secs(
            60 * match self {
                Self::Fmt => 2,
                Self::Tidy | Self::Bypass => 10,
                Self::Clippy | Self::Setup | Self::Build => 20,
                Self::Unprivileged | Self::Tests | Self::Root => 25,
            },
        )
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Clippy => "clippy",
            Self::Setup => "setup",
            Self::Build => "build",
            Self::Unprivileged => "nobody",
            Self::Tests => "tests",
            Self::Root => "root",
            Self::Bypass => "bypass",
        }
    }

    /// What the stage runs; nothing where it does not apply.
    fn command(self, places: &Places) -> Result<Option<Command>> {
        let mut cargo = places.cargo();
        cargo.env(build::OBJECT, places.ebpf_object());
        cargo.env("CUSTODY_PROGRAMS", places.programs());
        match self {
            Self::Fmt => cargo.args(["fmt", "--all", "--check"]),
            Self::Tidy => return own(places, "tidy").map(Some),
            Self::Clippy => cargo.args([
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-Dwarnings",
            ]),
            Self::Setup => return own(places, "setup").map(Some),
            Self::Build => return own(places, "build").map(Some),
            Self::Unprivileged if !as_nobody(places)? => return Ok(None),
            Self::Unprivileged => cargo
                .args(["test", "--workspace", "--lib", "--bins", "--tests"])
                .args(TEST_OPTIONS)
                .env("TMPDIR", nobodys_folder(places))
                .env(RUNNER, NOBODY.join(" ")),
            Self::Tests => cargo.args(["test", "--workspace"]).args(TEST_OPTIONS),
            Self::Root if places::is_root() => return Ok(None),
            Self::Root => cargo
                .args(["test", "--workspace"])
                .args(TEST_OPTIONS)
                .env(RUNNER, "sudo -E --"),
            Self::Bypass => return Ok(suite(places)),
        };
        Ok(Some(cargo))
    }
}

/// `--show-output`: a passing test may say that it did not attempt something.
const TEST_OPTIONS: [&str; 4] = ["--locked", "--no-fail-fast", "--", "--show-output"];

/// The variable by which cargo is told how to start a test (cargo's reference, `target.runner`).
const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";

/// setpriv(1): nobody, and no way back.
const NOBODY: [&str; 7] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--",
];

/// What root's tests left in `/tmp`, locks between processes among it, is not nobody's to open.
/// The path is short: sockets are made below it (unix(7), `sun_path`).
fn nobodys_folder(places: &Places) -> PathBuf {
    places.target.join("nobody")
}

/// Whether we can run tests as nobody: we are root, and nobody may reach what we build.
fn as_nobody(places: &Places) -> Result<bool> {
    if !places::is_root() {
        return Ok(false);
    }
    let mut folder = Command::new("install");
    stage::must(
        folder
            .args(["-d", "-o", "nobody", "-m", "0700"])
            .arg(nobodys_folder(places)),
    )?;
    let [program, arguments @ ..] = NOBODY;
    let reaches = Command::new(program)
        .args(arguments)
        .args(["test", "-x"])
        .arg(places.target.join("debug"))
        .status()
        .is_ok_and(|status| status.success());
    if !reaches {
        say::line("not attempted: tests as nobody, who may not reach the target folder");
    }
    Ok(reaches)
}

/// Another command of ours, in a process of its own, so that the time limit holds.
fn own(places: &Places, command: &str) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let mut own = Command::new(program);
    own.arg(command)
        .current_dir(&places.root)
        .env("CARGO_TARGET_DIR", &places.target);
    Ok(own)
}

/// The suite on what was built.
fn suite(places: &Places) -> Option<Command> {
    let mut command = places::as_root(bypass::runner(places)?);
    command
        .arg("--json")
        .arg(places.target.join("evidence.json"))
        .current_dir(&places.root);
    Some(command)
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    let logs = places.target.join("test-logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make `{}`", logs.display()))?;

    let chosen = |stage: &Stage| args.stages.is_empty() || args.stages.contains(stage);
    let mut total = Tally::default();
    let mut lines = Vec::new();
    for stage in Stage::ALL.into_iter().filter(chosen) {
        let Some(mut command) = stage.command(places)? else {
            continue;
        };
        say::step(format_args!("{}: {}", stage.name(), stage::Shown(&command)));
        let started = Instant::now();
        let mut tally = Tally::default();
        let log = logs.join(format!("{}.log", stage.name()));
        let status = stage::run(&mut command, stage.limit(), &log, |line| {
            if tally.read(line) {
                say::line(line);
            }
        });
        let why = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(why) = &why {
            tally.stage_failed();
            say::line(format_args!(
                "    {} failed: {why}; all output is in `{}`",
                stage.name(),
                log.display()
            ));
        }
        let word = if tally.failed == 0 { "ok" } else { "FAILED" };
        lines.push(format!(
            "    {:8} {word:7} {:>5} s   {tally}",
            stage.name(),
            started.elapsed().as_secs()
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
        if why.is_some() && matches!(stage, Stage::Setup | Stage::Build) {
            break;
        }
    }

    say::step("summary");
    lines.iter().for_each(say::line);
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

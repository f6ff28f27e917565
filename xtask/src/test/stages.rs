//! The stages: what each runs, and for how long at most.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;

use crate::{
    build, bypass, guest,
    places::{self, Places},
    say, stage,
};

/// In the order in which they run: the quick ones first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Stage {
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
    /// The bypass suite; its evidence is judged by a test
    Bypass,
    /// Every test as nobody, where the user who calls is root; not counted, since `tests` runs them too
    Unprivileged,
    /// Every test of the workspace, as the user who calls
    Tests,
    /// The same as root, where the user who calls is not root
    Root,
    /// The kernel and the root file system that the next stage boots
    Image,
    /// Tests of LSM programs and a part of the suite, on a stock kernel in an emulated machine
    Guest,
}

impl Stage {
    pub(super) const ALL: [Self; 11] = [
        Self::Fmt,
        Self::Tidy,
        Self::Clippy,
        Self::Setup,
        Self::Build,
        Self::Bypass,
        Self::Unprivileged,
        Self::Tests,
        Self::Root,
        Self::Image,
        Self::Guest,
    ];

    /// A generous multiple of a cold run on two cores.
    pub(super) const fn limit(self) -> Duration {
        Duration::from_secs(
            60 * match self {
                Self::Fmt => 2,
                Self::Tidy => 10,
                Self::Clippy | Self::Setup | Self::Build | Self::Image => 20,
                Self::Bypass | Self::Guest | Self::Unprivileged | Self::Tests | Self::Root => 30,
            },
        )
    }

    pub(super) const fn name(self) -> &'static str {
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
            Self::Image => "image",
            Self::Guest => "guest",
        }
    }

    /// Stages that wait for the network: after which one they may begin, if not in their turn.
    /// `Some(None)` is the very beginning.
    pub(super) const fn beside(self) -> Option<Option<Self>> {
        match self {
            Self::Setup => Some(None),
            Self::Image => Some(Some(Self::Setup)),
            Self::Fmt
            | Self::Tidy
            | Self::Clippy
            | Self::Build
            | Self::Unprivileged
            | Self::Tests
            | Self::Root
            | Self::Bypass
            | Self::Guest => None,
        }
    }

    /// What the stage runs; nothing where it does not apply. A test judges the evidence `judged`
    /// instead of running the suite once more.
    pub(super) fn command(self, places: &Places, judged: Option<&Path>) -> Result<Option<Command>> {
        let mut cargo = places.cargo();
        if let Some(evidence) = judged {
            cargo.env("CUSTODY_EVIDENCE", evidence);
        }
        cargo.env(build::OBJECT, places.ebpf_object());
        cargo.env("CUSTODY_PROGRAMS", places.programs());
        match self {
            Self::Fmt => cargo.args(["fmt", "--all", "--check"]),
            Self::Tidy => return own(places, &["tidy"]).map(Some),
            Self::Clippy => cargo.args([
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-Dwarnings",
            ]),
            Self::Setup => return own(places, &["setup"]).map(Some),
            Self::Build => return own(places, &["build", "--with-tests"]).map(Some),
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
            Self::Image if guest::missing().is_some() => return Ok(None), // the next one says it
            Self::Image => return own(places, &["guest", "--prepare", "--optional"]).map(Some),
            Self::Guest => return own(places, &["guest", "--fast"]).map(Some),
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
fn own(places: &Places, arguments: &[&str]) -> Result<Command> {
    let program = places::own_program()?;
    let mut own = Command::new(program);
    own.args(arguments)
        .current_dir(&places.root)
        .env("CARGO_TARGET_DIR", &places.target);
    Ok(own)
}

/// What the suite's stage leaves.
pub(super) fn evidence(places: &Places) -> PathBuf {
    places.target.join("evidence.json")
}

/// The suite on what was built.
fn suite(places: &Places) -> Option<Command> {
    let mut command = places::as_root(bypass::runner(places)?);
    command
        .arg("--json")
        .arg(evidence(places))
        .current_dir(&places.root);
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_beside_others_begins_after_a_stage_that_comes_before_it() {
        let place = |stage: Stage| Stage::ALL.iter().position(|one| *one == stage);
        for stage in Stage::ALL {
            if let Some(Some(after)) = stage.beside() {
                assert!(place(after) < place(stage), "{stage:?}");
            }
        }
    }
}

//! `bench launch`: a confined `/bin/true`, beside fork+exec and other sandboxes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use super::series::{Series, compare};
use crate::{
    places::{self, Places},
    room::{
        Room,
        daemon::{self, Daemon},
        service::Service,
    },
    say, setup, stage,
};

const TRUE: &str = "/bin/true";

/// One way to start a program.
struct Contender<'a> {
    series: Series,
    turn: Box<dyn FnMut() -> Result<Duration> + 'a>,
    /// What works for it besides its own children.
    served: Box<dyn Fn() -> Duration + 'a>,
}

impl<'a> Contender<'a> {
    fn new(name: &str, turn: impl FnMut() -> Result<Duration> + 'a) -> Self {
        Self {
            series: Series::new(name),
            turn: Box::new(turn),
            served: Box::new(|| Duration::ZERO),
        }
    }

    fn served_by(mut self, cpu: impl Fn() -> Duration + 'a) -> Self {
        self.served = Box::new(cpu);
        self
    }
}

pub(super) fn run(places: &Places, turns: usize) -> Result<()> {
    hurry();
    let room = Room::make(places)?;
    let service = Service::start(places, &room)?;
    room.write_policy(places, service.address())?;
    let daemon = Daemon::start(&room)?;

    let mut contenders = vec![
        Contender::new("fork+exec", || timed(&mut Command::new(TRUE))),
        Contender::new("custody run", || {
            timed(daemon.cli().args(["run", "--policy", "demo", "--", TRUE]))
        })
        .served_by(|| daemon.cpu()),
    ];
    if places::on_path("bwrap").is_some() {
        contenders.push(Contender::new(
            "bwrap --unshare-all",
            || timed(&mut bwrap()),
        ));
    } else {
        say::line("not attempted: bwrap is not installed");
    }
    match Sandlock::start(&setup::python::environment(places)) {
        Ok(mut sandlock) => {
            let pid = sandlock.child.id();
            let contender =
                Contender::new("sandlock (in its own process)", move || sandlock.turn());
            contenders.push(contender.served_by(move || daemon::cpu_of(pid)));
        }
        Err(error) => say::line(format_args!("not attempted: sandlock: {error:#}")),
    }

    // Whole runs: what is done after a turn, for the next one, is part of it.
    let before: Vec<Duration> = contenders.iter().map(|it| (it.served)()).collect();
    for turn in 0..turns + WARM_UP {
        for contender in &mut contenders {
            let cpu = cpu_of(UsageWho::RUSAGE_CHILDREN)?;
            let time = (contender.turn)()?;
            if turn >= WARM_UP {
                contender.series.push(time);
                contender
                    .series
                    .add_cpu(cpu_of(UsageWho::RUSAGE_CHILDREN)?.saturating_sub(cpu));
            }
        }
        if stage::interrupted() {
            bail!("interrupted");
        }
    }
    let counted = u32::try_from(turns).context("turns")?;
    let all_turns = u32::try_from(turns + WARM_UP).context("turns")?;
    for (contender, before) in contenders.iter_mut().zip(before) {
        let served = (contender.served)().saturating_sub(before);
        contender.series.add_cpu(served * counted / all_turns);
    }
    let all: Vec<Series> = contenders
        .into_iter()
        .map(|contender| contender.series)
        .collect();
    compare(&all);
    launcher(places)
}

/// Puts this process, and what it starts, before whatever else runs on the machine: a launch goes
/// through many hands, and between any two of them something else would have its turn (sched(7)).
fn hurry() {
    let mut chrt = Command::new("chrt");
    let pid = std::process::id().to_string();
    let done = chrt.args(["--rr", "--pid", "5", &pid]).status();
    let class = if done.is_ok_and(|status| status.success()) {
        "real-time"
    } else {
        "usual"
    };
    say::line(format_args!("in the {class} scheduling class:"));
}

/// custody-launch and custody-init alone, without custodyd and the CLI: the launcher's own
/// measurement, which has a bare start of its own to be compared with.
fn launcher(places: &Places) -> Result<()> {
    say::line("\ncustody-launch alone, beside a bare start into a cgroup:");
    let mut cargo = places.cargo();
    cargo
        .args([
            "test",
            "--quiet",
            "--locked",
            "--package=custody-launch",
            "--test=cost",
        ])
        .args(["--", "--ignored", "--nocapture"])
        .env("CUSTODY_PROGRAMS", places.programs());
    let said = stage::output(&mut cargo)?;
    for line in said.lines().filter(|line| line.contains("ratio")) {
        say::line(line);
    }
    Ok(())
}

/// Turns that are not counted.
const WARM_UP: usize = 5;

fn timed(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", stage::Shown(command)))?;
    let time = started.elapsed();
    ensure!(
        status.success(),
        "{} failed: {status}",
        stage::Shown(command)
    );
    Ok(time)
}

/// A common way to use it: everything unshared, the host read-only.
fn bwrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]);
    command.args([
        "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--", TRUE,
    ]);
    command
}

/// The processor time that `who` has used.
pub(super) fn cpu_of(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who).context("getrusage")?;
    let time = |value: nix::sys::time::TimeVal| {
        let micros = value.tv_sec() * 1_000_000 + value.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or_default())
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// sandlock's own library in a Python process that is already up: its interpreter is not counted.
struct Sandlock {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const SANDLOCK: &str = r#"
import sys, time
from sandlock import Sandbox
for line in sys.stdin:
    box = Sandbox(fs_readable=["/usr", "/lib", "/lib64", "/bin", "/etc", "/dev"])
    start = time.perf_counter_ns()
    result = box.run(["/bin/true"], timeout=10)
    elapsed = time.perf_counter_ns() - start
    print(elapsed if result.success else f"failed: {result}", flush=True)
"#;

impl Sandlock {
    fn start(environment: &Path) -> Result<Self> {
        let mut child = Command::new(environment.join("bin/python"))
            .args(["-c", SANDLOCK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start Python")?;
        let orders = child.stdin.take().context("no pipe")?;
        let answers = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut sandlock = Self {
            child,
            orders,
            answers,
        };
        sandlock.turn()?;
        Ok(sandlock)
    }

    fn turn(&mut self) -> Result<Duration> {
        self.orders.write_all(b"go\n").context("it does not run")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("it is silent")?;
        let nanos = line
            .trim()
            .parse()
            .with_context(|| format!("it said `{}`", line.trim()))?;
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Sandlock {
    fn drop(&mut self) {
        // It fails only where the process is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

//! What one system call costs inside, beside the same call bare: a loop in each, told by turns.

use std::{
    fs::File,
    hint::black_box,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::time::{ClockId, clock_gettime};

use super::super::series::{Series, compare};
use crate::{
    room::{Room, User, daemon::Daemon},
    say, stage,
};

/// Three components, always there.
const FILE: &str = "/usr/bin/env";

/// Calls in one turn: long enough for the clock.
const CALLS: u32 = 2_000;

/// A connection is dearer, and leaves a port behind in TIME_WAIT (tcp(7)).
const CONNECTS: u32 = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where a real connection goes
    to: SocketAddr,
}

/// The loop's program: reads `WHAT COUNT` and answers with nanoseconds of processor time for all of them.
pub(crate) fn run(args: &Args) -> Result<()> {
    for order in io::stdin().lock().lines() {
        let order = order.context("cannot read an order")?;
        let (what, count) = order.split_once(' ').context("no order")?;
        let count: u32 = count.parse().context("a count")?;
        let started = processor_time()?;
        for _ in 0..count {
            // Refused or not: it is the call that is measured.
            match what {
                "connect" => drop(black_box(TcpStream::connect(args.to))),
                "open" => drop(black_box(File::open(FILE))),
                "stat" => drop(black_box(std::fs::metadata(FILE))),
                other => bail!("`{other}` is no order"),
            }
        }
        say::line(processor_time()?.saturating_sub(started).as_nanos());
        io::stdout().flush().context("flush")?;
    }
    Ok(())
}

/// What this process has used: on a busy machine the clock on the wall says who else was there.
fn processor_time() -> Result<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(Duration::from)
        .context("clock_gettime(2)")
}

pub(in crate::bench) fn compare_with_bare(
    room: &Room,
    daemon: &Daemon<'_>,
    turns: usize,
) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a listener")?;
    let to = listener.local_addr().context("its address")?;
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let own = room.own_program();
    let words = [
        own.clone().into_os_string(),
        "bench-loop".into(),
        to.to_string().into(),
    ];
    let mut bare = Loop::start(room.command_of(User::Operator, Path::new("/"), &words))?;
    let mut inside = Loop::start({
        let mut command = daemon.cli();
        command.args(["run", "--policy", "demo", "--"]).args(&words);
        command
    })?;
    for (what, count, names) in [
        (
            "open",
            CALLS,
            ["open+close, bare", "open+close, in a session"],
        ),
        ("stat", CALLS, ["stat, bare", "stat, in a session"]),
        (
            "connect",
            CONNECTS,
            ["a real TCP connect, bare", "the same, refused in a session"],
        ),
    ] {
        let mut series = names.map(Series::new);
        for _ in 0..turns {
            for (contender, series) in [&mut bare, &mut inside].into_iter().zip(&mut series) {
                series.push(contender.turn(what, count)?);
            }
            if stage::interrupted() {
                bail!("interrupted");
            }
        }
        say::line(format_args!("processor time of {count} calls:"));
        compare(&series);
    }
    Ok(())
}

/// A program that loops when it is told to.
struct Loop {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Loop {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", stage::Shown(&command)))?;
        let mut started = Self {
            orders: child.stdin.take().context("no pipe")?,
            answers: BufReader::new(child.stdout.take().context("no pipe")?),
            child,
        };
        started.turn("open", 1)?;
        Ok(started)
    }

    fn turn(&mut self, what: &str, count: u32) -> Result<Duration> {
        writeln!(self.orders, "{what} {count}").context("it does not run")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("it is silent")?;
        ensure!(!line.is_empty(), "the loop ended");
        let nanos = line
            .trim()
            .parse()
            .with_context(|| format!("the loop said `{}`", line.trim()))?;
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It fails only where the process is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

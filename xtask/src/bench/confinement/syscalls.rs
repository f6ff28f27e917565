//! What one system call costs inside, beside the same call bare: a loop in each, told by turns.

use std::{
    ffi::CString,
    fs,
    hint::black_box,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    fcntl::{OFlag, open},
    sys::stat::{Mode, stat},
    time::{ClockId, clock_gettime},
};

use super::super::series::{Series, compare};
use crate::{
    room::{Room, User, daemon::Daemon},
    say, stage,
};

/// A file of the system: three components, always there.
const SYSTEM_FILE: &str = "/usr/bin/env";

/// Files of the workspace: at its top, and three folders deeper.
const WORK_FILES: [&str; 2] = ["file", "a/b/c/file"];

/// Calls in one turn: long enough for the clock.
const CALLS: u32 = 2_000;

/// A connection is dearer, and leaves a port behind in TIME_WAIT (tcp(7)).
const CONNECTS: u32 = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where a real connection goes
    to: SocketAddr,
}

/// The loop's program: reads `WHAT COUNT FILE` and answers with nanoseconds of processor time for
/// all of them.
pub(crate) fn run(args: &Args) -> Result<()> {
    for order in io::stdin().lock().lines() {
        let order = order.context("cannot read an order")?;
        let mut words = order.splitn(3, ' ');
        let what = words.next().context("no order")?;
        let count: u32 = words
            .next()
            .context("no count")?
            .parse()
            .context("a count")?;
        let file = words.next().context("no file")?;
        // The C library's own form: this program may be a debug build, and what it does beside the
        // call would be taken for a part of it.
        let file = CString::new(file).context("a file")?;
        let started = processor_time()?;
        // Refused or not: it is the call that is measured.
        match what {
            "connect" => (0..count).for_each(|_| drop(black_box(TcpStream::connect(args.to)))),
            "open" => {
                for _ in 0..count {
                    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                    drop(black_box(open(file.as_c_str(), flags, Mode::empty())));
                }
            }
            "stat" => {
                for _ in 0..count {
                    let _found = black_box(stat(file.as_c_str()));
                }
            }
            other => bail!("`{other}` is no order"),
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
        own.into_os_string(),
        "bench-loop".into(),
        to.to_string().into(),
    ];
    let folder = room.open_folder("calls")?;
    let files = WORK_FILES.map(|file| folder.join(file));
    for file in &files {
        let above = file.parent().unwrap_or(&folder);
        fs::create_dir_all(above).context("a folder")?;
        fs::write(file, "x").context("a file")?;
    }
    room.give_to_operator(&folder)?;
    let mut bare = Loop::start(room.command_of(User::Operator, &folder, &words))?;
    let mut inside = Loop::start({
        let mut command = daemon.cli();
        command.args(["run", "--policy", "demo", "--workdir"]);
        command.arg(&folder).arg("--").args(&words);
        command
    })?;
    let [top, deep] = files.each_ref().map(|file| file.display().to_string());
    for (what, count, file, title) in [
        ("open", CALLS, SYSTEM_FILE, "open+close of a system's file"),
        ("open", CALLS, &top, "open+close of a file in the workspace"),
        ("open", CALLS, &deep, "open+close three folders deeper"),
        ("stat", CALLS, SYSTEM_FILE, "stat of a system's file"),
        (
            "connect",
            CONNECTS,
            "-",
            "a TCP connect: real, and refused in the session",
        ),
    ] {
        let mut series = ["bare", "in a session"].map(Series::new);
        for _ in 0..turns {
            for (contender, series) in [&mut bare, &mut inside].into_iter().zip(&mut series) {
                series.push(contender.turn(&format!("{what} {count} {file}"))?);
            }
            if stage::interrupted() {
                bail!("interrupted");
            }
        }
        say::line(format_args!("{title}, processor time of {count}:"));
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
        started.turn(&format!("open 1 {SYSTEM_FILE}"))?;
        Ok(started)
    }

    fn turn(&mut self, order: &str) -> Result<Duration> {
        writeln!(self.orders, "{order}").context("it does not run")?;
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

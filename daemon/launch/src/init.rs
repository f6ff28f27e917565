//! custody-init: pid 1 of a session. Starts the command, passes signals on, reaps what is
//! orphaned, says how the command ended, and ends; the kernel ends the rest (pid_namespaces(7)).
//!
//! It runs as the session's uid under all of the session's locks: it holds the channel, on which
//! it only says an [`Outcome`], and nothing else that the command has not.

use std::{
    ffi::{CStr, OsString},
    io,
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, Command, ExitCode},
};

use custody_sys::{channel, fd, process, pty};
use custody_wire::{
    frame,
    launch::{CHANNEL_FD, Outcome},
};
use nix::{
    errno::Errno,
    sys::signal::{SigSet, Signal, killpg},
    unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout},
};

/// First argument: the streams are a pty, to become the controlling terminal.
pub const TERMINAL: &CStr = c"terminal";
/// First argument: the streams are pipes.
pub const PIPES: &CStr = c"pipes";

/// What is passed on to the command's process group. ^C and window sizes of a pty come from the
/// terminal itself.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// The exit status for a command that is there but was not executed, as in a shell.
const NOT_EXECUTABLE: u8 = 126;
/// The exit status for a command that is not there.
const NOT_FOUND: u8 = 127;
/// The exit status for a failure of ours.
const OURS: u8 = 125;

/// Runs as pid 1.
pub fn main() -> ExitCode {
    match run() {
        Ok(outcome) => status(outcome),
        Err(_unsaid) => ExitCode::from(OURS),
    }
}

fn run() -> io::Result<Outcome> {
    // The command has the same uid: without this it could read our memory and /proc/1.
    process::undumpable()?;
    let channel = fd::take(CHANNEL_FD)?;
    // Blocked, not handled: the kernel keeps a blocked signal even for pid 1 (signal(7)), and
    // what comes before the command is there waits for it.
    let signals = waited_for();
    signals.thread_block()?;
    let outcome = match start() {
        Ok(child) => {
            let_go_of_streams()?;
            wait(&child, &signals)?
        }
        Err(error) => Outcome::NotExecuted {
            errno: error.raw_os_error().unwrap_or(Errno::EINVAL as i32),
        },
    };
    // custodyd may be gone: the exit status says it too.
    match say(&channel, outcome) {
        Ok(()) | Err(_) => Ok(outcome),
    }
}

fn waited_for() -> SigSet {
    let mut signals = SigSet::empty();
    for signal in PASSED_ON {
        signals.add(signal);
    }
    signals.add(Signal::SIGCHLD);
    signals
}

/// Starts the command. The standard library brings back the errno of a failed execve(2).
fn start() -> io::Result<Child> {
    let mut arguments = std::env::args_os().skip(1);
    let streams = arguments.next().unwrap_or_default();
    let program = arguments
        .next()
        .filter(|program| !program.is_empty())
        .ok_or(Errno::EINVAL)?;
    let mut command = Command::new(program);
    command.args(arguments);
    process::with_fresh_signals(&mut command);
    if streams == OsString::from(TERMINAL.to_string_lossy().into_owned()) {
        pty::control_stdin(&mut command);
    } else {
        command.process_group(0);
    }
    command.spawn()
}

/// The command alone holds the streams from now on, so that their ends are seen when it closes
/// them.
fn let_go_of_streams() -> io::Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// Reaps and passes on until the command has ended.
fn wait(child: &Child, signals: &SigSet) -> io::Result<Outcome> {
    let command = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        let signal = signals.wait()?;
        if signal == Signal::SIGCHLD {
            if let Some(outcome) = reap(command)? {
                return Ok(outcome);
            }
            continue;
        }
        match killpg(command, signal) {
            // ESRCH: it ended just now; SIGCHLD comes next.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reaps all that ended; the command's end is the answer.
fn reap(command: Pid) -> io::Result<Option<Outcome>> {
    loop {
        let Some((pid, status)) = process::wait_any()? else {
            return Ok(None);
        };
        if pid != command.as_raw() {
            continue; // an orphan
        }
        match (status.code(), status.signal()) {
            (Some(code), _) => return Ok(Some(Outcome::Exited { code })),
            (None, Some(signal)) => return Ok(Some(Outcome::Killed { signal })),
            // Stopped or continued: not asked for.
            (None, None) => {}
        }
    }
}

fn say(channel: &OwnedFd, outcome: Outcome) -> io::Result<()> {
    let bytes = frame::datagram(&outcome).map_err(io::Error::other)?;
    channel::send(channel, &bytes, &[])
}

/// As a shell would say it (bash(1), EXIT STATUS).
fn status(outcome: Outcome) -> ExitCode {
    ExitCode::from(match outcome {
        Outcome::Exited { code } => u8::try_from(code & 0xff).unwrap_or(OURS),
        Outcome::Killed { signal } => u8::try_from(signal.saturating_add(128)).unwrap_or(OURS),
        Outcome::NotExecuted { errno } if errno == Errno::ENOENT as i32 => NOT_FOUND,
        Outcome::NotExecuted { .. } => NOT_EXECUTABLE,
    })
}

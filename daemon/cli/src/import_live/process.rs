//! The server: started as the caller, in a process group of its own, and ended with it.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Read, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use super::talk::{Link, LinkError};
use crate::run::environment::Made;

/// The longest line, as long as an export may be.
const LINE_MAX: u64 = 8 << 20;

/// What a server may say in all: notifications and the pages together.
const BYTES_MAX: u64 = 32 << 20;

/// So much of its standard error is kept, the newest.
const NOISE_MAX: usize = 4 << 10;

/// How long it has to end by itself, and then after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Result<Vec<u8>, LinkError>>,
    noise: Arc<Mutex<Vec<u8>>>,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it, with this environment and no other.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &[OsString], environment: &Made) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("there is no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What it starts is ended with it; it has no part of the caller's terminal's signals.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run `{}`", program.to_string_lossy()))?;
        let noise = Arc::new(Mutex::new(Vec::new()));
        // A bound: who does not read what the server says makes it wait.
        let (to, lines) = mpsc::sync_channel(4);
        if let Some(stdout) = child.stdout.take() {
            let _ends_with_the_pipe = thread::spawn(move || read_lines(stdout, &to));
        }
        let listening = child.stderr.take().map(|stderr| {
            let kept = Arc::clone(&noise);
            thread::spawn(move || keep_newest(stderr, &kept))
        });
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            lines,
            noise,
            listening,
        })
    }

    /// Ends it and whatever it started in its group; says what it said on standard error last.
    pub fn end(mut self) -> String {
        self.stop();
        // Its last words may be in the pipe still. Whoever left its group can hold that open: no longer than this.
        let until = Instant::now() + GRACE;
        while self.listening.as_ref().is_some_and(|it| !it.is_finished()) && Instant::now() < until
        {
            thread::sleep(Duration::from_millis(5));
        }
        let noise = self.noise.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&noise).into_owned()
    }

    fn stop(&mut self) {
        // As MCP has it for stdio: the end of its input, then SIGTERM, then SIGKILL.
        self.stdin = None;
        let group = i32::try_from(self.child.id()).map(Pid::from_raw);
        if !self.is_over_within(GRACE) {
            signal(group.ok(), Signal::SIGTERM);
            let _in_time = self.is_over_within(GRACE);
        }
        // What it left in its group ends too.
        signal(group.ok(), Signal::SIGKILL);
        drop(self.child.wait());
    }

    fn is_over_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // An error is that it is over already.
        let _over_or_not = killpg(group, signal);
    }
}

impl Link for Server {
    fn send(&mut self, line: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(line.as_bytes())?;
        stdin.write_all(b"\n")?;
        stdin.flush()
    }

    fn next(&mut self, deadline: Instant) -> Result<Vec<u8>, LinkError> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => Err(LinkError::Late),
            Err(RecvTimeoutError::Disconnected) => Err(LinkError::Over),
        }
    }
}

fn read_lines(stdout: impl Read, to: &mpsc::SyncSender<Result<Vec<u8>, LinkError>>) {
    let mut reader = BufReader::new(stdout);
    let mut total = 0_u64;
    loop {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(LINE_MAX + 1)
            .read_until(b'\n', &mut line);
        let read = match read {
            Ok(0) | Err(_) => return,
            Ok(read) => u64::try_from(read).unwrap_or(u64::MAX),
        };
        total = total.saturating_add(read);
        let said = if read > LINE_MAX || total > BYTES_MAX {
            Err(LinkError::Large)
        } else {
            Ok(line)
        };
        let last = said.is_err();
        if to.send(said).is_err() || last {
            return;
        }
    }
}

fn keep_newest(mut stderr: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1_024];
    while let Ok(read @ 1..) = stderr.read(&mut bytes) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes.get(..read).unwrap_or_default());
        let more = kept.len().saturating_sub(NOISE_MAX);
        drop(kept.drain(..more));
    }
}

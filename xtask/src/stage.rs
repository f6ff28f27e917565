//! One command with a time limit: everything it started ends with it, also on Ctrl-C.

use std::{
    fmt, fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How long output may still come after the command itself ended: what it left behind has the
/// pipe too.
const DRAIN: Duration = Duration::from_secs(2);

/// How long a command has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the person pressed Ctrl-C, or someone asked us to end.
pub(crate) static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // It fails only for signals that nobody may handle (sigaction(2)).
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&flag)) {
            crate::say::error(format_args!("cannot handle signal {signal}: {error}"));
        }
    }
    flag
});

/// Whether we were asked to end.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Runs `command` for at most `limit`. Each line of its output, both streams as they came, goes to
/// `log` and to `each`.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    log: &Path,
    mut each: impl FnMut(&str),
) -> Result<ExitStatus> {
    interrupted(); // handlers first
    let mut log =
        fs::File::create(log).with_context(|| format!("cannot write `{}`", log.display()))?;
    let (reader, writer) = io::pipe().context("pipe")?;
    command
        .stdin(std::process::Stdio::null())
        .stdout(writer.try_clone().context("dup")?)
        .stderr(writer)
        .process_group(0);
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {}", Shown(command)))?;
    // Our copies of the write end lie in `command`: without this the pipe never ends.
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    let mut group = Group(child);

    let (lines, received) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line)
                .trim_end_matches('\n')
                .to_owned();
            if lines.send(text).is_err() {
                break;
            }
            line.clear();
        }
    });

    let deadline = Instant::now() + limit;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match received.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                writeln!(log, "{line}").context("cannot write the log")?;
                each(&line);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) if ended.is_some() => break,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                std::thread::sleep(Duration::from_millis(20))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() {
            ended = group
                .0
                .try_wait()
                .context("wait")?
                .map(|status| (status, Instant::now()));
        }
        if ended.is_some_and(|(_, at)| at.elapsed() > DRAIN) {
            break;
        }
        if interrupted() {
            bail!("interrupted");
        }
        if Instant::now() > deadline {
            bail!("took longer than {} s: {}", limit.as_secs(), Shown(command));
        }
    }
    let (status, _) = ended.context("the command has no status")?;
    Ok(status)
}

/// A child and its process group; whatever is left of the group ends with this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let Ok(pid) = i32::try_from(self.0.id()) else {
            return;
        };
        let group = Pid::from_raw(pid);
        let until = Instant::now() + GRACE;
        let mut signal = Signal::SIGTERM;
        // ESRCH: nothing is left of the group (kill(2)).
        while killpg(group, signal).is_ok() {
            if !matches!(self.0.try_wait(), Ok(None)) && killpg(group, None).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
            if Instant::now() > until {
                signal = Signal::SIGKILL;
            }
            // What SIGKILL leaves are zombies that their new parent does not reap.
            if Instant::now() > until + GRACE {
                return;
            }
        }
    }
}

/// A command as a person would type it, without its environment.
pub(crate) struct Shown<'a>(pub(crate) &'a Command);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}", self.0.get_program().to_string_lossy())?;
        for argument in self.0.get_args() {
            write!(f, " {}", argument.to_string_lossy())?;
        }
        f.write_str("`")
    }
}

/// Runs `command` with our own streams; anything but success is an error.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", Shown(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", Shown(command));
    }
    Ok(())
}

/// What `command` prints to its standard output, trimmed; anything but success is an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", Shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", Shown(command), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Result<ExitStatus>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Vec::new();
        let status = run(
            Command::new("sh").arg("-c").arg(script),
            limit,
            &folder.path().join("log"),
            |line| lines.push(line.to_owned()),
        );
        (status, lines)
    }

    #[test]
    fn both_streams_come_line_by_line_and_the_status_is_the_commands() {
        let (status, lines) = shell("echo one; echo two >&2; exit 3", Duration::from_secs(20));
        assert_eq!(status.unwrap().code(), Some(3));
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_all_that_it_started() {
        let started = Instant::now();
        let (status, lines) = shell("sleep 60 & echo $!; wait", Duration::from_millis(500));
        assert!(status.unwrap_err().to_string().contains("took longer"));
        assert!(started.elapsed() < Duration::from_secs(20));
        let state = fs::read_to_string(format!("/proc/{}/stat", lines[0]));
        assert!(
            state.as_ref().map_or(true, |stat| stat.contains(") Z ")),
            "{state:?}"
        );
    }

    #[test]
    fn what_a_command_leaves_behind_does_not_hold_us_up() {
        let started = Instant::now();
        let (status, _) = shell("sleep 60 & exit 0", Duration::from_secs(30));
        assert!(status.unwrap().success());
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}

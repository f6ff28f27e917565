//! A process that leaves its session, its parents and its death signal behind.

use std::{
    fs, io,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::Report;

/// The argument by which the probe becomes that process, or starts it.
const LINGER: &str = "linger";

/// How long it lives, where nobody finds it and ends it: longer than anyone takes to look for it, on a
/// busy machine too, and not for ever.
const LIFE: Duration = Duration::from_secs(60);

/// How long it may take to live apart.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts one, marked by its argument, by way of a child that ends.
pub(super) fn start(mark: &str, report: &mut Report) -> Option<()> {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args([LINGER, "start", mark])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    });
    report.step("start it", started)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if apart(mark).unwrap_or(false) {
            return report.step("it lives apart", Ok::<(), io::Error>(()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    report.words("it lives apart", "it was not seen");
    None
}

/// Whether the marked one leads a session of its own (proc_pid_stat(5)).
fn apart(mark: &str) -> io::Result<bool> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        if words.any(|word| word == b"live") && words.any(|word| word == mark.as_bytes()) {
            let stat = fs::read_to_string(entry.path().join("stat"))?;
            let (pid, rest) = stat.split_once(' ').unwrap_or_default();
            let session = rest
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(3));
            return Ok(session == Some(pid));
        }
    }
    Ok(false)
}

/// The probe as who starts it, or as who lives on.
///
/// # Errors
/// When the kernel refuses a step.
pub fn linger(role: &str, mark: &str) -> io::Result<()> {
    match role {
        "start" => {
            let program = std::env::current_exe()?;
            // Not waited for: it is to be nobody's child.
            let _orphan = Command::new(program).args([LINGER, "live", mark]).spawn()?;
        }
        _ => {
            rustix::process::setsid()?;
            nix::sys::prctl::set_pdeathsig(None)?;
            thread::sleep(LIFE);
        }
    }
    Ok(())
}

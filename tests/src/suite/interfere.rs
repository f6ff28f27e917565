//! What happens to the service, or beside a session, while an attempt is under way.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{policy, scene::Scene};

/// How long something may take that others do.
const PATIENCE: Duration = Duration::from_secs(20);

/// For how long a gate is stopped: longer than the five seconds after which others say yes.
const STOPPED: Duration = Duration::from_secs(6);

/// Stops (SIGSTOP) the gate when a probe of this installation runs, and lets it go on.
pub fn stop_gate(scene: &Scene) {
    when_probed(scene, |gate| {
        kill(gate, Signal::SIGSTOP)?;
        thread::sleep(STOPPED);
        kill(gate, Signal::SIGCONT)
    });
}

/// Kills the gate when a probe of this installation runs.
pub fn kill_gate(scene: &Scene) {
    when_probed(scene, |gate| kill(gate, Signal::SIGKILL));
}

fn when_probed(scene: &Scene, what: fn(Pid) -> nix::Result<()>) {
    let (probe, gate) = (
        scene.program("custody-probe"),
        scene.program("custody-gate"),
    );
    let _detached = thread::spawn(move || -> nix::Result<()> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if !running(&probe).is_empty()
                && let [gate] = running(&gate).as_slice()
            {
                return what(*gate);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
}

/// The processes that execute exactly this file.
fn running(program: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it == program))
        .map(Pid::from_raw)
        .collect()
}

/// Waits until the service answers its operator again.
///
/// # Errors
/// When it does not.
pub fn wait_ready(scene: &Scene) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut status = operator(scene);
        status
            .arg("status")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if status.status()?.success() {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < end, "the service does not answer again");
        thread::sleep(Duration::from_millis(20));
    }
}

/// `custody`, as the operator.
pub fn operator(scene: &Scene) -> Command {
    let mut command = Command::new(scene.program("custody"));
    command
        .arg("--socket")
        .arg(scene.control_socket())
        .uid(scene.operator())
        .gid(scene.operator())
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

/// `custody run` of the suite's policy with `recipient` as the trusted one, up to its options.
pub fn session(scene: &Scene, recipient: &str) -> Command {
    let mut command = operator(scene);
    command
        .args(["run", "--policy", policy::NAME, "--value"])
        .arg(format!("{}={recipient}", policy::RECIPIENT));
    command
}

/// A second session, beside the attempt's. There is one at most.
static SECOND: Mutex<Option<Child>> = Mutex::new(None);

/// Starts a second session that has `secret` in its `/tmp` and waits; its shell's pid.
///
/// # Errors
/// When it does not come up.
pub fn second(scene: &Scene, recipient: &str, secret: &str) -> anyhow::Result<i32> {
    end_second()?;
    let mut child = session(scene, recipient)
        .args(["--", "/bin/bash", "-c"])
        .arg(format!(
            "read -r line; echo \"$line\" > /tmp/secret; : \"{MARK}$$\"; echo ready; read -r line"
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("start a second session")?;
    if let Some(stdin) = child.stdin.as_mut() {
        io::Write::write_all(stdin, format!("{secret}\n").as_bytes())?;
    }
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().context("its output")?).read_line(&mut ready)?;
    *SECOND.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    anyhow::ensure!(ready == "ready\n", "the second session does not come up");
    shell(scene).context("the second session's shell")
}

/// What is in the arguments of the second session's shell.
const MARK: &str = "custody-second-session-";

/// The shell of the second session: it has the mark in its arguments, and no more access than a
/// session has.
fn shell(scene: &Scene) -> Option<i32> {
    let own = format!("{MARK}$$");
    let of_operator = |pid: i32| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == scene.operator())
    };
    let entries = fs::read_dir("/proc").ok()?;
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| !of_operator(*pid))
        .find(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| {
                text.starts_with(b"/bin/bash\0")
                    && text.windows(own.len()).any(|part| part == own.as_bytes())
            })
        })
}

/// Ends the second session, if there is one.
///
/// # Errors
/// When it cannot be waited for.
pub fn end_second() -> io::Result<()> {
    let child = SECOND.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut child) = child else {
        return Ok(());
    };
    // The end of its input is the end of its shell.
    drop(child.stdin.take());
    child.wait().map(drop)
}

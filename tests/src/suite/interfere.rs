//! What happens to the service, or beside a session, while an attempt is under way.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
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

/// How long a service that was killed may take until it answers: it reads its last records first,
/// and an emulated machine checks their signatures slowly.
const RESTART: Duration = Duration::from_secs(180);

/// For how long a gate is stopped: longer than the five seconds after which others say yes.
const STOPPED: Duration = Duration::from_secs(6);

/// What is done to the gate while an arm runs. There is one at most.
static UNDER_WAY: Mutex<Option<UnderWay>> = Mutex::new(None);

struct UnderWay {
    /// Set when the arm is over: nothing is begun from then on.
    over: Arc<AtomicBool>,
    done: JoinHandle<anyhow::Result<()>>,
}

/// Stops (SIGSTOP) the gate as soon as `door` is there, makes `stopped`, and lets the gate go on
/// after six seconds: a caller that waits for `stopped` calls a gate that is stopped. [`over`]
/// says whether the caller waited to the end.
pub fn stop_gate(scene: &Scene, door: &Path, stopped: &Path) {
    let (probe, gate) = (
        scene.program("custody-probe"),
        scene.program("custody-gate"),
    );
    let (door, stopped) = (door.to_owned(), stopped.to_owned());
    while_it_runs(move |over| {
        until(over, "no caller came", || door.exists())?;
        let gate = the_only(&gate)?;
        kill(gate, Signal::SIGSTOP)?;
        let waited = (|| {
            fs::write(&stopped, "")?;
            thread::sleep(STOPPED);
            anyhow::ensure!(is_stopped(gate)?, "the gate was not stopped all the time");
            anyhow::ensure!(
                !running(&probe).is_empty() && door.exists(),
                "the caller did not wait for the gate that was stopped"
            );
            Ok(())
        })();
        kill(gate, Signal::SIGCONT)?;
        fs::remove_file(&stopped)?;
        waited
    });
}

/// Kills the gate when a probe of this installation runs. [`over`] says whether it was that one.
pub fn kill_gate(scene: &Scene) {
    let (probe, gate) = (
        scene.program("custody-probe"),
        scene.program("custody-gate"),
    );
    let log = scene.workspace().with_file_name("log");
    while_it_runs(move |over| {
        until(over, "no caller came", || !running(&probe).is_empty())?;
        let gate_pid = the_only(&gate)?;
        let before = fs::metadata(&log)?.len();
        kill(gate_pid, Signal::SIGKILL)?;
        // What is killed on purpose is waited for whether or not the arm is over by then.
        let go_on = AtomicBool::new(false);
        until(&go_on, "the gate that was killed is still there", || {
            !running(&gate).contains(&gate_pid)
        })?;
        until(&go_on, "custodyd does not log that its gate ended", || {
            fs::read(&log).is_ok_and(|bytes| {
                let new = usize::try_from(before).ok().and_then(|at| bytes.get(at..));
                String::from_utf8_lossy(new.unwrap_or_default())
                    .lines()
                    // Of a session only its first reason is said, which may be another.
                    .any(|line| {
                        line.contains("the service ended") && line.contains("service=\"gate\"")
                    })
            })
        })
    });
}

/// The end of what was done to the gate: after it nothing of it is still to come.
///
/// # Errors
/// When it was not done, and why.
pub fn over() -> anyhow::Result<()> {
    let under_way = UNDER_WAY
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let under_way = under_way.context("nothing was to be done to the gate")?;
    under_way.over.store(true, Ordering::Relaxed);
    let joined = under_way.done.join();
    joined.map_err(|_panic| anyhow::anyhow!("what is done to the gate panicked"))?
}

fn while_it_runs(what: impl FnOnce(&AtomicBool) -> anyhow::Result<()> + Send + 'static) {
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let done = thread::spawn(move || what(&seen));
    *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(UnderWay { over, done });
}

/// Waits for `what`, unless the arm is over.
fn until(over: &AtomicBool, why: &str, what: impl Fn() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !what() {
        let is_over = over.load(Ordering::Relaxed) || Instant::now() > end;
        anyhow::ensure!(!is_over, "{why}");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The one process that executes this file.
fn the_only(program: &Path) -> anyhow::Result<Pid> {
    match running(program).as_slice() {
        [pid] => Ok(*pid),
        several => anyhow::bail!("{} processes run {}", several.len(), program.display()),
    }
}

/// Whether a process is stopped: state `T` (proc_pid_stat(5)).
fn is_stopped(pid: Pid) -> anyhow::Result<bool> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    Ok(after_name.starts_with('T'))
}

/// The processes that execute exactly this file.
pub(super) fn running(program: &Path) -> Vec<Pid> {
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
    let end = Instant::now() + RESTART;
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
    if ready != "ready\n" {
        drop(child.stdin.take());
        child.wait()?;
        anyhow::bail!("the second session does not come up");
    }
    *SECOND.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    shell(scene).context("the second session's shell")
}

/// The id of a second session whose application trusts `recipient`; empty if it does not come up,
/// which [`second_is_there`] says.
pub fn second_trusting(scene: &Scene, recipient: &str) -> String {
    second(scene, recipient, "nothing")
        .and_then(|_| only_session(scene))
        .unwrap_or_default()
}

/// The id of the only session that there is, as the operator is told it.
fn only_session(scene: &Scene) -> anyhow::Result<String> {
    let output = operator(scene).args(["ps", "--json"]).output()?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let sessions = said
        .pointer("/sessions")
        .and_then(serde_json::Value::as_array);
    let sessions = sessions.context("a list of sessions")?;
    match sessions.as_slice() {
        [one] => {
            let id = one.get("session").and_then(serde_json::Value::as_str);
            Ok(id.context("a session's id")?.into())
        }
        several => anyhow::bail!("{} sessions, not the second one alone", several.len()),
    }
}

/// Whether the second session runs: without it an attempt on it shows nothing.
///
/// # Errors
/// When it does not.
pub fn second_is_there() -> anyhow::Result<()> {
    let mut second = SECOND.lock().unwrap_or_else(PoisonError::into_inner);
    let child = second
        .as_mut()
        .context("the second session did not start")?;
    anyhow::ensure!(
        child.try_wait()?.is_none(),
        "the second session ended before its time"
    );
    Ok(())
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

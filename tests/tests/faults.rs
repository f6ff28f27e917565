//! kill -9 at every step of a launch, of every program and of custodyd; orders that control would
//! never give. Nothing unconfined ever runs, nothing is left, and whoever asked hears a reason.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use custody_sys::{channel, memfd};
use custody_tests::{
    ground::{self, words},
    host::{Host, PATIENCE},
};
use custody_wire::{
    frame,
    supervise::{CHANNEL_FD, ControlOrder, Start},
};
use gate::id::{PolicyName, SessionId};
use nix::{
    errno::Errno,
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// How many launchers custodyd keeps ready.
const READY: usize = 2;

#[cfg(test)]
/// A session that says in its workspace how it is confined.
struct Marked {
    folder: PathBuf,
}

#[cfg(test)]
impl Marked {
    fn new(host: &Host) -> Self {
        Self {
            folder: host.workspace("marked").unwrap(),
        }
    }

    fn start(&self, host: &Host) -> Child {
        let mut command = host.run("plain", []);
        command.arg("--workdir").arg(&self.folder).args([
            "--",
            "/bin/sh",
            "-c",
            // Connected: its front starts while the command runs.
            "/run/custody/bin/custody-bridge < /dev/null & cat /proc/self/status > marker",
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Whether the command ran; then it was confined.
    fn ran(&self, host: &Host) -> bool {
        let marker = self.folder.join("marker");
        let Ok(status) = fs::read_to_string(&marker) else {
            return false;
        };
        fs::remove_file(&marker).unwrap();
        // A shell that was killed may have written nothing yet.
        if !status.is_empty() {
            is_confined(host, &status);
        }
        true
    }
}

#[cfg(test)]
fn is_confined(host: &Host, status: &str) {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    assert_eq!(field("Seccomp:"), "2", "{status}");
    assert_eq!(field("NoNewPrivs:"), "1", "{status}");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set} {status}");
    }
    let uids: BTreeSet<&str> = field("Uid:").split_whitespace().collect();
    let operator = host.operator().to_string();
    assert_eq!(uids.len(), 1, "{status}");
    assert!(
        !uids.contains("0") && !uids.contains(operator.as_str()),
        "{status}"
    );
}

#[cfg(test)]
fn all_ready(host: &Host) -> Vec<i32> {
    host.wait("the launchers are ready", || {
        host.pids("custody-launch").len() == READY
    })
    .unwrap();
    host.pids("custody-launch")
}

#[cfg(test)]
fn sessions_are_gone(host: &Host) {
    host.wait("the sessions are gone", || {
        host.session_cgroups().is_empty()
    })
    .unwrap();
}

#[cfg(test)]
/// Whether the launcher has built what it can and is in recvmsg(2), for longer than a moment.
fn waits_for_plan(pid: i32) -> bool {
    let call = format!("{} ", nix::libc::SYS_recvmsg);
    (0..2).all(|_| {
        thread::sleep(Duration::from_millis(5));
        fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|it| it.starts_with(&call))
    })
}

#[cfg(test)]
/// The launchers that wait for a plan, under this thread's eyes.
#[derive(Default)]
struct Watch(BTreeSet<i32>);

#[cfg(test)]
impl Watch {
    /// Watches those that are not yet. Each is left in the call that waits for its plan.
    fn all(&mut self, pids: &[i32]) {
        self.0.retain(|pid| pids.contains(pid));
        for pid in pids {
            if self.0.insert(*pid) {
                let pid = Pid::from_raw(*pid);
                ptrace::seize(
                    pid,
                    ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACEEXEC,
                )
                .unwrap();
                ptrace::interrupt(pid).unwrap();
                waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
                // Into the call.
                ptrace::syscall(pid, None).unwrap();
                waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
                ptrace::syscall(pid, None).unwrap();
            }
        }
    }

    /// Reaps those that custodyd has ended: it waits for that.
    fn reap(&mut self) {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        self.0.retain(|pid| {
            matches!(
                waitpid(Pid::from_raw(*pid), Some(flags)),
                Ok(WaitStatus::StillAlive)
            )
        });
    }

    /// The same as [`sessions_are_gone`]: a launcher that was replaced stays a zombie until it is
    /// reaped here, and its cgroup with it.
    fn sessions_are_gone(&mut self, host: &Host) {
        let end = Instant::now() + PATIENCE;
        while !host.session_cgroups().is_empty() {
            self.reap();
            assert!(Instant::now() < end, "{}", host.log_tail());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// All that are kept ready, watched.
    fn ready(&mut self, host: &Host) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.reap();
            let pids = host.pids("custody-launch");
            let waits = |pid: &i32| self.0.contains(pid) || waits_for_plan(*pid);
            if pids.len() == READY && pids.iter().all(waits) {
                return self.all(&pids);
            }
            assert!(Instant::now() < end, "{pids:?}\n{}", host.log_tail());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The one that has got its plan, at the end of that call. None where a launcher that nobody
    /// watched served: mounts of the host had changed, so those were replaced.
    fn first(&mut self, child: &mut Child) -> Option<Pid> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        while child.try_wait().unwrap().is_none() {
            for pid in self.0.clone() {
                match waitpid(Pid::from_raw(pid), Some(flags)) {
                    Ok(WaitStatus::StillAlive) => {}
                    Ok(WaitStatus::PtraceSyscall(it)) => {
                        self.0.remove(&pid);
                        return Some(it);
                    }
                    _ended => {
                        self.0.remove(&pid);
                    }
                }
            }
            thread::sleep(Duration::from_micros(200));
        }
        None
    }
}

#[cfg(test)]
/// Lets `pid` make `steps` more steps; whether it lives then. A step is the beginning or the end of a
/// system call.
fn walk(pid: Pid, steps: usize) -> bool {
    let mut signal = None;
    let mut left = steps;
    while left > 0 {
        ptrace::syscall(pid, signal.take()).unwrap();
        match waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return false,
            WaitStatus::PtraceSyscall(_) => left -= 1,
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::PtraceEvent(..) | WaitStatus::Continued(_) | WaitStatus::StillAlive => {}
        }
    }
    true
}

#[cfg(test)]
fn is_told_why(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    let killed = output.status.code() == Some(128 + Signal::SIGKILL as i32);
    assert!(!output.status.success(), "{}", words(output));
    assert!(
        killed || said.contains("custody-launch was killed by SIGKILL") || said.contains("ended"),
        "{}",
        words(output)
    );
}

#[test]
#[serial_test::file_serial(custody)]
fn a_launch_that_is_killed_at_any_step_runs_nothing_unconfined_and_leaves_nothing() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    let marked = Marked::new(&host);
    let mut watch = Watch::default();
    let mut steps = 0;
    let mut ran = 0;
    loop {
        watch.ready(&host);
        let mut child = marked.start(&host);
        let Some(pid) = watch.first(&mut child) else {
            child.wait().unwrap();
            assert!(marked.ran(&host));
            continue;
        };
        let lives = walk(pid, steps);
        if lives {
            kill(pid, Signal::SIGKILL).unwrap();
            waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let has_run = marked.ran(&host);
        ran += usize::from(has_run);
        watch.sessions_are_gone(&host);
        if !lives {
            assert!(output.status.success(), "step {steps}: {}", words(&output));
            break;
        }
        // Pid 1 may have said already how the command ended.
        if !(output.status.success() && has_run) {
            is_told_why(&output);
        }
        // The beginning of the next call.
        steps += 2;
    }
    say(&format!(
        "killed at {} calls, from the plan to the end; the command had begun in {ran} of them",
        steps / 2
    ));
    assert!(steps > 100, "{steps}");
    assert!(ran > 0, "nothing was killed after the command had begun");
    watch.ready(&host);
    let left = host.leftovers();
    let of = |kind: &str| left.iter().filter(|it| it.starts_with(kind)).count();
    assert_eq!(of("mount"), 0, "{left:?}");
    let launchers = left.iter().filter(|it| it.ends_with("custody-launch"));
    assert_eq!(launchers.count(), READY, "{left:?}");
    assert!(
        !left.iter().any(|it| it.ends_with("custody-init")),
        "{left:?}"
    );
}

#[test]
#[serial_test::file_serial(custody)]
fn a_launch_that_hangs_is_ended_and_says_so() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    let marked = Marked::new(&host);
    for pid in all_ready(&host) {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    }
    let output = marked.start(&host).wait_with_output().unwrap();
    assert!(
        words(&output).contains("longer than 10 s"),
        "{}",
        words(&output)
    );
    assert!(!marked.ran(&host));
    sessions_are_gone(&host);
}

#[test]
#[serial_test::file_serial(custody)]
fn whatever_is_killed_while_sessions_start_what_runs_is_confined_and_the_service_comes_back() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    let marked = Marked::new(&host);
    for program in [
        "custody-front",
        "custody-effect",
        "custody-gate",
        "custody-control",
        "custody-vault",
    ] {
        for pause in [2, 9] {
            let child = marked.start(&host);
            thread::sleep(Duration::from_millis(pause));
            // A front may not be there yet.
            for pid in host.pids(program) {
                match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(errno) => panic!("{errno}"),
                }
            }
            let output = child.wait_with_output().unwrap();
            let ran = marked.ran(&host);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(ran || !said.is_empty(), "{program}: {}", words(&output));
            sessions_are_gone(&host);
            host.wait_ready().unwrap();
        }
    }
    host.wait("a session starts", || {
        marked
            .start(&host)
            .wait_with_output()
            .is_ok_and(|output| output.status.success())
    })
    .unwrap();
    assert!(marked.ran(&host));
}

#[test]
#[serial_test::file_serial(custody)]
fn custodyd_killed_while_a_session_starts_leaves_hooks_and_nothing_that_runs() {
    if !ground::can_run() {
        return;
    }
    let mut host = Host::plain().unwrap();
    let marked = Marked::new(&host);
    let pins = host.pins();
    for pause in [0, 3, 6, 10, 15] {
        let child = marked.start(&host);
        thread::sleep(Duration::from_millis(pause));
        host.kill_daemon().unwrap();
        let output = child.wait_with_output().unwrap();
        host.wait("its programs are gone", || host.processes().is_empty())
            .unwrap();
        let ran = marked.ran(&host);
        assert!(ran || !output.stderr.is_empty(), "{}", words(&output));
        assert_eq!(host.pins(), pins, "hooks stay closed");
        host.up().unwrap();
        sessions_are_gone(&host);
    }
    let output = marked.start(&host).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
}

#[cfg(test)]
/// control's own end of its channel to custodyd.
fn channel_of_control(host: &Host) -> OwnedFd {
    use rustix::process::{Pid as Other, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    let pid = Other::from_raw(host.pid("custody-control").unwrap()).unwrap();
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    pidfd_getfd(&pidfd, CHANNEL_FD, PidfdGetfdFlags::empty()).unwrap()
}

#[test]
#[serial_test::file_serial(custody)]
fn orders_that_are_none_end_control_and_a_user_who_did_not_connect_is_nobodys_caller() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    let channel = channel_of_control(&host);
    // A user's folder, by a control that was taken over: with a connection of its own making.
    let folder = host.workspace("his").unwrap();
    let (forged, _other) = channel::pair_stream().unwrap();
    let command = memfd::sealed(c"command", b"2\0/bin/touch\0marker\0").unwrap();
    let workspace = custody_sys::path::folder(&folder).unwrap();
    let order = ControlOrder::Start(Start {
        session: SessionId(7),
        policy: PolicyName::parse("plain").unwrap(),
        caller_uid: host.operator(),
        from: None,
        workspace: Some(folder.display().to_string()),
        profile: None,
        tty: None,
    });
    let bytes = frame::datagram(&order).unwrap();
    let fds = [forged.as_fd(), command.as_fd(), workspace.as_fd()];
    channel::send(&channel, &bytes, &fds).unwrap();
    host.wait("it is refused", || {
        host.log()
            .contains("an order without the operator's own connection")
    })
    .unwrap();
    assert!(!folder.join("marker").exists());
    sessions_are_gone(&host);

    for garbage in [
        &b"\x01\x0a\xff\xff\xff\xff"[..],
        b"GET / HTTP/1.1",
        &[0; 8000],
    ] {
        let before = host.pid("custody-control").unwrap();
        let channel = channel_of_control(&host);
        channel::send(&channel, garbage, &[]).unwrap();
        host.wait("another control", || {
            host.pid("custody-control").is_ok_and(|pid| pid != before)
        })
        .unwrap();
        host.wait_ready().unwrap();
    }
    assert!(host.log().contains("killed for breaking the protocol"));
    let output = run_true(&host);
    assert!(output.status.success(), "{}", words(&output));
}

#[cfg(test)]
fn run_true(host: &Host) -> Output {
    let mut command: Command = host.run("plain", []);
    command
        .args(["--", "/bin/true"])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
#[serial_test::file_serial(custody)]
fn a_session_whose_pid_1_is_killed_ends_and_says_by_what() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    let mut command = host.run("plain", []);
    let child = command
        .args(["--", "/bin/sleep", "600"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let init = || host.session_inits().first().copied();
    host.wait("it runs", || init().is_some()).unwrap();
    kill(Pid::from_raw(init().unwrap()), Signal::SIGKILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", words(&output));
    sessions_are_gone(&host);
    assert!(host.log().contains("session ended"));
}

#[expect(clippy::print_stdout, reason = "the number is what is asked for")]
fn say(line: &str) {
    println!("{line}");
}

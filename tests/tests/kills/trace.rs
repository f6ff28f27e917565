//! One program is held at its system calls, and killed at one of them.

use std::{
    fs,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Every thread of `pid`, held at its next stop.
fn seize(pid: i32) -> bool {
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE;
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    for thread in threads.flatten() {
        let Some(thread) = thread.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        let thread = Pid::from_raw(thread);
        if ptrace::seize(thread, options).is_err() || ptrace::interrupt(thread).is_err() {
            return false;
        }
    }
    true
}

/// Kills `pid` at its stop `at`, or when `over` says that the call was answered before; how many
/// stops there were, and whether it was killed in mid-call.
pub(crate) fn kill_at(
    pid: i32,
    at: usize,
    ready: &mpsc::Sender<()>,
    over: &AtomicBool,
) -> (usize, bool) {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
    let mut stops = 0;
    let seized = seize(pid);
    ready.send(()).unwrap();
    let mut killed = false;
    let mut in_time = false;
    if !seized {
        over.store(true, Ordering::SeqCst);
    }
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if !killed && (stops >= at || over.load(Ordering::SeqCst)) {
            in_time = stops >= at;
            // It may be gone already.
            let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
            killed = true;
        }
        match waitpid(Pid::from_raw(-1), Some(flags)) {
            Err(_nobody_is_left) => return (stops, in_time),
            Ok(WaitStatus::StillAlive) => {
                assert!(Instant::now() < end, "{pid} is not gone");
                thread::sleep(Duration::from_micros(50));
            }
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                stops += 1;
                if stops < at {
                    let _gone = ptrace::syscall(thread, None);
                }
            }
            Ok(WaitStatus::PtraceEvent(thread, _, _)) => {
                let _gone = ptrace::syscall(thread, None);
            }
            Ok(WaitStatus::Stopped(thread, signal)) => {
                let signal =
                    (signal != Signal::SIGTRAP && signal != Signal::SIGSTOP).then_some(signal);
                let _gone = ptrace::syscall(thread, signal);
            }
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..) | WaitStatus::Continued(_)) => {}
        }
    }
}

//! Traces a program while something else happens.

use std::{thread, time::Duration};

use anyhow::Context as _;
use nix::{
    sys::{
        ptrace,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Traces `pid` while `meanwhile` runs, then stops it, looks `at` it, and lets it go. Each signal stops
/// who is traced, an ignored one too (ptrace(2)), until the tracer lets it on: only this thread can.
pub(super) fn traced<T: Send, R>(
    pid: Pid,
    meanwhile: impl FnOnce() -> T + Send,
    at: impl FnOnce(Pid) -> R,
) -> anyhow::Result<(T, R)> {
    ptrace::seize(pid, ptrace::Options::empty()).context("PTRACE_SEIZE")?;
    let done = thread::scope(|scope| {
        let work = scope.spawn(meanwhile);
        while !work.is_finished() {
            match waitpid(pid, Some(WaitPidFlag::WNOHANG))? {
                WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal)?,
                WaitStatus::PtraceEvent(..) => ptrace::cont(pid, None)?,
                WaitStatus::StillAlive => thread::sleep(Duration::from_millis(2)),
                ended @ (WaitStatus::Continued(_)
                | WaitStatus::Exited(..)
                | WaitStatus::PtraceSyscall(_)
                | WaitStatus::Signaled(..)) => anyhow::bail!("who is traced: {ended:?}"),
            }
        }
        work.join()
            .map_err(|_panic| anyhow::anyhow!("what ran meanwhile panicked"))
    });
    ptrace::interrupt(pid)?;
    waitpid(pid, None)?;
    let seen = at(pid);
    ptrace::detach(pid, None)?;
    Ok((done?, seen))
}

//! One system call made in another process, as a debugger makes it.

use anyhow::{Context as _, ensure};
use nix::{
    libc,
    sys::{
        ptrace,
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Makes `pid` dumpable (PR_SET_DUMPABLE in prctl(2)) and lets it go on.
///
/// # Errors
/// When it cannot be traced, or does not make the call.
pub(super) fn dumpable(pid: Pid) -> anyhow::Result<()> {
    ptrace::attach(pid).context("PTRACE_ATTACH")?;
    stopped(pid)?;
    let before = ptrace::getregs(pid)?;
    let mut call = before;
    // It sleeps in a system call: the two bytes before are the instruction `syscall`.
    call.rip = before.rip.wrapping_sub(2);
    let code = ptrace::read(pid, call.rip as ptrace::AddressType)?;
    ensure!(
        code.to_le_bytes().starts_with(&[0x0f, 0x05]),
        "it is not in a system call"
    );
    // The register holds the bits of a signed number.
    call.rax = u64::try_from(libc::SYS_prctl)?;
    // Not in a call any more, so the kernel starts none again.
    call.orig_rax = u64::MAX;
    call.rdi = u64::try_from(libc::PR_SET_DUMPABLE)?;
    call.rsi = 1;
    call.rdx = 0;
    call.r10 = 0;
    call.r8 = 0;
    ptrace::setregs(pid, call)?;
    ptrace::step(pid, None)?;
    stopped(pid)?;
    let answer = ptrace::getregs(pid)?.rax;
    ptrace::setregs(pid, before)?;
    ptrace::detach(pid, None)?;
    ensure!(answer == 0, "prctl(2) answered {answer:#x}");
    Ok(())
}

fn stopped(pid: Pid) -> anyhow::Result<()> {
    let status = waitpid(pid, None)?;
    ensure!(matches!(status, WaitStatus::Stopped(..)), "{status:?}");
    Ok(())
}

//! What a process says of itself to the kernel (prctl(2)).

// UNSAFETY: CommandExt::pre_exec is the only place between fork and exec.
#![expect(
    unsafe_code,
    reason = "CommandExt::pre_exec, rt_sigaction(2), waitpid(2)"
)]

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitStatus},
};

use nix::sys::{
    prctl,
    signal::{SigSet, Signal},
};

/// Nobody of the same uid may read this process's memory, environment or descriptors, and it
/// leaves no core file (PR_SET_DUMPABLE, ptrace(2)). An exec resets it: first thing in `main`.
///
/// # Errors
/// When prctl(2) fails.
pub fn undumpable() -> io::Result<()> {
    Ok(prctl::set_dumpable(false)?)
}

/// No exec gives more than this process has: no set-user-id, no file capability
/// (PR_SET_NO_NEW_PRIVS). For good.
///
/// # Errors
/// When prctl(2) fails.
pub fn no_new_privs() -> io::Result<()> {
    Ok(prctl::set_no_new_privs()?)
}

/// Whether [`no_new_privs`] holds.
///
/// # Errors
/// When prctl(2) fails.
pub fn has_no_new_privs() -> io::Result<bool> {
    Ok(prctl::get_no_new_privs()?)
}

/// `signal` comes when the thread that made this process ends (PR_SET_PDEATHSIG). A change of
/// ids clears it; `expected_parent` is compared afterwards, for the parent may be gone already.
///
/// # Errors
/// When prctl(2) fails, or the parent is another one by now (ESRCH).
pub fn parent_death_signal(signal: Signal, expected_parent: Option<i32>) -> io::Result<()> {
    prctl::set_pdeathsig(signal)?;
    match expected_parent {
        Some(parent) if nix::unistd::getppid().as_raw() != parent => Err(
            io::Error::from_raw_os_error(nix::errno::Errno::ESRCH as i32),
        ),
        Some(_) | None => Ok(()),
    }
}

/// Reaps one child that ended, whichever; none if none has ended or there is none (wait(2)). nix
/// has no word for an end by a real-time signal, and this one is asked by pid 1.
///
/// # Errors
/// When waitpid(2) fails.
pub fn wait_any() -> io::Result<Option<(i32, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: `status` is a live int that the kernel writes (wait(2)).
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match pid {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            error => Err(error),
        },
        pid => Ok(Some((pid, ExitStatus::from_raw(status)))),
    }
}

/// Starts `command` with no signal blocked and none ignored. Both survive an exec (execve(2)), and
/// the standard library resets SIGPIPE alone.
pub fn with_fresh_signals(command: &mut Command) {
    // SAFETY: `fresh_signals` runs in the child after fork(2), where only async-signal-safe
    // functions are allowed (signal-safety(7)): it calls rt_sigaction(2) and pthread_sigmask(3),
    // allocates nothing and takes no lock.
    unsafe { command.pre_exec(fresh_signals) };
}

fn fresh_signals() -> io::Result<()> {
    // `struct sigaction` of the kernel: handler SIG_DFL, no flag, no restorer, empty mask
    // (arch/x86/include/uapi/asm/signal.h). glibc's own call refuses the two signals that it keeps
    // for itself, and an ignored SIGCANCEL is passed on like any other.
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in 1..=64 {
        let action = DEFAULT.as_ptr();
        let old = std::ptr::null::<u64>();
        // SAFETY: rt_sigaction(2) reads 32 bytes, writes nothing, and sets no handler. It fails
        // for SIGKILL and SIGSTOP, which nobody can ignore.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, action, old, 8_usize) };
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_and_ignored_signals_are_not_passed_on() {
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTERM);
        blocked.add(Signal::SIGUSR1);
        let masks = |fresh: bool| {
            let mut command = Command::new("/bin/grep");
            command.args(["-E", "Sig(Blk|Ign)", "/proc/self/status"]);
            if fresh {
                with_fresh_signals(&mut command);
            }
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        std::thread::spawn(move || {
            blocked.thread_block().unwrap();
            // The control: they are passed on otherwise.
            assert!(masks(false).contains("SigBlk:\t0000000000004200"));
            assert_eq!(
                masks(true),
                "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
            );
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_undumpable_process_says_so() {
        // Of this whole test process, and put back: another test reads /proc/self/mem.
        let _alone = crate::memory::ONE_AT_A_TIME.lock().unwrap();
        let before = prctl::get_dumpable().unwrap();
        undumpable().unwrap();
        assert!(!prctl::get_dumpable().unwrap());
        prctl::set_dumpable(before).unwrap();
    }

    #[test]
    fn a_parent_that_is_gone_is_noticed() {
        let parent = nix::unistd::getppid().as_raw();
        std::thread::spawn(move || {
            parent_death_signal(Signal::SIGTERM, Some(parent)).unwrap();
            let error = parent_death_signal(Signal::SIGTERM, Some(parent + 1)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
            prctl::set_pdeathsig(None).unwrap();
        })
        .join()
        .unwrap();
    }
}

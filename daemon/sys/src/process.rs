//! What a process says of itself to the kernel (prctl(2)).

use std::io;

use nix::sys::{prctl, signal::Signal};

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

#[cfg(test)]
mod tests {
    use super::*;

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

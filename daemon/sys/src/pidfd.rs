//! Descriptors of processes (pidfd_open(2)): a signal that cannot hit another process.

// UNSAFETY: neither std nor nix has pidfd_send_signal(2).
#![expect(unsafe_code, reason = "pidfd_send_signal(2) is a raw system call")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
    ptr,
};

use nix::{
    libc,
    sys::{
        signal::Signal,
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
};

/// Sends `signal` to the process of `pidfd`.
///
/// # Errors
/// ESRCH when it has ended.
pub fn signal(pidfd: impl AsFd, signal: Signal) -> io::Result<()> {
    // SAFETY: pidfd_send_signal(2) takes numbers and, as siginfo, a null pointer, which means
    // what kill(2) would send.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            signal as libc::c_int,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// How the child of `pidfd` ended, which is reaped by this; `None` while it runs.
///
/// # Errors
/// When waitid(2) fails: it is no child of the caller.
pub fn reap(pidfd: impl AsFd) -> io::Result<Option<WaitStatus>> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    let status = waitid(Id::PIDFd(pidfd.as_fd()), flags)?;
    Ok((status != WaitStatus::StillAlive).then_some(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::fd::FromRawFd as _, os::fd::OwnedFd, process::Command};

    #[test]
    fn a_signal_ends_the_child_and_reap_says_which() {
        #[expect(clippy::zombie_processes, reason = "reaped through its pidfd")]
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // SAFETY: pidfd_open(2) takes two numbers.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: the call returned a new descriptor; a failure shows in the next line's use.
        let pidfd = unsafe { OwnedFd::from_raw_fd(i32::try_from(raw).unwrap()) };
        assert_eq!(reap(&pidfd).unwrap(), None);
        signal(&pidfd, Signal::SIGTERM).unwrap();
        let status = loop {
            match reap(&pidfd).unwrap() {
                Some(status) => break status,
                None => std::thread::yield_now(),
            }
        };
        assert!(matches!(
            status,
            WaitStatus::Signaled(_, Signal::SIGTERM, _)
        ));
        assert!(signal(&pidfd, Signal::SIGTERM).is_err());
    }
}

//! Signals as something to read (signalfd(2)): none is lost, none ends this process in between.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

/// Those that are passed on to the command.
const FORWARDED: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// What a signal asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wish {
    /// Pass it on.
    Forward(i32),
    /// The window has another size.
    Resize,
    /// Stop this process until it is continued.
    Suspend,
}

/// The signals that came.
#[derive(Debug)]
pub(super) struct Signals(SignalFd);

impl Signals {
    /// From now on they are read here, and nowhere else.
    pub(super) fn new() -> nix::Result<Self> {
        let mut set = SigSet::empty();
        for signal in FORWARDED {
            set.add(signal);
        }
        set.add(Signal::SIGTSTP);
        set.add(Signal::SIGWINCH);
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }

    /// The next one, if one came.
    pub(super) fn next(&self) -> nix::Result<Option<Wish>> {
        let Some(info) = self.0.read_signal()? else {
            return Ok(None);
        };
        let number = i32::try_from(info.ssi_signo).unwrap_or(0);
        Ok(Some(if number == Signal::SIGWINCH as i32 {
            Wish::Resize
        } else if number == Signal::SIGTSTP as i32 {
            Wish::Suspend
        } else {
            Wish::Forward(number)
        }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

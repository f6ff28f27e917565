//! Bytes from one descriptor to another, without ever waiting for either.

use std::{
    io::{self, IsTerminal as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    poll::PollFlags,
    unistd::{read, write},
};

use super::filter::Filter;

/// How much is held before no more is read.
const HELD_MAX: usize = 64 << 10;

/// The most bytes of one read.
const READ: usize = 16 << 10;

/// The most bytes of one write: what a pipe takes at once that poll(2) calls writable
/// (PIPE_BUF, pipe(7)). The caller's own descriptors stay blocking, for others share them.
const WRITE: usize = 4096;

/// From one descriptor to another.
#[derive(Debug)]
pub(super) struct Pump {
    from: Option<OwnedFd>,
    to: Option<OwnedFd>,
    held: Vec<u8>,
    shown: Option<Shown>,
}

/// What goes to a terminal.
#[derive(Debug)]
struct Shown {
    filter: Filter,
    terminal: OwnedFd,
}

impl Pump {
    /// As it is.
    pub(super) const fn new(from: OwnedFd, to: OwnedFd) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
            held: Vec::new(),
            shown: None,
        }
    }

    /// To the caller's own descriptor: through the filter if it is a terminal.
    pub(super) fn to_caller(from: OwnedFd, to: OwnedFd) -> io::Result<Self> {
        let shown = if to.is_terminal() {
            Some(Shown {
                filter: Filter::default(),
                terminal: to.try_clone()?,
            })
        } else {
            None
        };
        Ok(Self {
            shown,
            ..Self::new(from, to)
        })
    }

    /// What to read from now, if anything may be held.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let from = self.from.as_ref()?;
        (self.held.len() < HELD_MAX).then(|| from.as_fd())
    }

    /// Where to write to now, if something is held.
    pub(super) fn sink(&self) -> Option<BorrowedFd<'_>> {
        let to = self.to.as_ref()?;
        (!self.held.is_empty()).then(|| to.as_fd())
    }

    /// Whether nothing is held that still has a place to go.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() || self.to.is_none()
    }

    /// Whether nothing will ever come through again.
    pub(super) const fn is_closed(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// The source has something, or its end.
    pub(super) fn fill(&mut self, ready: PollFlags) {
        let Some(from) = self.from.as_ref().filter(|_| !ready.is_empty()) else {
            return;
        };
        let mut bytes = vec![0; READ];
        match read(from, &mut bytes) {
            // A pty's master says EIO when the other side is closed by all (pty(7)).
            Ok(0) => self.end(),
            Ok(len) => {
                let bytes = bytes.get(..len).unwrap_or_default();
                match &mut self.shown {
                    Some(shown) => shown.filter.pass(bytes, &mut self.held),
                    None => self.held.extend_from_slice(bytes),
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.end(),
        }
    }

    /// The sink takes something, or is gone.
    pub(super) fn empty(&mut self, ready: PollFlags) {
        let Some(to) = self.to.as_ref().filter(|_| !ready.is_empty()) else {
            return;
        };
        let part = self
            .held
            .get(..self.held.len().min(WRITE))
            .unwrap_or_default();
        match write(to, part) {
            Ok(len) => {
                self.held.drain(..len.min(self.held.len()));
                self.close_if_done();
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // Nobody reads: whoever writes is to learn it.
            Err(_) => self.close(),
        }
    }

    /// Reads no more, and drops both ends.
    pub(super) fn close(&mut self) {
        self.from = None;
        self.to = None;
        self.held.clear();
    }

    fn end(&mut self) {
        self.from = None;
        self.close_if_done();
    }

    /// The end of the source is the end of the sink: a pipe's reader sees it.
    fn close_if_done(&mut self) {
        if self.from.is_none() && self.held.is_empty() {
            self.to = None;
        }
    }
}

impl Drop for Shown {
    /// The terminal is brought back.
    fn drop(&mut self) {
        let mut rest = self.filter.restore();
        while !rest.is_empty() {
            match write(&self.terminal, &rest) {
                Ok(len) => drop(rest.drain(..len.min(rest.len()))),
                Err(Errno::EINTR) => {}
                // A terminal that is gone needs nothing.
                Err(_) => return,
            }
        }
    }
}

/// Reads and writes on `fd` do not wait. For descriptors that are this process's alone.
pub(super) fn unblock(fd: &OwnedFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::pipe;

    #[test]
    fn the_end_of_the_source_is_the_end_of_the_sink() {
        let (source, tap) = pipe().unwrap();
        let (drain, sink) = pipe().unwrap();
        let mut pump = Pump::new(source, sink);
        write(&tap, b"hello").unwrap();
        pump.fill(PollFlags::POLLIN);
        assert!(!pump.is_empty());
        drop(tap);
        pump.fill(PollFlags::POLLHUP);
        pump.empty(PollFlags::POLLOUT);
        let mut bytes = [0; 16];
        assert_eq!(read(&drain, &mut bytes).unwrap(), 5);
        assert_eq!(read(&drain, &mut bytes).unwrap(), 0);
    }

    #[test]
    fn a_sink_that_nobody_reads_closes_the_source() {
        let (source, tap) = pipe().unwrap();
        let (drain, sink) = pipe().unwrap();
        drop(drain);
        let mut pump = Pump::new(source, sink);
        write(&tap, b"hello").unwrap();
        pump.fill(PollFlags::POLLIN);
        pump.empty(PollFlags::POLLERR);
        assert_eq!(write(&tap, b"more").unwrap_err(), Errno::EPIPE);
    }

    #[test]
    fn a_sink_that_is_slow_stops_the_reading() {
        let (source, tap) = pipe().unwrap();
        let (_drain, sink) = pipe().unwrap();
        let mut pump = Pump::new(source, sink);
        for _ in 0..8 {
            write(&tap, &[b'x'; READ]).unwrap();
            pump.fill(PollFlags::POLLIN);
            if pump.source().is_none() {
                assert!(pump.held.len() >= HELD_MAX);
                return;
            }
        }
        panic!("{} bytes are held", pump.held.len());
    }
}

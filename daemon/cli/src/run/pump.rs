//! Bytes from one descriptor to another, without ever waiting for either.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    rc::Rc,
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

/// What goes to a terminal. Two streams may go to the same one, each through a filter of its own:
/// a sequence that one leaves unfinished would take in what the other says next.
#[derive(Debug)]
struct Shown {
    filter: Filter,
    terminal: OwnedFd,
    turn: Turn,
    /// How much is left of a write that the terminal took in part.
    torn: usize,
}

/// Who writes to a terminal now: true while a write of some pump is torn.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Rc<Cell<bool>>);

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
    /// Those that share `turn` write to terminals only one after the other.
    pub(super) fn to_caller(from: OwnedFd, to: OwnedFd, turn: &Turn) -> io::Result<Self> {
        let shown = if to.is_terminal() {
            Some(Shown {
                filter: Filter::default(),
                terminal: to.try_clone()?,
                turn: turn.clone(),
                torn: 0,
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
        let may = self.shown.as_ref().is_none_or(Shown::may_write);
        (may && !self.held.is_empty()).then(|| to.as_fd())
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
        let part = self.held.get(..WRITE).unwrap_or(&self.held);
        let part = match &self.shown {
            Some(shown) if !shown.may_write() => return,
            Some(shown) => shown.whole(part),
            None => part,
        };
        match write(to, part) {
            Ok(len) => {
                if let Some(shown) = &mut self.shown {
                    shown.wrote(part.len().saturating_sub(len));
                }
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
        if let Some(shown) = &mut self.shown {
            shown.wrote(0);
        }
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

impl Shown {
    /// Whether no other pump's write is torn.
    fn may_write(&self) -> bool {
        self.torn > 0 || !self.turn.0.get()
    }

    /// The sequences and characters of `part` that are whole; of a torn write, its rest.
    fn whole<'a>(&self, part: &'a [u8]) -> &'a [u8] {
        if self.torn > 0 {
            return part.get(..self.torn).unwrap_or(part);
        }
        // What a filter passed, another passes unchanged, and only when it is whole. The longest
        // sequence is far shorter than a write, so there is always one.
        let mut whole = Vec::with_capacity(part.len());
        Filter::default().pass(part, &mut whole);
        part.get(..whole.len()).unwrap_or(part)
    }

    /// All was written but `rest`.
    fn wrote(&mut self, rest: usize) {
        if self.torn > 0 || rest > 0 {
            self.turn.0.set(rest > 0);
        }
        self.torn = rest;
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

    /// What a terminal gets of `out` and `err`, both shown on it; it is read when `read_at` says.
    fn on_one_terminal(out: &[u8], err: &[u8], read_at: impl Fn(usize) -> bool) -> Vec<u8> {
        let pty = nix::pty::openpty(None, None).unwrap();
        let mut raw = nix::sys::termios::tcgetattr(&pty.slave).unwrap();
        nix::sys::termios::cfmakeraw(&mut raw);
        nix::sys::termios::tcsetattr(&pty.slave, nix::sys::termios::SetArg::TCSANOW, &raw).unwrap();
        unblock(&pty.master).unwrap();
        // So that a full terminal takes a part.
        unblock(&pty.slave).unwrap();
        let turn = Turn::default();
        let mut pumps = [out, err].map(|bytes| {
            let (source, tap) = pipe().unwrap();
            write(&tap, bytes).unwrap();
            Pump::to_caller(source, pty.slave.try_clone().unwrap(), &turn).unwrap()
        });
        let mut got = Vec::new();
        for round in 0..400 {
            for pump in &mut pumps {
                pump.fill(PollFlags::POLLIN);
                pump.empty(PollFlags::POLLOUT);
            }
            let mut bytes = [0; 1000];
            if read_at(round)
                && let Ok(len) = read(&pty.master, &mut bytes)
            {
                got.extend_from_slice(bytes.get(..len).unwrap());
            }
        }
        assert!(pumps.iter().all(Pump::is_empty), "all is written");
        got
    }

    #[test]
    fn two_streams_on_one_terminal_never_make_a_sequence_together() {
        let clipboard = b"]52;c;cm0gLXJmIH4K\x07".repeat(400);
        for before in (WRITE - 8)..=WRITE {
            let cut = [
                &vec![b'x'; before][..],
                &b"\x1b[31m\x1b]0;t\x07".repeat(900),
            ]
            .concat();
            for pause in [1, 3] {
                let got = on_one_terminal(&cut, &clipboard, |round| round % pause == 0);
                assert_eq!(got.len(), cut.len() + clipboard.len());
                let shown = String::from_utf8_lossy(&got);
                assert!(!shown.contains("\x1b]52"), "{before} bytes before it");
                // Nor is any sequence broken off by the other stream.
                let mut again = Vec::new();
                Filter::default().pass(&got, &mut again);
                assert!(again == got, "{before} bytes before it");
            }
        }
    }

    #[test]
    fn a_torn_write_is_finished_before_another_stream_goes_on() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let turn = Turn::default();
        let [mut one, mut other] = [b"\x1b[31m", b"]52;c"].map(|bytes| {
            let (source, tap) = pipe().unwrap();
            write(&tap, bytes).unwrap();
            Pump::to_caller(source, pty.slave.try_clone().unwrap(), &turn).unwrap()
        });
        one.fill(PollFlags::POLLIN);
        other.fill(PollFlags::POLLIN);
        one.shown.as_mut().unwrap().wrote(4);
        assert!(other.sink().is_none());
        other.empty(PollFlags::POLLOUT);
        assert_eq!(other.held, b"]52;c");
        assert!(one.sink().is_some());
        one.held.drain(..1);
        one.empty(PollFlags::POLLOUT);
        assert!(one.held.is_empty());
        assert!(other.sink().is_some());
    }
}

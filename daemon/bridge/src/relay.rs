//! Bytes between two streams and a socket, with back pressure and half-close.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, Shutdown, recv, send, shutdown},
    unistd::{read, write},
};

/// What is held of each direction before its reader waits for its writer.
const ROOM: usize = 64 << 10;

/// The most that is written to standard output at once. Where poll(2) says that a pipe is
/// writable, PIPE_BUF bytes do not block (pipe(7)); the descriptor is not made non-blocking, for
/// it is shared.
const AT_ONCE: usize = 4096;

/// Who ended first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The client closed its input or no longer reads; the service then closed too.
    Client,
    /// The service closed while the client was still there.
    Service,
}

/// What failed.
#[derive(Debug)]
pub struct RelayError {
    /// The stream and the call.
    step: &'static str,
    source: io::Error,
}

impl std::fmt::Display for RelayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed: {}", self.step, self.source)
    }
}

impl std::error::Error for RelayError {}

/// One direction: what was read and not yet written.
#[derive(Debug)]
struct Flow {
    held: Vec<u8>,
    written: usize,
    ended: bool,
}

impl Flow {
    fn new() -> Self {
        Self {
            held: Vec::with_capacity(ROOM),
            written: 0,
            ended: false,
        }
    }

    fn pending(&self) -> &[u8] {
        self.held.get(self.written..).unwrap_or_default()
    }

    fn wants_more(&self) -> bool {
        !self.ended && self.pending().is_empty()
    }

    /// Takes the next bytes from `read`; none is the end.
    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> nix::Result<usize>) -> nix::Result<()> {
        self.written = 0;
        self.held.resize(ROOM, 0);
        let got = read(&mut self.held);
        self.held.truncate(*got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => self.ended = true,
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
            // A peer that went away has ended.
            Err(Errno::ECONNRESET | Errno::EIO) => self.ended = true,
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Gives bytes to `write`; whether the reader is still there.
    fn drain(&mut self, write: impl FnOnce(&[u8]) -> nix::Result<usize>) -> nix::Result<bool> {
        match write(self.pending()) {
            Ok(count) => self.written = self.written.saturating_add(count),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }
}

/// Relays until the service has closed its side and all of it was written, or the client no
/// longer reads. The end of the client's input closes only that direction.
///
/// # Errors
/// When a call fails for another reason than an end.
pub fn relay(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    socket: BorrowedFd<'_>,
) -> Result<Ended, RelayError> {
    let (mut asked, mut answered) = (Flow::new(), Flow::new());
    let mut half_closed = false;
    let mut refused = false;
    loop {
        if asked.ended && asked.pending().is_empty() && !half_closed {
            // ENOTCONN: the service was faster.
            match shutdown(socket.as_raw_fd(), Shutdown::Write) {
                Ok(()) | Err(Errno::ENOTCONN) => half_closed = true,
                Err(errno) => return Err(failed("shutdown(2) of the session's socket", errno)),
            }
        }
        if answered.ended && answered.pending().is_empty() {
            return Ok(if asked.ended && !refused {
                Ended::Client
            } else {
                Ended::Service
            });
        }

        let when = |flag, wanted| if wanted { flag } else { PollFlags::empty() };
        let of_service = when(PollFlags::POLLIN, answered.wants_more())
            | when(PollFlags::POLLOUT, !asked.pending().is_empty());
        // An end that was seen, or that must wait, would make poll(2) return at once and for
        // ever: where nothing is wanted the output stands in.
        let mut watched = [
            PollFd::new(
                if asked.wants_more() { input } else { output },
                when(PollFlags::POLLIN, asked.wants_more()),
            ),
            PollFd::new(
                output,
                when(PollFlags::POLLOUT, !answered.pending().is_empty()),
            ),
            PollFd::new(
                if of_service.is_empty() {
                    output
                } else {
                    socket
                },
                of_service,
            ),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed("poll(2)", errno)),
        }
        let [from_client, to_client, service] =
            watched.map(|one| one.revents().unwrap_or(PollFlags::empty()));

        if to_client.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL) {
            return Ok(Ended::Client);
        }
        if asked.wants_more() && !from_client.is_empty() {
            let step = "read(2) of standard input";
            asked
                .fill(|room| read(input, room))
                .map_err(|errno| failed(step, errno))?;
        }
        if !answered.pending().is_empty() && to_client.contains(PollFlags::POLLOUT) {
            let step = "write(2) of standard output";
            let there = answered
                .drain(|held| write(output, held.get(..AT_ONCE).unwrap_or(held)))
                .map_err(|errno| failed(step, errno))?;
            if !there {
                return Ok(Ended::Client);
            }
        }
        if of_service.is_empty() || service.is_empty() {
            continue;
        }
        if answered.wants_more() {
            let step = "recv(2) of the session's socket";
            answered
                .fill(|room| recv(socket.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT))
                .map_err(|errno| failed(step, errno))?;
        }
        if !asked.pending().is_empty() {
            let step = "send(2) to the session's socket";
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let there = asked
                .drain(|held| send(socket.as_raw_fd(), held, flags))
                .map_err(|errno| failed(step, errno))?;
            if !there {
                // Nobody takes it; what the service said before is still to be written.
                asked.written = asked.held.len();
                asked.ended = true;
                half_closed = true;
                refused = true;
            }
        }
    }
}

fn failed(step: &'static str, errno: Errno) -> RelayError {
    RelayError {
        step,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read as _, Write as _},
        os::{
            fd::{AsFd as _, OwnedFd},
            unix::net::UnixStream,
        },
        thread,
    };

    fn pipe() -> (std::fs::File, std::fs::File) {
        let (reader, writer): (OwnedFd, OwnedFd) = nix::unistd::pipe().unwrap();
        (reader.into(), writer.into())
    }

    struct Bench {
        to: Option<std::fs::File>,
        from: Option<std::fs::File>,
        service: UnixStream,
        bridge: thread::JoinHandle<Result<Ended, RelayError>>,
    }

    fn bench() -> Bench {
        let (input, to) = pipe();
        let (from, output) = pipe();
        let (socket, service) = UnixStream::pair().unwrap();
        let bridge = thread::spawn(move || relay(input.as_fd(), output.as_fd(), socket.as_fd()));
        Bench {
            to: Some(to),
            from: Some(from),
            service,
            bridge,
        }
    }

    #[test]
    fn bytes_go_both_ways_and_the_end_of_input_closes_one_direction_only() {
        let mut bench = bench();
        let (mut to, mut from) = (bench.to.take().unwrap(), bench.from.take().unwrap());
        to.write_all(b"question").unwrap();
        drop(to);
        let mut asked = String::new();
        bench.service.read_to_string(&mut asked).unwrap();
        assert_eq!(asked, "question");
        bench.service.write_all(b"answer").unwrap();
        drop(bench.service);
        let mut answered = String::new();
        from.read_to_string(&mut answered).unwrap();
        assert_eq!(answered, "answer");
        assert_eq!(bench.bridge.join().unwrap().unwrap(), Ended::Client);
    }

    #[test]
    fn megabytes_pass_whole_against_a_slow_reader() {
        let mut bench = bench();
        let (mut to, mut from) = (bench.to.take().unwrap(), bench.from.take().unwrap());
        let sent: Vec<u8> = (0..3_000_017_u32)
            .map(|n| n.to_le_bytes()[0] ^ 0x5a)
            .collect();
        let question = sent.clone();
        let client = thread::spawn(move || to.write_all(&question).unwrap());
        let mut echo = bench.service.try_clone().unwrap();
        let service = thread::spawn(move || {
            let mut buffer = [0; 1000];
            loop {
                match bench.service.read(&mut buffer).unwrap() {
                    0 => break,
                    len => echo.write_all(&buffer[..len]).unwrap(),
                }
            }
        });
        let mut got = Vec::new();
        let mut buffer = [0; 777];
        loop {
            match from.read(&mut buffer).unwrap() {
                0 => break,
                len => got.extend_from_slice(&buffer[..len]),
            }
        }
        client.join().unwrap();
        service.join().unwrap();
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
        assert_eq!(bench.bridge.join().unwrap().unwrap(), Ended::Client);
    }

    #[test]
    fn a_service_that_closes_first_is_told_apart_and_its_last_words_arrive() {
        let mut bench = bench();
        let mut from = bench.from.take().unwrap();
        bench.service.write_all(b"last words").unwrap();
        drop(bench.service);
        let mut answered = String::new();
        from.read_to_string(&mut answered).unwrap();
        assert_eq!(answered, "last words");
        assert_eq!(bench.bridge.join().unwrap().unwrap(), Ended::Service);
    }

    #[test]
    fn a_client_that_no_longer_reads_ends_the_bridge() {
        let mut bench = bench();
        drop(bench.from.take());
        assert_eq!(bench.bridge.join().unwrap().unwrap(), Ended::Client);
        let mut rest = Vec::new();
        bench.service.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}

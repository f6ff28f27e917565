//! Over AF_UNIX: deputies that listen on this machine and hold a credential of their own.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::{
    Attack, Effect, Report,
    network::{PATIENCE, answer},
};

/// Where a socket of AF_UNIX is.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// An abstract name (unix(7)).
    Abstract(String),
    /// One that the probe makes itself, under `/tmp`: the twin's target.
    Own,
    /// A path.
    Path(PathBuf),
}

/// How it is spoken to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// socket(2) of SOCK_DGRAM, and sendto(2) with an address.
    Datagram,
    /// connect(2) of SOCK_SEQPACKET.
    Packets,
    /// One end of socketpair(2) of SOCK_DGRAM, connect(2), and send(2).
    PairConnect,
    /// One end of socketpair(2) of SOCK_DGRAM, and sendto(2) with an address.
    PairDatagram,
    /// connect(2) of SOCK_STREAM.
    Stream,
}

pub(super) fn speak(to: &Address, how: How, effect: &Effect, report: &mut Report) -> Option<()> {
    let own;
    let address = match to {
        Address::Abstract(name) => report.step(
            "address",
            SocketAddrUnix::new_abstract_name(name.as_bytes()),
        )?,
        Address::Own => {
            own = Own::listen(report)?;
            report.step("address", SocketAddrUnix::new(own.path()))?
        }
        Address::Path(path) => report.step("address", SocketAddrUnix::new(path.as_path()))?,
    };
    let request = effect.request();
    match how {
        How::Datagram => {
            let socket = socket("socket SOCK_DGRAM", SocketType::DGRAM, report)?;
            let sent = rustix::net::sendto(&socket, &request, SendFlags::NOSIGNAL, &address);
            report.step("sendto", sent).map(drop)
        }
        How::PairConnect => {
            let ours = pair(report)?;
            report.step("connect", rustix::net::connect(&ours, &address))?;
            let sent = rustix::net::send(&ours, &request, SendFlags::NOSIGNAL);
            report.step("send", sent).map(drop)
        }
        How::PairDatagram => {
            let ours = pair(report)?;
            let sent = rustix::net::sendto(&ours, &request, SendFlags::NOSIGNAL, &address);
            report.step("sendto", sent).map(drop)
        }
        How::Packets | How::Stream => {
            let kind = match how {
                How::Packets => SocketType::SEQPACKET,
                How::Datagram | How::PairConnect | How::PairDatagram | How::Stream => {
                    SocketType::STREAM
                }
            };
            let socket = socket("socket AF_UNIX", kind, report)?;
            report.step("connect", rustix::net::connect(&socket, &address))?;
            say(&mut UnixStream::from(socket), effect, report)
        }
    }
}

fn socket(step: &str, kind: SocketType, report: &mut Report) -> Option<OwnedFd> {
    let made = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    report.step(step, made)
}

/// One end of a pair; the other is gone, and nobody misses it.
fn pair(report: &mut Report) -> Option<OwnedFd> {
    let made = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    report
        .step("socketpair SOCK_DGRAM", made)
        .map(|(ours, _)| ours)
}

/// Says the effect to a connected stream and hears the answer.
pub(super) fn say(stream: &mut UnixStream, effect: &Effect, report: &mut Report) -> Option<()> {
    report.step("send", stream.write_all(&effect.request()))?;
    answer(&mut Waiting(stream), report)
}

/// Waits by poll(2) before each read. A timeout on the socket (SO_RCVTIMEO, socket(7)) would hold
/// for whoever else has it open: one that was taken from another process is still its own too.
struct Waiting<'s>(&'s mut UnixStream);

impl io::Read for Waiting<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut wanted = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
        if poll(&mut wanted, patience)? == 0 {
            // As a socket with a timeout says it.
            return Err(rustix::io::Errno::AGAIN.into());
        }
        self.0.read(bytes)
    }
}

/// Asks for what only then appears, attacks, and lets it go away again.
pub(super) fn knock(door: &Path, opens: &Path, then: &Attack, report: &mut Report) -> Option<()> {
    report.step("knock", std::fs::write(door, ""))?;
    let end = Instant::now() + PATIENCE;
    while !opens.exists() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    report.absorb(super::run(then));
    report.step("unlink", std::fs::remove_file(door))?;
    while opens.exists() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    Some(())
}

/// Takes what is handed out at `by`, and says the effect to it.
pub(super) fn passed(by: &Path, effect: &Effect, report: &mut Report) -> Option<()> {
    let stream = report.step("connect", UnixStream::connect(by))?;
    report.step("setsockopt", stream.set_read_timeout(Some(PATIENCE)))?;
    let mut bytes = [0; 64];
    let received = custody_sys::channel::recv(stream.as_fd(), &mut bytes, 1);
    let (_, fds) = report.step("recvmsg", received)?;
    let Some(given) = fds.into_iter().next() else {
        report.words("recvmsg", "no descriptor came");
        return None;
    };
    say(&mut UnixStream::from(given), effect, report)
}

/// Hands a connection to an echo to the first who asks.
pub(super) fn give(listener: &UnixListener) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let (given, ours) = UnixStream::pair()?;
    custody_sys::channel::send(stream.as_fd(), b"take it", &[given.as_fd()])?;
    drop(given);
    answer_once(ours)
}

/// A listener of the probe's own that answers one request with what it was asked.
#[derive(Debug)]
struct Own(tempfile::TempDir);

impl Own {
    fn listen(report: &mut Report) -> Option<Self> {
        let folder = report.step("mkdir", tempfile::tempdir_in("/tmp"))?;
        let own = Self(folder);
        let listener = report.step("bind", UnixListener::bind(own.path()))?;
        let _detached = thread::spawn(move || echo(&listener));
        Some(own)
    }

    fn path(&self) -> PathBuf {
        Path::new(self.0.path()).join("own.sock")
    }
}

fn echo(listener: &UnixListener) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    answer_once(stream)
}

fn answer_once(mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request)?;
    request.truncate(read);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
        request.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_spoken_to_waits_as_it_did_before() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let answered = thread::spawn(move || answer_once(theirs));
        let effect = Effect {
            token: None,
            nonce: "nonce1".into(),
        };
        let mut report = Report::default();
        say(&mut ours, &effect, &mut report).unwrap();
        answered.join().unwrap().unwrap();
        assert!(report.said.contains("nonce1"), "{report:?}");
        assert_eq!(ours.read_timeout().unwrap(), None);
    }
}

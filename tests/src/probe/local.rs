//! Over AF_UNIX: deputies that listen on this machine and hold a credential of their own.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    thread,
};

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::{
    Effect, Report,
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
    match how {
        How::PairDatagram => {
            let (ours, _other) = report.step(
                "socketpair SOCK_DGRAM",
                rustix::net::socketpair(
                    AddressFamily::UNIX,
                    SocketType::DGRAM,
                    SocketFlags::CLOEXEC,
                    None,
                ),
            )?;
            let sent = rustix::net::sendto(&ours, &effect.request(), SendFlags::NOSIGNAL, &address);
            report.step("sendto", sent).map(drop)
        }
        How::Stream => {
            let socket = report.step(
                "socket AF_UNIX",
                rustix::net::socket_with(
                    AddressFamily::UNIX,
                    SocketType::STREAM,
                    SocketFlags::CLOEXEC,
                    None,
                ),
            )?;
            report.step("connect", rustix::net::connect(&socket, &address))?;
            say(&mut UnixStream::from(socket), effect, report)
        }
    }
}

/// Says the effect to a connected stream and hears the answer.
pub(super) fn say(stream: &mut UnixStream, effect: &Effect, report: &mut Report) -> Option<()> {
    report.step("setsockopt", stream.set_read_timeout(Some(PATIENCE)))?;
    report.step("send", stream.write_all(&effect.request()))?;
    answer(stream, report)
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
    let (mut stream, _) = listener.accept()?;
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

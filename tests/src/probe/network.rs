//! Over the network: the ways to make a TCP connection that filters have missed.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use serde::{Deserialize, Serialize};

use super::{Effect, Report};

/// How long an attack waits for the other end.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// MSG_FASTOPEN (linux/socket.h): connect and send in one call.
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// How a TCP connection is made.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tcp {
    /// connect(2).
    Connect,
    /// sendto(2) with MSG_FASTOPEN, no connect(2) at all.
    FastOpen,
    /// Multipath TCP (RFC 8684), another protocol number.
    Multipath,
}

pub(super) fn tcp(to: SocketAddr, how: Tcp, effect: &Effect, report: &mut Report) -> Option<()> {
    let protocol = match how {
        Tcp::Connect | Tcp::FastOpen => None,
        Tcp::Multipath => Some(ipproto::MPTCP),
    };
    let socket = report.step(
        "socket",
        rustix::net::socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            protocol,
        ),
    )?;
    for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        report.step(
            "setsockopt",
            sockopt::set_socket_timeout(&socket, timeout, Some(PATIENCE)),
        )?;
    }
    let request = effect.request();
    let mut stream = match how {
        Tcp::Connect | Tcp::Multipath => {
            report.step("connect", rustix::net::connect(&socket, &to))?;
            let mut stream = TcpStream::from(socket);
            report.step("send", io::Write::write_all(&mut stream, &request))?;
            stream
        }
        Tcp::FastOpen => {
            let flags = SendFlags::from_bits_retain(MSG_FASTOPEN);
            report.step(
                "sendto MSG_FASTOPEN",
                rustix::net::sendto(&socket, &request, flags, &to),
            )?;
            TcpStream::from(socket)
        }
    };
    answer(&mut stream, report)
}

/// Reads one HTTP answer, as far as it comes.
pub(super) fn answer(from: &mut impl io::Read, report: &mut Report) -> Option<()> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while !whole(&bytes) {
        match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            Err(error) => {
                report.heard(&bytes);
                return report.step("recv", Err(error));
            }
        }
    }
    report.heard(&bytes);
    report.step("recv", Ok::<(), io::Error>(()))
}

/// Whether head and body are here.
fn whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0);
    body.len() >= length
}

//! A deputy over IP, on loopback: whoever reaches it reaches the witness.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto};
use serde::{Deserialize, Serialize};

use super::{Upstream, deputy};

/// Where nobody else on a host listens: not 127.0.0.1.
const QUIET: Ipv4Addr = Ipv4Addr::new(127, 66, 66, 66);

/// How often the caller tries.
const OFTEN: Duration = Duration::from_millis(20);

/// Where it serves, and where it calls.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Where it calls: whoever listens there is heard and obeyed.
    pub calls: SocketAddr,
    /// HTTP over IPv6, where the host has that.
    pub tcp6: Option<SocketAddr>,
    /// One request a datagram.
    pub udp: SocketAddr,
    /// The same over UDP-Lite (RFC 3828), where the kernel has that.
    pub udp_lite: Option<SocketAddr>,
}

pub(super) fn serve(upstream: &Arc<Upstream>) -> io::Result<Ports> {
    let calls = TcpListener::bind((QUIET, 0))?.local_addr()?;
    let caller = Arc::clone(upstream);
    let _detached = thread::spawn(move || call(calls, &caller));

    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ports = Ports {
        calls,
        tcp6: tcp6(upstream).ok(),
        udp: udp.local_addr()?,
        udp_lite: udp_lite(upstream).ok(),
    };
    let upstream = Arc::clone(upstream);
    let _detached = thread::spawn(move || deputy::datagrams(|bytes| udp.recv(bytes), &upstream));
    Ok(ports)
}

/// An outsider who calls in and does what it is told.
fn call(to: SocketAddr, upstream: &Upstream) {
    loop {
        if let Ok(stream) = TcpStream::connect(to) {
            // Who hangs up is called again.
            drop(deputy::stream(&stream, upstream));
        }
        thread::sleep(OFTEN);
    }
}

fn tcp6(upstream: &Arc<Upstream>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let upstream = Arc::clone(upstream);
    let _detached = thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let upstream = Arc::clone(&upstream);
            let _detached = thread::spawn(move || deputy::stream(&stream, &upstream));
        }
    });
    Ok(address)
}

fn udp_lite(upstream: &Arc<Upstream>) -> io::Result<SocketAddr> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(ipproto::UDPLITE),
    )?;
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = rustix::net::getsockname(&socket)?;
    let address = SocketAddr::try_from(address).map_err(io::Error::from)?;
    let upstream = Arc::clone(upstream);
    let receive = move |bytes: &mut [u8]| {
        let (read, _) = rustix::net::recv(&socket, bytes, RecvFlags::empty())?;
        Ok(read)
    };
    let _detached = thread::spawn(move || deputy::datagrams(receive, &upstream));
    Ok(address)
}

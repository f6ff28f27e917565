//! Families, and sockets of another's.

use std::{
    net::{TcpListener, TcpStream, UdpSocket},
    os::{fd::AsFd as _, unix::net::UnixListener},
};

use agent_ebpf::Hook;
use serial_test::file_serial;

use crate::arena::{Arena, Place};

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_session_makes_unix_streams_and_no_other_socket() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    for (family, kind, protocol) in [
        ("AF_NETLINK", "SOCK_RAW", 0),
        ("AF_VSOCK", "SOCK_STREAM", 0),
        ("AF_INET", "SOCK_STREAM", 0),
        ("AF_INET", "SOCK_STREAM", 262), // MPTCP
        ("AF_INET", "SOCK_DGRAM", 0),
        ("AF_INET6", "SOCK_DGRAM", 136), // UDP-Lite
        ("AF_PACKET", "SOCK_RAW", 0),
        ("AF_UNIX", "SOCK_DGRAM", 0),
    ] {
        arena.refused(
            Hook::LsmSocketCreate,
            &format!(
                "print(tried(lambda: socket.socket(socket.{family}, socket.{kind}, {protocol})))"
            ),
        );
    }
    arena.refused(
        Hook::LsmSocketCreate,
        "print(tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)))",
    );
    for kind in ["SOCK_STREAM", "SOCK_SEQPACKET"] {
        arena.reached(&format!(
            "a, b = socket.socketpair(socket.AF_UNIX, socket.{kind})\n\
             print(tried(lambda: (a.send(b'x'), b.recv(1))))"
        ));
    }
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_session_connects_to_listeners_of_its_own_and_no_others_whatever_their_path() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let path = arena.folder().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let to = |address: &str| {
        format!("s = socket.socket(socket.AF_UNIX)\nprint(tried(lambda: s.connect({address})))")
    };
    arena.refused(
        Hook::LsmUnixStreamConnect,
        &to(&format!("'{}'", path.display())),
    );
    let own = |address: &str| {
        format!(
            "l = socket.socket(socket.AF_UNIX); l.bind({address}); l.listen()\n\
             s = socket.socket(socket.AF_UNIX)\n\
             print(tried(lambda: (s.connect({address}), l.accept())))"
        )
    };
    arena.reached(&own("'\\0custody-lsm-%d' % os.getpid()"));
    let inside = arena.hooks().tally(arena.id(Place::Session)).unwrap();
    assert!(inside.allowed[&Hook::LsmUnixStreamConnect] >= 2);
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_socket_from_outside_is_of_no_use_inside() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connected = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut server, &[b'y'; 64]).unwrap();
    let inherited = "s = socket.socket(fileno=3)\n";
    let tried = |what: &str| format!("{inherited}print(tried(lambda: {what}))");
    arena.refused_with(
        Hook::LsmSocketSendmsg,
        &tried("s.send(b'x')"),
        &[connected.as_fd()],
    );
    arena.refused_with(
        Hook::LsmSocketSendmsg,
        &tried("os.write(3, b'x')"),
        &[connected.as_fd()],
    );
    arena.refused_with(
        Hook::LsmSocketRecvmsg,
        &tried("s.recv(1)"),
        &[connected.as_fd()],
    );

    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("s.sendto(b'x', ('127.0.0.1', {}))", address.port());
    arena.refused_with(Hook::LsmSocketSendmsg, &tried(&to), &[udp.as_fd()]);
    arena.refused_with(
        Hook::LsmSocketConnect,
        &tried(&format!("s.connect(('127.0.0.1', {}))", address.port())),
        &[udp.as_fd()],
    );
    let fresh = || {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap()
    };
    arena.refused_with(
        Hook::LsmSocketBind,
        &tried("s.bind(('127.0.0.1', 0))"),
        &[fresh().as_fd()],
    );
    // listen(2) without bind(2) gets a port by itself.
    arena.refused_with(
        Hook::LsmSocketListen,
        &tried("s.listen()"),
        &[fresh().as_fd()],
    );
    let _waits: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    arena.refused_with(
        Hook::LsmSocketAccept,
        &tried("s.accept()"),
        &[listener.as_fd()],
    );
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_datagram_socket_from_the_launch_sends_to_nobody_outside() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let path = arena.folder().join("datagrams");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let answer = arena.run_sealed_between(
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        &format!("print(tried(lambda: s.sendto(b'x', '{}')))", path.display()),
    );
    assert_eq!(answer, "EPERM");
    assert!(
        arena
            .events()
            .iter()
            .any(|event| event.hook() == Some(Hook::LsmUnixMaySend))
    );
    assert!(socket.recv(&mut [0; 8]).is_err(), "nothing arrived");
}

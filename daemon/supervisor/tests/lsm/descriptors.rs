//! Descriptors that are passed.

use std::{
    fs::File,
    io::IoSlice,
    net::TcpListener,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd},
};

use agent_ebpf::Hook;
use custody_sys::channel;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};
use serial_test::file_serial;

use crate::arena::{Arena, Place};

const AGENT: &str = "os.setresuid(65534, 65534, 65534)\n";

/// A pair as custodyd's own channel to a session is; a descriptor waits in it.
fn passed(arena: &Arena, fd: RawFd) -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = channel::pair_stream().unwrap();
    let mark = arena.hooks().mark().unwrap();
    setsockopt(&theirs, sockopt::Mark, &mark).unwrap();
    sendmsg::<()>(
        ours.as_raw_fd(),
        &[IoSlice::new(b"x")],
        &[ControlMessage::ScmRights(&[fd])],
        MsgFlags::empty(),
        None,
    )
    .unwrap();
    (ours, theirs)
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn neither_a_file_nor_a_socket_from_outside_arrives() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let receive =
        format!("{AGENT}s = socket.socket(fileno=3)\nprint(len(socket.recv_fds(s, 1, 4)[1]))");
    let file = File::open("/etc/passwd").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for fd in [file.as_raw_fd(), listener.as_raw_fd()] {
        for (place, arrive) in [
            (Place::Outside, "1"),
            (Place::Session, "0"),
            (Place::Below, "0"),
        ] {
            let (_ours, theirs) = passed(&arena, fd);
            assert_eq!(
                arena.run(place, &receive, &[theirs.as_fd()]),
                arrive,
                "{place:?}"
            );
        }
    }
    let received = arena
        .events()
        .into_iter()
        .filter(|event| event.hook() == Some(Hook::LsmFileReceive));
    assert_eq!(received.count(), 4);
    // A socket of the same uid from outside: the cgroup it was made in counts.
    let same_uid = "s = socket.socket(fileno=3)\nprint(len(socket.recv_fds(s, 1, 4)[1]))";
    let (_ours, theirs) = passed(&arena, listener.as_raw_fd());
    assert_eq!(arena.run(Place::Session, same_uid, &[theirs.as_fd()]), "0");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_a_session_opened_itself_it_passes_to_itself() {
    let Some(arena) = Arena::new() else {
        return;
    };
    arena.reached(&format!(
        "{AGENT}a, b = socket.socketpair()\n\
         f = os.open('/etc/passwd', os.O_RDONLY)\n\
         socket.send_fds(a, [b'x'], [f, a.fileno()])\n\
         print('reached' if len(socket.recv_fds(b, 1, 4)[1]) == 2 else 'lost')"
    ));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn custodyds_own_channel_works_in_a_sealed_session() {
    let Some(arena) = Arena::new() else {
        return;
    };
    let speak = "s = socket.socket(fileno=3)\nprint(tried(lambda: s.send(b'x')))";
    let (ours, theirs) = channel::pair_stream().unwrap();
    assert_eq!(arena.run(Place::Session, speak, &[theirs.as_fd()]), "EPERM");
    setsockopt(&theirs, sockopt::Mark, &arena.hooks().mark().unwrap()).unwrap();
    assert_eq!(
        arena.run(Place::Session, speak, &[theirs.as_fd()]),
        "reached"
    );
    drop(ours);
}

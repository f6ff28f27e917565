//! Device nodes, sysctls, setsockopt(2), and what is counted: root itself is refused in the
//! cgroup, and let through outside of it.

use std::{net::TcpListener, path::Path};

use agent_ebpf::Hook;
use custody_supervisor::hooks::{Group, Hooks};
use custody_sys::cgroup::{self, Cgroup};
use custody_wire::profile::Profile;
use serial_test::file_serial;

use crate::{Arena, python};

/// A cgroup beside the arena's, without hooks.
struct Outside(Cgroup);

impl Outside {
    fn new(arena: &Arena) -> Self {
        Self(Cgroup::create(&arena.cgroup.path().with_extension("outside")).unwrap())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        cgroup::remove(self.0.path()).unwrap();
    }
}

fn opens(path: &str, flags: &str) -> String {
    format!("import os\nprint(tried(lambda: os.close(os.open('{path}', os.{flags}))))")
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn each_group_opens_its_devices_and_no_others_and_makes_none() {
    for group in Group::ALL {
        let Some(mut arena) = Arena::new(group) else {
            return;
        };
        let outside = Outside::new(&arena);
        for name in ["null", "zero", "full", "random", "urandom"] {
            let open = opens(&format!("/dev/{name}"), "O_RDONLY");
            assert_eq!(arena.python(&open), "reached", "{group:?} {name}");
        }
        // A terminal is for agents; a pty has to be its own, which is its devpts' business.
        let pty = "import os\nprint(tried(os.openpty))";
        let expected = if group == Group::Agents {
            "reached"
        } else {
            "EPERM"
        };
        assert_eq!(arena.python(pty), expected, "{group:?}");
        for other in [
            "/dev/kmsg",
            "/dev/fuse",
            "/dev/net/tun",
            "/dev/loop0",
            "/dev/vda",
        ] {
            if Path::new(other).exists() {
                assert_eq!(arena.python(&opens(other, "O_RDONLY")), "EPERM", "{other}");
            }
        }
        let mknod = "import os, tempfile\n\
            n = tempfile.mkdtemp() + '/n'\n\
            print(tried(lambda: os.mknod(n, 0o020666, os.makedev(1, 3))))";
        assert_eq!(arena.python(mknod), "EPERM", "{group:?}");
        assert_eq!(python(&outside.0, mknod), "reached");
        assert_eq!(arena.event(Hook::Device).cgroup_id, arena.cgroup.id());
    }
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn custody_launch_makes_the_sessions_nodes_until_the_session_is_sealed() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    let session = Cgroup::create(&arena.cgroup.path().join("session")).unwrap();
    let mknod = |major: u32, minor: u32| {
        format!(
            "import os, tempfile\n\
             n = tempfile.mkdtemp() + '/n'\n\
             print(tried(lambda: os.mknod(n, 0o020666, os.makedev({major}, {minor}))))"
        )
    };
    arena.hooks.open(session.id(), Profile::Standard).unwrap();
    assert_eq!(python(&session, &mknod(1, 3)), "reached");
    assert_eq!(python(&session, &mknod(1, 1)), "EPERM");
    arena.hooks.seal(session.id(), Profile::Standard).unwrap();
    assert_eq!(python(&session, &mknod(1, 3)), "EPERM");
    // What no entry names is sealed.
    arena.hooks.close(session.id()).unwrap();
    assert_eq!(python(&session, &mknod(1, 3)), "EPERM");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_sysctl_is_read_and_not_written() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    let outside = Outside::new(&arena);
    let path = "/proc/sys/kernel/random/urandom_min_reseed_secs";
    // What was there before is written again.
    let write = format!(
        "import os\nwas = open('{path}').read().encode()\n\
         print(tried(lambda: os.write(os.open('{path}', os.O_WRONLY), was)))"
    );
    assert_eq!(python(&outside.0, &write), "reached");
    assert_eq!(arena.python(&write), "EPERM");
    assert_eq!(arena.python(&opens(path, "O_RDONLY")), "reached");
    assert_eq!(arena.event(Hook::Sysctl).cgroup_id, arena.cgroup.id());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn socket_options_that_open_a_door_are_refused_and_plain_ones_work() {
    let Some(mut arena) = Arena::new(Group::Workers) else {
        return;
    };
    let outside = Outside::new(&arena);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    arena.hooks.admit(arena.cgroup.id(), &[to], &[]).unwrap();
    let set = |level: u32, option: u32| {
        format!(
            "s = socket.socket()\nprint(tried(lambda: s.setsockopt({level}, {option}, b'\\1\\0\\0\\0')))"
        )
    };
    for (level, option) in [
        (1, 25),  // SO_BINDTODEVICE
        (1, 26),  // SO_ATTACH_FILTER
        (1, 36),  // SO_MARK
        (1, 50),  // SO_ATTACH_BPF
        (1, 60),  // SO_ZEROCOPY
        (0, 4),   // IP_OPTIONS
        (0, 19),  // IP_TRANSPARENT
        (6, 19),  // TCP_REPAIR
        (6, 23),  // TCP_FASTOPEN
        (6, 30),  // TCP_FASTOPEN_CONNECT
        (6, 31),  // TCP_ULP
        (41, 57), // IPV6_RTHDR
        (284, 1), // MPTCP
    ] {
        assert_eq!(
            arena.python(&set(level, option)),
            "EPERM",
            "{level} {option}"
        );
        let event = arena.event(Hook::SetSockOpt);
        assert_eq!((event.family, event.protocol), (level, option));
        // Whatever the kernel says of it outside, it is not the hook's word.
        assert_eq!(arena.events(), [], "{level} {option}");
    }
    assert_eq!(python(&outside.0, &set(6, 30)), "reached");
    for (level, option) in [(1, 2), (1, 7), (1, 9), (6, 1), (6, 4), (6, 18)] {
        assert_eq!(
            arena.python(&set(level, option)),
            "reached",
            "{level} {option}"
        );
    }
    let get = "s = socket.socket()\nprint(tried(lambda: s.getsockopt(6, 23)))";
    assert_eq!(arena.python(get), "reached");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_a_cgroup_did_is_counted_by_hook_whether_allowed_or_refused() {
    let Some(mut arena) = Arena::new(Group::Workers) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let id = arena.cgroup.id();
    arena.hooks.admit(id, &[to], &[]).unwrap();
    let connect = format!(
        "for port in (0, 0, 1, 1, 1):\n\
         \x20   s = socket.socket()\n\
         \x20   print(tried(lambda: s.connect(('127.0.0.1', {} + port))), end=' ')",
        to.port()
    );
    // Not counted before it is known.
    arena.python(&connect);
    assert_eq!(arena.hooks.tally(id).unwrap(), Default::default());
    arena.hooks.count(id).unwrap();
    assert_eq!(arena.python(&connect), "reached reached EPERM EPERM EPERM");
    arena.python("s = socket.socket(socket.AF_UNIX)\nprint(tried(lambda: s.connect('/x')))");
    let tally = arena.hooks.tally(id).unwrap();
    assert_eq!(tally.allowed[&Hook::Connect4], 2);
    assert_eq!(tally.refused[&Hook::Connect4], 3);
    assert_eq!(tally.refused[&Hook::ConnectUnix], 1);
    assert_eq!((tally.lost, tally.syscalls), (0, 0));
    arena.hooks.forget(id).unwrap();
    assert_eq!(arena.hooks.tally(id).unwrap(), Default::default());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn system_calls_are_counted_only_when_asked_and_only_of_sessions() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    let session = Cgroup::create(&arena.cgroup.path().join("session")).unwrap();
    arena.hooks.count(session.id()).unwrap();
    let calls = "import os\nfor _ in range(500):\n\x20   os.getppid()\nprint('done')";
    python(&session, calls);
    assert_eq!(arena.hooks.tally(session.id()).unwrap().syscalls, 0);
    arena.hooks.count_system_calls().unwrap();
    python(&session, calls);
    assert!(arena.hooks.tally(session.id()).unwrap().syscalls > 500);
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn doors_stay_closed_when_their_loader_is_gone() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    arena.hooks = Hooks::load(&arena.cgroup).unwrap();
    let closed = "import os\n\
        a, b = socket.socketpair()\n\
        path = '/proc/sys/kernel/random/urandom_min_reseed_secs'\n\
        print(tried(lambda: os.open('/dev/kmsg', os.O_RDONLY)), \
              tried(lambda: a.setsockopt(1, 36, 1)), \
              tried(lambda: os.write(os.open(path, os.O_WRONLY), b'60')))";
    assert_eq!(arena.python(closed), "EPERM EPERM EPERM");
}

//! The hooks on the real kernel, in a cgroup of each test's own, against listeners on loopback.
//!
//! Each attempt is a Python program that is born in the cgroup: hooks count by the cgroup that a
//! socket was made in.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests stand outside the test functions that clippy exempts"
)]

mod doors;

use std::{
    ffi::CString,
    fs::{self, File},
    io::{Read as _, Seek as _},
    net::{SocketAddr, TcpListener, UdpSocket},
    os::{fd::AsFd as _, unix::net::UnixListener},
    path::{Path, PathBuf},
};

use agent_ebpf::{Event, Hook};
use custody_supervisor::hooks::{Group, Hooks, Pins};
use custody_sys::{
    cgroup::{self, Cgroup},
    clone::{Namespaces, Spawn, spawn},
};
use nix::sys::wait::{WaitStatus, waitpid};
use serial_test::file_serial;

/// A cgroup with hooks, and what is to be removed at the end.
struct Arena {
    hooks: Hooks,
    cgroup: Cgroup,
    pins: Option<Pins>,
}

impl Arena {
    fn new(group: Group) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return None;
        }
        if Hooks::object().is_none() {
            println!("not attempted: needs the eBPF object (`cargo xtask build-ebpf`)");
            return None;
        }
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|root| Cgroup::open(root.as_ref()).is_ok());
        let Some(root) = root else {
            println!("not attempted: needs cgroup2");
            return None;
        };
        let path = PathBuf::from(root).join(format!("custody-hooks-{}", std::process::id()));
        let cgroup = Cgroup::create(&path).unwrap();
        let pins = Pins::open(&path).unwrap();
        let mut hooks = Hooks::load(&cgroup).unwrap();
        hooks.attach(group, &cgroup, &pins).unwrap();
        Some(Self {
            hooks,
            cgroup,
            pins: Some(pins),
        })
    }

    /// Runs a Python program in the cgroup; what it prints is the answer.
    fn python(&self, program: &str) -> String {
        python(&self.cgroup, program)
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.hooks.next_event()).collect()
    }

    fn event(&mut self, hook: Hook) -> Event {
        let events = self.events();
        let found = events.iter().find(|event| event.hook() == Some(hook));
        *found.unwrap_or_else(|| panic!("no event of {hook:?} in {events:?}"))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        cgroup::kill(self.cgroup.path()).unwrap();
        while !self.cgroup.is_empty().unwrap() {
            std::thread::yield_now();
        }
        cgroup::remove(self.cgroup.path()).unwrap();
        if let Some(pins) = self.pins.take() {
            pins.remove().unwrap();
        }
    }
}

fn python(cgroup: &Cgroup, program: &str) -> String {
    let prelude = "import errno, socket, sys\n\
        def tried(what):\n\
        \x20   try:\n\
        \x20       what(); return 'reached'\n\
        \x20   except OSError as error:\n\
        \x20       return errno.errorcode[error.errno]\n";
    let argv = [
        "/usr/bin/python3",
        "-I",
        "-S",
        "-c",
        &format!("{prelude}{program}"),
    ]
    .map(|s| CString::new(s).unwrap());
    let null = File::open("/dev/null").unwrap();
    let mut out = tempfile::tempfile().unwrap();
    let child = spawn(&Spawn {
        argv: &argv,
        envp: &[],
        fds: &[null.as_fd(), out.as_fd(), out.as_fd()],
        cgroup: cgroup.as_fd(),
        namespaces: Namespaces::Inherited,
    })
    .unwrap();
    let status = waitpid(child.pid, None).unwrap();
    out.rewind().unwrap();
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{text}");
    text.trim().into()
}

fn tcp(family: &str, address: SocketAddr) -> String {
    format!(
        "s = socket.socket(socket.{family})\n\
         print(tried(lambda: s.connect(('{}', {}))))",
        address.ip(),
        address.port()
    )
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_cgroup_without_a_role_makes_no_ip_socket_and_the_event_says_who_tried() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    let families = "for family in (socket.AF_INET, socket.AF_INET6):\n\
        \x20   for kind, protocol in ((socket.SOCK_STREAM, 0), (socket.SOCK_DGRAM, 0), \
              (socket.SOCK_STREAM, 262), (socket.SOCK_DGRAM, 136), (socket.SOCK_RAW, 1)):\n\
        \x20       print(tried(lambda: socket.socket(family, kind, protocol)), end=' ')";
    assert_eq!(arena.python(families), ["EPERM"; 10].join(" "));
    let event = arena.event(Hook::SockCreate);
    assert_eq!(event.cgroup_id, arena.cgroup.id());
    assert_eq!((event.family, event.protocol, event.uid), (2, 6, 0));
    assert!(event.comm().starts_with(b"python3"));
    assert!(event.boot_ns <= custody_sys::clock::boot_ns());
    assert!(event.tgid > 1);
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn the_egress_map_admits_one_address_and_port_and_no_other_way_to_write_them() {
    let Some(mut arena) = Arena::new(Group::Workers) else {
        return;
    };
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let shut = TcpListener::bind("127.0.0.1:0").unwrap();
    let (open, shut) = (open.local_addr().unwrap(), shut.local_addr().unwrap());
    arena.hooks.admit(arena.cgroup.id(), &[open], &[]).unwrap();

    assert_eq!(arena.python(&tcp("AF_INET", open)), "reached");
    assert_eq!(arena.python(&tcp("AF_INET", shut)), "EPERM");
    let event = arena.event(Hook::Connect4);
    assert_eq!(event.address(), shut.ip());
    assert_eq!(event.port, u32::from(shut.port()));
    // Another loopback address that the listener does not have is denied, not just unreachable.
    let other = SocketAddr::new([127, 0, 0, 2].into(), open.port());
    assert_eq!(arena.python(&tcp("AF_INET", other)), "EPERM");

    // The same address mapped into IPv6 is the same address.
    let mapped =
        |a: SocketAddr| SocketAddr::new(format!("::ffff:{}", a.ip()).parse().unwrap(), a.port());
    assert_eq!(arena.python(&tcp("AF_INET6", mapped(open))), "reached");
    assert_eq!(arena.python(&tcp("AF_INET6", mapped(shut))), "EPERM");
    let event = arena.event(Hook::Connect6);
    assert_eq!((event.address(), event.family), (shut.ip(), 10));

    // TCP Fast Open connects by sendto.
    let fast = format!(
        "s = socket.socket(socket.AF_INET)\n\
         print(tried(lambda: s.sendto(b'x', 0x20000000, ('127.0.0.1', {}))))",
        shut.port()
    );
    assert_eq!(arena.python(&fast), "EPERM");

    // UDP was not given, and a worker binds nothing.
    let udp = "print(tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))";
    assert_eq!(arena.python(udp), "EPERM");
    for (family, any) in [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")] {
        let bind = format!(
            "s = socket.socket(socket.{family})\nprint(tried(lambda: s.bind(('{any}', 0))))"
        );
        assert_eq!(arena.python(&bind), "EPERM");
    }

    arena.hooks.withdraw(arena.cgroup.id()).unwrap();
    assert_eq!(
        arena.python("print(tried(lambda: socket.socket()))"),
        "EPERM"
    );
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_resolver_sends_to_its_servers_only_connected_or_not() {
    let Some(mut arena) = Arena::new(Group::Workers) else {
        return;
    };
    let open = UdpSocket::bind("127.0.0.1:0").unwrap();
    let shut = UdpSocket::bind("127.0.0.1:0").unwrap();
    open.set_nonblocking(true).unwrap();
    shut.set_nonblocking(true).unwrap();
    let (to, not_to) = (open.local_addr().unwrap(), shut.local_addr().unwrap());
    arena.hooks.admit(arena.cgroup.id(), &[], &[to]).unwrap();
    let send = |family: &str, host: String, port: u16| {
        format!(
            "s = socket.socket(socket.{family}, socket.SOCK_DGRAM)\n\
             print(tried(lambda: s.sendto(b'sent', ('{host}', {port}))), \
                   tried(lambda: s.connect(('{host}', {port}))), tried(lambda: s.send(b'more')))"
        )
    };
    let all = |a: SocketAddr| {
        [
            send("AF_INET", a.ip().to_string(), a.port()),
            send("AF_INET6", format!("::ffff:{}", a.ip()), a.port()),
        ]
    };
    for program in all(to) {
        assert_eq!(arena.python(&program), "reached reached reached");
    }
    for program in all(not_to) {
        assert_eq!(arena.python(&program), "EPERM EPERM EDESTADDRREQ");
    }
    // The effect is the judge: what arrived.
    let arrived =
        |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut [0; 16]).ok()).count();
    assert_eq!(arrived(&open), 4);
    assert_eq!(arrived(&shut), 0);
    let events = arena.events();
    for hook in [Hook::SendMsg4, Hook::Connect4, Hook::Connect6] {
        assert!(
            events.iter().any(|event| event.hook() == Some(hook)
                && event.address() == not_to.ip()
                && event.port == u32::from(not_to.port())
                && event.protocol == 17),
            "{hook:?} in {events:?}"
        );
    }
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn hooks_stay_when_their_loader_is_gone_until_the_pins_are_removed() {
    let Some(mut arena) = Arena::new(Group::Workers) else {
        return;
    };
    let make = "print(tried(socket.socket))";
    // A second loader over the same pins, dropped at once: the pins alone hold its programs.
    let mut again = Hooks::load(&arena.cgroup).unwrap();
    let pins = arena.pins.take().unwrap();
    again.attach(Group::Workers, &arena.cgroup, &pins).unwrap();
    // And the first loader is gone.
    drop(std::mem::replace(&mut arena.hooks, again));
    assert_eq!(arena.python(make), "EPERM");
    assert_eq!(arena.event(Hook::SockCreate).cgroup_id, arena.cgroup.id());
    arena.hooks = Hooks::load(&arena.cgroup).unwrap();
    assert_eq!(arena.python(make), "EPERM");
    assert!(
        arena.events().is_empty(),
        "the pins hold the programs of a loader that is gone"
    );
    pins.remove().unwrap();
    assert_eq!(arena.python(make), "reached");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn an_agent_reaches_its_listener_its_tmp_and_abstract_names_and_no_other_unix_socket() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    let listener = "/run/custody/session.sock";
    if Path::new(listener).exists() {
        println!("not attempted: `{listener}` exists on this host");
        return;
    }
    fs::create_dir_all("/run/custody").unwrap();
    let tmp = tempfile::Builder::new()
        .prefix("hooks")
        .tempdir_in("/tmp")
        .unwrap();
    let inside = tmp.path().join("socket");
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let far = outside.path().join("socket");
    let longer = format!("{listener}2");
    let _sockets: Vec<_> = [Path::new(listener), Path::new(&longer), &inside, &far]
        .map(|path| UnixListener::bind(path).unwrap())
        .into();

    let up = format!("/tmp/../{}", far.display());
    let cases = [
        (format!("'{listener}'"), "reached"),
        // Padded with zeros to the full sun_path: the same path (unix(7)).
        (format!("'{listener}' + '\\0' * 20"), "reached"),
        (format!("'{longer}'"), "EPERM"),
        ("'/run/custody/session.soc'".into(), "EPERM"),
        ("'/run/custody/../custody/session.sock'".into(), "EPERM"),
        ("'run/custody/session.sock'".into(), "EPERM"),
        (format!("'{}'", inside.display()), "reached"),
        (format!("'/{}'", inside.display()), "EPERM"),
        (format!("'{}'", far.display()), "EPERM"),
        (format!("'{up}'"), "EPERM"),
        (format!("'/tmp/a/../..{}'", far.display()), "EPERM"),
        ("'/tmp/' + 'a' * 99 + '/..'".into(), "EPERM"),
        ("'/tmp'".into(), "EPERM"),
        // Nobody listens there: that the kernel says so shows that the hook let it through.
        ("'\\0nobody'".into(), "ECONNREFUSED"),
    ];
    for (path, expected) in cases {
        let program = format!(
            "import os; os.chdir('/')\n\
             s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)\n\
             print(tried(lambda: s.connect({path})))"
        );
        assert_eq!(arena.python(&program), expected, "{path}");
    }
    let events = arena.events();
    assert!(
        events
            .iter()
            .all(|event| event.hook() == Some(Hook::ConnectUnix))
    );
    assert!(events.iter().any(|event| event.path() == longer.as_bytes()));
    assert!(events.iter().any(|event| event.path() == up.as_bytes()));
    assert!(
        events
            .iter()
            .all(|event| event.family == 1 && event.tgid > 1)
    );
    assert_eq!(events[0].cgroup_id, arena.cgroup.id());

    // A datagram pair can name any path: the second hook.
    let datagram = format!(
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
         print(tried(lambda: a.sendto(b'x', '{}')))",
        far.display()
    );
    assert_eq!(arena.python(&datagram), "EPERM");
    assert_eq!(
        arena.event(Hook::SendMsgUnix).path(),
        far.as_os_str().as_encoded_bytes()
    );
    fs::remove_file(listener).unwrap();
    fs::remove_file(longer).unwrap();
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_service_connects_to_no_unix_socket_and_its_pairs_work() {
    let Some(arena) = Arena::new(Group::Services) else {
        return;
    };
    let tmp = tempfile::tempdir_in("/tmp").unwrap();
    let path = tmp.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let program = format!(
        "s = socket.socket(socket.AF_UNIX)\n\
         a, b = socket.socketpair()\n\
         print(tried(lambda: s.connect('{}')), tried(lambda: s.connect('\\0nobody')), \
               tried(lambda: a.send(b'x')))",
        path.display()
    );
    assert_eq!(arena.python(&program), "EPERM EPERM reached");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_full_ring_costs_events_never_a_denial_and_the_loss_is_counted() {
    let Some(mut arena) = Arena::new(Group::Agents) else {
        return;
    };
    let flood = "denied = 0\n\
        for _ in range(8000):\n\
        \x20   denied += tried(socket.socket) == 'EPERM'\n\
        s = socket.socket(socket.AF_UNIX)\n\
        print(denied, tried(lambda: s.connect('/var/x')))";
    assert_eq!(arena.python(flood), "8000 EPERM");
    let seen = arena.events().len();
    let dropped = usize::try_from(arena.hooks.dropped().unwrap()).unwrap();
    assert!(dropped > 0, "a ring of 1 MiB holds fewer than 8000 events");
    assert_eq!(seen + dropped, 8001);
}

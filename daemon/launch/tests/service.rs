//! What one of our own programs has left when it starts.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

#[cfg(test)]
mod support;

use std::{fs, io::Read as _, os::fd::OwnedFd, path::PathBuf};

use custody_sys::{channel, clone::Namespaces};
use custody_wire::{
    launch::{Network, Role, Service},
    layer::{Layer, Status},
};
use nix::sys::wait::{WaitStatus, waitpid};
use support::{UID, can_run, folder_of, pipe, prepare, programs, service};

fn sh(script: &str) -> Service {
    Service {
        program: "/usr/bin/dash".into(),
        arguments: vec!["-c".into(), script.into()],
        read: vec!["/usr/bin".into()],
        write: Vec::new(),
        execute: Vec::new(),
        network: Network::None,
    }
}

/// Runs a service to its end; its standard error and status.
fn run(what: Service, inherit: Vec<OwnedFd>) -> (String, i32) {
    let (mut reader, writer) = pipe();
    let mut plan = service(what);
    plan.fds = vec![Role::Stderr];
    plan.fds.extend(inherit.iter().map(|_| Role::Inherit));
    let mut fds = vec![writer];
    fds.extend(inherit);
    let session = prepare(&plan, &fds, programs(), Namespaces::Inherited).unwrap();
    drop(fds);
    session.go();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let ended = waitpid(session.child.pid, None).unwrap();
    let WaitStatus::Exited(_, code) = ended else {
        panic!("{ended:?}: {text}")
    };
    (text, code)
}

#[test]
fn every_layer_of_a_service_is_full_or_not_needed() {
    if !can_run() {
        return;
    }
    for network in [Network::None, Network::Host] {
        let mut what = sh("true");
        what.network = network;
        let plan = service(what);
        let session = prepare(&plan, &[], programs(), Namespaces::Inherited).unwrap();
        for layer in [
            Layer::Capabilities,
            Layer::Cgroup,
            Layer::Environment,
            Layer::Fds,
            Layer::Landlock,
            Layer::NoNewPrivs,
            Layer::ResourceLimits,
            Layer::Seccomp,
            Layer::Uid,
        ] {
            assert_eq!(session.status_of(layer), &Status::Full, "{layer:?}");
        }
        let network_layer = session.status_of(Layer::NetworkNamespace);
        match network {
            Network::None => assert_eq!(network_layer, &Status::Full),
            Network::Host => assert_eq!(network_layer, &Status::NotNeeded),
        }
    }
}

#[test]
fn a_service_has_its_ids_no_capability_and_a_constructed_environment() {
    if !can_run() {
        return;
    }
    let script = "while read line; do case $line in Uid*|Gid*|Groups*|Cap*|NoNew*|Seccomp:*) \
        echo \"$line\" >&2;; esac; done < /proc/self/status; set >&2";
    let (text, code) = run(sh(script), Vec::new());
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains(&format!("Uid:\t{UID}\t{UID}\t{UID}\t{UID}\n")),
        "{text}"
    );
    assert!(text.contains("CapEff:\t0000000000000000\n"), "{text}");
    assert!(text.contains("CapBnd:\t0000000000000000\n"), "{text}");
    assert!(
        text.contains("NoNewPrivs:\t1\n") && text.contains("Seccomp:\t2\n"),
        "{text}"
    );
    assert!(text.contains("PATH='/usr/bin:/bin'\n"), "{text}");
    assert!(!text.contains("LEAK"), "{text}");
}

#[test]
fn inherited_descriptors_are_3_and_up_in_order_and_nothing_else_is_open() {
    if !can_run() {
        return;
    }
    let (a, a_end) = channel::pair_stream().unwrap();
    let (mut b, b_end) = pipe();
    let script = "echo stream >&3; echo pipe >&4; for n in 0 1 2 3 4 5 6 7 8 9; do \
        if { true <&$n; } 2>/dev/null; then echo -n $n >&2; fi; done; read x && echo got >&2";
    let (text, _) = run(sh(script), vec![a_end, b_end]);
    assert_eq!(text, "01234");
    let mut got = String::new();
    fs::File::from(a).read_to_string(&mut got).unwrap();
    assert_eq!(got, "stream\n");
    got.clear();
    b.read_to_string(&mut got).unwrap();
    assert_eq!(got, "pipe\n");
}

#[test]
fn only_the_listed_places_are_read_and_written() {
    if !can_run() {
        return;
    }
    let (readable, writable, other) = (folder_of(UID), folder_of(UID), folder_of(UID));
    for folder in [&readable, &writable, &other] {
        fs::write(folder.path().join("file"), "x").unwrap();
    }
    let place = |folder: &tempfile::TempDir| folder.path().display().to_string();
    let script = format!(
        "for f in {r}/file {w}/file {o}/file /etc/passwd /etc/hostname; do \
           {{ read x < $f; }} 2>/dev/null; echo -n \"$?\" >&2; done; \
         for d in {r} {w} {o} /tmp; do {{ echo y > $d/new; }} 2>/dev/null; echo -n \"$?\" >&2; done",
        r = place(&readable),
        w = place(&writable),
        o = place(&other),
    );
    let mut what = sh(&script);
    what.read = vec![readable.path().into()];
    what.write = vec![writable.path().into()];
    let (text, _) = run(what, Vec::new());
    // read answers 1 at the end of a file without a newline, 2 for what does not open.
    let opened = |digit: &str| digit != "2";
    let answers: Vec<&str> = text.split("").filter(|one| !one.is_empty()).collect();
    let read: Vec<bool> = answers[..5].iter().map(|one| opened(one)).collect();
    assert_eq!(read, [true, true, false, false, false], "{text}");
    let written: Vec<bool> = answers[5..].iter().map(|one| opened(one)).collect();
    assert_eq!(written, [false, true, false, false], "{text}");
}

#[test]
fn a_service_without_a_network_has_none_and_with_one_it_has_sockets_only() {
    if !can_run() {
        return;
    }
    let script = "import socket, sys, os\n\
        for family, kind in ((2, 1), (2, 2), (10, 1), (2, 3), (16, 3), (17, 3), (40, 1), (1, 1), (1, 5)):\n \
            try:\n  socket.socket(family, kind); r = 'ok'\n \
            except OSError as e: r = str(e.errno)\n \
            print(family, kind, r, file=sys.stderr)\n\
        try: os.unshare(0x10000000)\n\
        except (OSError, AttributeError) as e: pass\n";
    let python = |network| Service {
        program: PathBuf::from("/usr/bin").join(fs::read_link("/usr/bin/python3").unwrap()),
        arguments: vec!["-I".into(), "-S".into(), "-c".into(), script.into()],
        read: vec!["/usr/bin".into()],
        write: Vec::new(),
        execute: Vec::new(),
        network,
    };
    let (text, code) = run(python(Network::None), Vec::new());
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        text,
        "2 1 1\n2 2 1\n10 1 1\n2 3 1\n16 3 1\n17 3 1\n40 1 1\n1 1 ok\n1 5 ok\n"
    );
    let (text, _) = run(python(Network::Host), Vec::new());
    assert_eq!(
        text,
        "2 1 ok\n2 2 ok\n10 1 ok\n2 3 1\n16 3 1\n17 3 1\n40 1 1\n1 1 ok\n1 5 ok\n"
    );
}

#[test]
fn a_service_with_a_network_neither_listens_nor_routes_by_the_source() {
    if !can_run() {
        return;
    }
    let script = "import socket, sys\n\
        def say(what, f, *a):\n \
            try: f(*a); print(what, 'ok', file=sys.stderr)\n \
            except OSError as e: print(what, e.errno, file=sys.stderr)\n\
        v4 = socket.socket(2, 1); v6 = socket.socket(10, 1)\n\
        say('listen', v4.listen)\n\
        say('accept', v4.accept)\n\
        say('IP_OPTIONS', v4.setsockopt, 0, 4, b'\\x01')\n\
        say('IPV6_RTHDR', v6.setsockopt, 41, 57, b'')\n\
        say('IP_RECVERR', v4.setsockopt, 0, 11, 1)\n\
        say('IPV6_RECVERR', v6.setsockopt, 41, 25, 1)\n\
        say('TCP_NODELAY', v4.setsockopt, 6, 1, 1)\n\
        say('TCP_KEEPIDLE', v4.setsockopt, 6, 4, 60)\n\
        say('SO_KEEPALIVE', v4.setsockopt, 1, 9, 1)\n\
        for option in (3, 13, 19, 23, 30, 31, 42): say(option, v4.setsockopt, 6, option, 1)\n\
        for option in (25, 26, 50, 51, 52): say(option, v4.setsockopt, 1, option, b'lo')\n\
        udp = socket.socket(2, 2)\n\
        say('UDP_ENCAP', udp.setsockopt, 17, 100, 2)\n\
        for kind, protocol in ((1, 6), (2, 17), (1, 262), (2, 136), (2, 1), (5, 132)):\n \
            say(('socket', kind, protocol), socket.socket, 2, kind, protocol)\n";
    let (text, code) = run(
        Service {
            program: PathBuf::from("/usr/bin").join(fs::read_link("/usr/bin/python3").unwrap()),
            arguments: vec!["-I".into(), "-S".into(), "-c".into(), script.into()],
            read: vec!["/usr/bin".into()],
            write: Vec::new(),
            execute: Vec::new(),
            network: Network::Host,
        },
        Vec::new(),
    );
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        text,
        "listen 1\naccept 1\nIP_OPTIONS 1\nIPV6_RTHDR 1\nIP_RECVERR ok\nIPV6_RECVERR ok\nTCP_NODELAY ok\n\
         TCP_KEEPIDLE ok\nSO_KEEPALIVE ok\n3 1\n13 1\n19 1\n23 1\n30 1\n31 1\n42 1\n25 1\n26 1\n50 1\n\
         51 1\n52 1\nUDP_ENCAP 1\n('socket', 1, 6) ok\n('socket', 2, 17) ok\n('socket', 1, 262) 1\n\
         ('socket', 2, 136) 1\n('socket', 2, 1) 1\n('socket', 5, 132) 1\n"
    );
}

#[test]
fn a_service_ends_with_the_thread_that_started_it() {
    if !can_run() {
        return;
    }
    let (mut reader, writer) = pipe();
    let started = std::thread::spawn(move || {
        let what = sh("echo up >&2; while :; do read x; done");
        let mut plan = service(what);
        plan.fds = vec![Role::Stderr];
        let session = prepare(&plan, &[writer], programs(), Namespaces::Inherited).unwrap();
        session.go();
        session
    });
    let session = started.join().unwrap();
    let ended = waitpid(session.child.pid, None).unwrap();
    assert!(
        matches!(
            ended,
            WaitStatus::Signaled(_, nix::sys::signal::Signal::SIGKILL, _)
        ),
        "{ended:?}"
    );
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
}

#[test]
fn a_program_or_place_that_is_not_there_is_refused_by_name() {
    if !can_run() {
        return;
    }
    let mut what = sh("true");
    what.program = "/no/such/program".into();
    let refused = prepare(&service(what), &[], programs(), Namespaces::Inherited)
        .err()
        .unwrap();
    assert!(
        refused.contains("/no/such/program") && refused.contains("errno 2"),
        "{refused}"
    );
    let mut what = sh("true");
    what.write = vec![PathBuf::from("/no/such/state")];
    let refused = prepare(&service(what), &[], programs(), Namespaces::Inherited)
        .err()
        .unwrap();
    assert!(refused.contains("/no/such/state"), "{refused}");
}

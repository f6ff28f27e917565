//! Sessions as they should go, and what the operator sees of them.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serial_test::file_serial;

use crate::room::{Room, text};

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_session_ends_as_its_command_does_and_leaves_nothing() {
    let Some(mut room) = Room::new() else { return };
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
    assert_eq!(
        room.run(&["--", "/bin/sh", "-c", "exit 7"]).status.code(),
        Some(7)
    );
    assert_eq!(
        room.run(&["--", "/bin/sh", "-c", "kill -TERM $$"])
            .status
            .code(),
        Some(143)
    );
    assert_eq!(
        room.run(&["--", "/no/such/command"]).status.code(),
        Some(127)
    );
    assert_eq!(room.run(&["--", "/etc/passwd"]).status.code(), Some(126));
    // Double forks, setsid and ignored signals do not outlive the command.
    let tree = "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM HUP; sleep 300' & done; sleep 0.1";
    assert_eq!(
        room.run(&["--", "/bin/sh", "-c", tree]).status.code(),
        Some(0)
    );
    // One that has a front, and ends while that starts.
    assert_eq!(
        room.run(&["--", "/run/custody/bin/custody-bridge"])
            .status
            .code(),
        Some(0)
    );
    assert!(room.sessions().is_empty());
    assert!(room.pids("services", "front").is_empty());
    room.until("what is left is of launchers that wait", || {
        room.session_cgroups().is_empty()
    });

    let uids: Vec<String> = (0..2)
        .map(|_| text(&room.run(&["--", "/usr/bin/id", "-u"]).stdout))
        .collect();
    assert_ne!(uids[0], uids[1], "a uid comes round as late as it can");

    assert_eq!(room.end(Signal::SIGTERM), Some(0));
    assert_eq!(room.living(), Vec::<String>::new());
    assert!(!room.cgroup.exists());
    assert!(!room.pins().exists());
    assert!(!room.path("run/control.sock").exists());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_session_has_a_front_from_its_first_connection_on() {
    let Some(room) = Room::new() else { return };
    let (mut session, _out) = room
        .shell("echo up; read -r line; sleep 300 | /run/custody/bin/custody-bridge & sleep 300");
    // Others come and go meanwhile, so custodyd has turned many times.
    for _ in 0..3 {
        assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
    }
    assert_eq!(room.pids("services", "front"), Vec::<i32>::new());
    session.stdin.take().unwrap().write_all(b"go\n").unwrap();
    room.until("it has a front", || {
        room.pids("services", "front").len() == 1
    });
    session.kill().unwrap();
    session.wait().unwrap();
    room.until("the front goes with its session", || {
        room.pids("services", "front").is_empty()
    });
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn stop_and_signals_reach_the_session_that_they_name() {
    let Some(room) = Room::new() else { return };
    let (mut one, _) = room.caller();
    let (mut two, _) = room.caller();
    room.until("each has its front", || {
        room.pids("services", "front").len() == 2
    });
    let list = text(&room.custody(&["ps"]).output().unwrap().stdout);
    let id = |line: usize| {
        list.lines()
            .nth(line)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .to_owned()
    };
    let (first, _second) = (id(1), id(2));
    assert!(room.custody(&["stop", &first]).status().unwrap().success());
    // One of the two ended, and it says so; the other runs.
    room.until("one ended", || room.pids("services", "front").len() == 1);
    let ended = |child: &mut Child| child.try_wait().unwrap().is_some();
    room.until("its caller hears of it", || {
        room.log().contains("stopped by an operator")
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        usize::from(ended(&mut one)) + usize::from(ended(&mut two)),
        1
    );
    let left = if ended(&mut one) { &mut two } else { &mut one };
    // The CLI forwards; the shell dies of it and its caller knows the signal.
    kill(
        Pid::from_raw(i32::try_from(left.id()).unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let status = left.wait().unwrap();
    assert!(
        status.code() == Some(143) || status.signal() == Some(15),
        "{status:?}"
    );
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_denial_is_in_the_log_with_who_tried_what_and_cannot_forge_a_line() {
    let Some(room) = Room::new() else { return };
    let program = "import socket\n\
        for path in ('/run/dbus/a\\n\\x1b[31mforged', '\\0own'):\n\
        \x20   try: socket.socket(socket.AF_UNIX).connect(path)\n\
        \x20   except OSError as error: print(error.errno)";
    let output = room.run(&["--", "/usr/bin/python3", "-c", program]);
    assert_eq!(text(&output.stdout), "1\n111\n", "{output:?}");
    room.until("the denial is logged", || {
        room.log().contains("/run/dbus/a")
    });
    let log = room.log();
    let line = log
        .lines()
        .find(|line| line.contains("/run/dbus/a"))
        .unwrap();
    for part in [
        "denied who=\"session ",
        "comm=\"python3",
        "hook=\"connect_unix\"",
        "forged",
        "uid=19200000",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!log.contains('\x1b'));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_ends() {
    let Some(mut room) = Room::empty() else {
        return;
    };
    let socket = room.path("notify");
    let notices = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    notices
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let next = || {
        let mut bytes = [0; 256];
        let len = notices.recv(&mut bytes).unwrap();
        text(&bytes[..len])
    };
    let log = File::create(room.path("log")).unwrap();
    let mut custodyd = room.custodyd();
    custodyd.env("NOTIFY_SOCKET", &socket).stderr(log);
    room.daemon = Some(custodyd.spawn().unwrap());
    // Its listener is to be kept, from run to run.
    assert_eq!(next(), "FDSTOREREMOVE=1\nFDNAME=control\n");
    assert_eq!(next(), "FDSTORE=1\nFDNAME=control\n");
    assert_eq!(next().trim(), "READY=1");
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
    assert_eq!(room.end(Signal::SIGTERM), Some(0));
    assert_eq!(next().trim(), "STOPPING=1");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_uid_that_another_process_took_meanwhile_is_passed_over() {
    use std::os::unix::process::CommandExt as _;

    let Some(mut room) = Room::empty() else {
        return;
    };
    let config = fs::read_to_string(room.path("custodyd.toml")).unwrap();
    let two = config.replacen("count = 50", "count = 2", 1);
    fs::write(room.path("custodyd.toml"), two).unwrap();
    room.start();
    let uid = || -> u32 {
        let output = room.run(&["--", "/usr/bin/id", "-u"]);
        text(&output.stdout)
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{output:?}"))
    };
    // A launcher that was ready has the other one in its plan when it is found to be taken.
    let (one, other) = (uid(), uid());
    assert_ne!(one, other);
    for taken in [one, other] {
        let mut process = Command::new("/bin/sleep")
            .arg("300")
            .uid(taken)
            .spawn()
            .unwrap();
        for _ in 0..3 {
            assert_eq!(uid(), one + other - taken);
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert_ne!(uid(), uid(), "both serve again");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn every_uid_taken_is_said_and_one_that_comes_back_serves_again() {
    let Some(mut room) = Room::empty() else {
        return;
    };
    let config = fs::read_to_string(room.path("custodyd.toml")).unwrap();
    let one = config.replacen("count = 50", "count = 1", 1);
    fs::write(room.path("custodyd.toml"), one).unwrap();
    room.start();
    let (mut session, _out) = room.sleeper();
    let output = room.run(&["--", "/bin/true"]);
    assert!(
        text(&output.stderr).contains("every uid of the agents' range is in use"),
        "{output:?}"
    );
    session.kill().unwrap();
    session.wait().unwrap();
    room.until("its uid is free", || {
        room.run(&["--", "/bin/true"]).status.success()
    });
}

//! Each program killed, and programs that never come up.

use std::{
    fs::{self},
    io::Read as _,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    process::Command,
    time::Duration,
};

use custody_sys::cgroup::Cgroup;
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
fn a_dead_vault_or_front_is_replaced_and_sessions_go_on() {
    let Some(room) = Room::new() else { return };
    let (mut session, mut out) = room.caller();
    room.kill_service("vault", "services");
    room.kill_service("resolver", "workers");
    room.kill_service("front", "services");
    assert!(session.try_wait().unwrap().is_none(), "{}", room.log());
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));

    // Too often, and the session that rests on it ends.
    for _ in 0..5 {
        let fronts = room.pids("services", "front");
        for pid in &fronts {
            match kill(Pid::from_raw(*pid), Signal::SIGKILL) {
                Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
                Err(errno) => panic!("{errno}"),
            }
        }
        room.until("the front is another, or none", || {
            room.pids("services", "front") != fronts
        });
        std::thread::sleep(Duration::from_millis(150));
    }
    room.until("the session ends", || room.sessions().is_empty());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("never"));
    assert!(!session.wait().unwrap().success());
    assert!(
        room.log().contains("its front ended too often"),
        "{}",
        room.log()
    );
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_dead_gate_or_control_ends_every_session_and_is_replaced() {
    let Some(room) = Room::new() else { return };
    for service in ["gate", "control"] {
        let (mut session, _out) = room.sleeper();
        room.kill_service(service, "services");
        room.until("the session is gone", || room.sessions().is_empty());
        assert!(!session.wait().unwrap().success());
        room.until("all is well again", || {
            room.run(&["--", "/bin/true"]).status.code() == Some(0)
        });
    }
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn when_custodyd_is_killed_everything_of_it_ends_the_hooks_hold_and_the_next_start_cleans_up() {
    let Some(mut room) = Room::new() else { return };
    let (mut session, _out) = room.sleeper();
    room.end(Signal::SIGKILL);
    room.until("every process of it ends", || room.uid_is_free());
    assert!(!session.wait().unwrap().success());
    let pins = fs::read_dir(room.pins()).unwrap().count();
    assert_eq!(pins, 36, "twelve hooks of three groups stay pinned");
    // Whoever comes into the group now is still held.
    let agents = room.cgroup.join("custody/agents");
    let script = format!(
        "echo $$ > {}/cgroup.procs; python3 -c 'import socket; socket.socket()'",
        agents.display()
    );
    let tried = Command::new("/bin/sh")
        .arg("-c")
        .arg(script)
        .output()
        .unwrap();
    assert!(text(&tried.stderr).contains("PermissionError"), "{tried:?}");

    // A leftover that ignores signals, in a folder of an earlier session.
    let left = Cgroup::create(&agents.join("left-1")).unwrap();
    let mut stubborn = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!(
            "echo $$ > {}/cgroup.procs; trap '' TERM HUP INT; sleep 300",
            left.path().display()
        ))
        .spawn()
        .unwrap();
    room.until("it is there", || !left.is_empty().unwrap());
    room.start();
    assert_eq!(stubborn.wait().unwrap().signal(), Some(9));
    assert!(!left.path().exists());
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
    assert_eq!(room.end(Signal::SIGINT), Some(0));
    assert!(!room.cgroup.join("custody").exists());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_service_that_cannot_be_executed_says_why() {
    let Some(room) = Room::empty() else { return };
    let script = room.copied_programs().join("custody-control");
    fs::remove_file(&script).unwrap();
    // A service is given its own program to execute, no interpreter.
    fs::write(&script, "#!/bin/sh\nexec sleep 60\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let words = room.refused(&[]);
    assert!(words.contains("not executed"), "{words}");
    assert!(words.contains("execve(2)"), "{words}");
    assert!(
        words.contains("custody-control ended 8 times in a row"),
        "{words}"
    );
    assert!(!room.cgroup.exists());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_service_that_never_stays_up_ends_custodyd_and_leaves_nothing() {
    let Some(room) = Room::empty() else { return };
    fs::copy("/bin/false", room.copied_programs().join("custody-gate")).unwrap();
    let words = room.refused(&[]);
    assert!(
        words.contains("custody-gate ended 8 times in a row"),
        "{words}"
    );
    assert_eq!(room.living(), Vec::<String>::new());
    assert!(!room.cgroup.exists());
    assert!(!room.pins().exists());
}

//! What the hooks are worth and what they counted, as the operator reads it.

use std::process::Stdio;

use serial_test::file_serial;

use crate::room::{Room, text};

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn the_end_of_a_session_says_what_its_hooks_let_through_and_refused() {
    let Some(room) = Room::new() else { return };
    let program = "import socket\n\
        socket.socket(socket.AF_UNIX).connect('/run/custody/session.sock')\n\
        for _ in range(3):\n\
        \x20   try: socket.socket(socket.AF_UNIX).connect('/var/x')\n\
        \x20   except OSError: pass\n";
    let ran = room.run(&["--", "/usr/bin/python3", "-c", program]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    room.until("the end in the journal", || {
        room.log().contains("session ended")
    });
    let log = room.log();
    let ended = log
        .lines()
        .find(|line| line.contains("session ended"))
        .unwrap();
    assert!(ended.contains("allowed (connect_unix 1"), "{ended}");
    assert!(ended.contains("refused (connect_unix 3"), "{ended}");
    assert!(ended.contains("0 events lost"), "{ended}");
    assert!(
        !ended.contains("system calls"),
        "nobody asked for them: {ended}"
    );
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_a_session_that_runs_was_let_do_and_refused_is_in_the_list_of_sessions() {
    let Some(room) = Room::new() else { return };
    let program = "import socket, sys\n\
        socket.socket(socket.AF_UNIX).connect('/run/custody/session.sock')\n\
        for _ in range(3):\n\
        \x20   try: socket.socket(socket.AF_UNIX).connect('/var/x')\n\
        \x20   except OSError: pass\n\
        sys.stdin.read()\n";
    let mut child = room
        .custody(&["run", "--", "/usr/bin/python3", "-c", program])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let listed = || {
        let out = room.custody(&["ps", "--json"]).output().unwrap();
        let text = text(&out.stdout);
        let (_, counts) = text.split_once("\"allowed\":").unwrap_or_default();
        let (_, refused) = counts.split_once("\"refused\":").unwrap_or_default();
        let number = |text: &str| text.split([',', '}']).next().unwrap_or_default().to_owned();
        (number(counts), number(refused))
    };
    // Every few seconds custodyd says them.
    room.until("the counts", || listed() == ("1".into(), "3".into()));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_kernel_without_lsm_programs_is_said_at_the_start_and_hardened_is_refused_there() {
    let Some(room) = Room::new() else { return };
    let log = room.log();
    let attached = log.lines().find(|line| line.contains("hooks are attached"));
    let attached = attached.unwrap_or_default();
    let asked = room.run(&["--profile", "hardened", "--", "/bin/true"]);
    if attached.contains("lsm=\"full\"") {
        println!("not attempted: a refusal for want of LSM programs; this kernel takes them");
        return;
    }
    assert!(attached.contains("none: "), "{log}");
    assert_ne!(asked.status.code(), Some(0));
    let why = text(&asked.stderr);
    assert!(
        why.contains("`hardened`") && why.contains("`bpf_lsm`"),
        "{why}"
    );
    // What requires less goes on.
    let less = room.run(&["--profile", "standard", "--", "/bin/true"]);
    assert_eq!(less.status.code(), Some(0), "{}", text(&less.stderr));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn system_calls_are_counted_where_the_configuration_asks_for_it() {
    let Some(mut room) = Room::empty() else {
        return;
    };
    room.configure("[observation]\nsyscalls = true\n");
    room.start();
    let ran = room.run(&["--", "/bin/true"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    room.until("the end in the journal", || {
        room.log().contains("session ended")
    });
    let log = room.log();
    let ended = log
        .lines()
        .find(|line| line.contains("session ended"))
        .unwrap();
    assert!(ended.contains(" system calls"), "{ended}");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_people_run_works_behind_every_hook() {
    let Some(room) = Room::new() else { return };
    let script = "set -e\n\
        python3 -c 'import os, asyncio, multiprocessing; os.openpty(); asyncio.run(asyncio.sleep(0))'\n\
        script -qec 'tty' /dev/null\n\
        head -c 8 /dev/urandom > /dev/null\n\
        if command -v git; then cd /tmp; git init -q g; cd g; echo a > a; git add a; \
            git -c user.name=a -c user.email=a@b commit -qm a; git status; fi\n\
        if command -v node; then node -e 'require(\"child_process\").execSync(\"true\")'; fi\n\
        echo all of it";
    let ran = room.run(&["--", "/bin/bash", "-c", script]);
    let (out, err) = (text(&ran.stdout), text(&ran.stderr));
    assert!(out.contains("all of it"), "{out}\n{err}\n{}", room.log());
}

//! What an agent finds inside a real session.

#[cfg(test)]
mod support;

use std::{
    fs::File,
    io::{Read as _, Write as _},
    path::Path,
};

use custody_wire::launch::{Outcome, Role, WindowSize};
use nix::sys::wait::WaitStatus;
use support::{GID, Start, UID, can_run};

#[test]
fn the_command_ends_and_its_status_comes_back() {
    if !can_run() {
        return;
    }
    let ended = Start::sh("echo out; echo err >&2; exit 7").run();
    assert_eq!(
        ended.outcome,
        Some(Outcome::Exited { code: 7 }),
        "{ended:?}"
    );
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert!(
        matches!(ended.status, WaitStatus::Exited(_, 7)),
        "{ended:?}"
    );

    // A real-time signal has no name, and ends a command all the same.
    let ended = Start::sh("kill -40 $$").run();
    assert_eq!(ended.outcome, Some(Outcome::Killed { signal: 40 }));

    let ended = Start::sh("kill -9 $$").run();
    assert_eq!(ended.outcome, Some(Outcome::Killed { signal: 9 }));
    assert!(
        matches!(ended.status, WaitStatus::Exited(_, 137)),
        "{ended:?}"
    );
}

#[test]
fn a_command_that_is_not_there_is_told_apart_from_one_that_fails() {
    if !can_run() {
        return;
    }
    let ended = Start::command(&["no-such-command"]).run();
    let errno = nix::libc::ENOENT;
    assert_eq!(ended.outcome, Some(Outcome::NotExecuted { errno }));
    assert!(
        matches!(ended.status, WaitStatus::Exited(_, 127)),
        "{ended:?}"
    );

    let ended = Start::command(&["/etc/passwd"]).run();
    let errno = nix::libc::EACCES;
    assert_eq!(ended.outcome, Some(Outcome::NotExecuted { errno }));
    assert!(
        matches!(ended.status, WaitStatus::Exited(_, 126)),
        "{ended:?}"
    );

    let ended = Start::sh("exit 127").run();
    assert_eq!(ended.outcome, Some(Outcome::Exited { code: 127 }));
}

#[test]
fn standard_input_reaches_the_command_and_ends() {
    if !can_run() {
        return;
    }
    let session = Start::command(&["/usr/bin/tr", "a-z", "A-Z"])
        .prepare()
        .unwrap();
    assert_eq!(session.run(b"quiet\n").text(), "QUIET");
}

#[test]
fn the_session_is_a_user_of_its_own_with_nothing_else() {
    if !can_run() {
        return;
    }
    let text = Start::sh("id; cat /proc/self/status; ulimit -c; hostname").run();
    let text = text.text();
    assert!(
        text.starts_with(&format!(
            "uid={UID}(agent) gid={GID}(agent) groups={GID}(agent)\n"
        )),
        "{text}"
    );
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            text.contains(&format!("{set}:\t0000000000000000\n")),
            "{text}"
        );
    }
    for wanted in ["NoNewPrivs:\t1\n", "Seccomp:\t2\n", "\ncustody"] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
}

#[test]
fn the_environment_is_constructed() {
    if !can_run() {
        return;
    }
    let mut start = Start::command(&["/usr/bin/env"]);
    start.environment = vec!["TERM=xterm".into(), "EXTRA=1".into()];
    let ended = start.run();
    let mut names: Vec<&str> = ended.text().lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "EXTRA=1",
            "HOME=/home/agent",
            "LANG=C.UTF-8",
            "LOGNAME=agent",
            "PATH=/usr/local/bin:/usr/bin:/bin:/run/custody/bin",
            "SHELL=/bin/bash",
            "TERM=xterm",
            "TMPDIR=/tmp",
            "USER=agent",
        ]
    );
}

#[test]
fn no_descriptor_but_the_three_streams_is_open() {
    if !can_run() {
        return;
    }
    let ended = Start::sh("ls -l /proc/self/fd | awk 'NF > 8 { print $9, $11 }'").run();
    let open: Vec<&str> = ended.text().lines().collect();
    // 3 is the listing's own.
    assert_eq!(open.len(), 4, "{open:?}");
    for (number, line) in open.iter().take(3).enumerate() {
        assert!(line.starts_with(&format!("{number} pipe:[")), "{open:?}");
    }
    assert!(open[3].starts_with("3 /proc/"), "{open:?}");
}

#[test]
fn only_the_sessions_own_processes_are_there() {
    if !can_run() {
        return;
    }
    let ended = Start::sh("cd /proc; echo [0-9]*; cat /proc/1/comm").run();
    assert_eq!(ended.text(), "1 2\ncustody-init");
}

#[test]
fn init_cannot_be_looked_into_by_the_command() {
    if !can_run() {
        return;
    }
    for file in ["environ", "mem", "maps", "fd/3", "root", "cwd", "exe"] {
        let ended = Start::sh(&format!("ls -L /proc/1/{file} && head -c1 /proc/1/{file}")).run();
        assert_ne!(ended.outcome, Some(Outcome::Exited { code: 0 }), "{file}");
        assert!(
            ended.stderr.contains("Permission denied"),
            "{file}: {ended:?}"
        );
    }
}

#[test]
fn the_hosts_files_are_absent_and_the_systems_are_read_only() {
    if !can_run() {
        return;
    }
    for absent in [
        "/root",
        "/work",
        "/sys",
        "/boot",
        "/mnt",
        "/var/lib",
        "/etc/shadow",
        "/etc/resolv.conf",
        "/etc/machine-id",
        "/etc/pip.conf",
        "/etc/npmrc",
        "/run/systemd",
    ] {
        assert!(
            Start::sh(&format!("test ! -e {absent}")).run().outcome
                == Some(Outcome::Exited { code: 0 }),
            "{absent}"
        );
    }
    let git = Start::sh("cat /etc/gitconfig").run();
    assert_eq!(
        git.text(),
        "[core]\n\tcheckStat = minimal",
        "not the host's"
    );
    for place in [
        "/",
        "/usr",
        "/usr/bin",
        "/run/custody/bin",
        "/etc",
        "/etc/ssl",
        "/dev",
        "/proc",
        "/run",
        "/run/custody",
        "/var",
        "/home",
    ] {
        let ended = Start::sh(&format!("touch {place}/x")).run();
        assert_ne!(ended.outcome, Some(Outcome::Exited { code: 0 }), "{place}");
    }
    let ended = Start::sh(
        "for d in /tmp /home/agent /dev/shm /var/tmp; do echo x > $d/x && cat $d/x; done",
    )
    .run();
    assert_eq!(ended.text(), "x\nx\nx\nx");
}

#[test]
fn every_mount_is_read_only_or_carries_no_set_user_id_programs() {
    if !can_run() {
        return;
    }
    let ended = Start::sh("cat /proc/self/mountinfo").run();
    for line in ended.text().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (point, options) = (fields[4], fields[5]);
        let has = |option: &str| options.split(',').any(|one| one == option);
        assert!(has("nosuid") || point.starts_with("/proc/"), "{line}");
        assert!(
            has("nodev") || point.starts_with("/dev") || point.starts_with("/proc/"),
            "{line}"
        );
        let writable = ["/tmp", "/home/agent", "/dev", "/dev/shm", "/dev/pts"];
        assert!(
            has("ro") || writable.contains(&point) || point.starts_with("/proc/"),
            "{line}"
        );
    }
}

#[test]
fn sysctls_and_the_sessions_own_proc_files_are_not_written() {
    if !can_run() {
        return;
    }
    for file in [
        "/proc/sys/kernel/core_pattern",
        "/proc/self/oom_score_adj",
        "/proc/self/mem",
        "/proc/self/uid_map",
    ] {
        let ended = Start::sh(&format!("echo 0 > {file}")).run();
        assert_ne!(ended.outcome, Some(Outcome::Exited { code: 0 }), "{file}");
    }
    let ended =
        Start::sh("wc -c < /proc/kallsyms; wc -c < /proc/keys; grep -c processor /proc/cpuinfo")
            .run();
    let lines: Vec<&str> = ended.text().lines().collect();
    assert_eq!(&lines[..2], ["0", "0"]);
    assert_ne!(lines[2], "0");
}

#[test]
fn a_symlink_below_tmp_does_not_resolve() {
    if !can_run() {
        return;
    }
    // The prefix rule for unix sockets below /tmp/ rests on it.
    let ended = Start::sh("ln -s /run/custody /tmp/l && ls /tmp/l/").run();
    assert!(ended.stderr.contains("Too many levels"), "{ended:?}");
    let ended = Start::sh("mkdir ~/d && ln -s ~/d ~/l && ls ~/l/").run();
    assert_eq!(ended.text(), "");
}

#[test]
fn the_listener_takes_bytes_and_no_descriptor() {
    if !can_run() {
        return;
    }
    let (probe, _other) = custody_sys::channel::pair_stream().unwrap();
    let refused = custody_sys::channel::Rights::Refused;
    if !custody_sys::channel::set_rights(&probe, refused).unwrap() {
        println!("not attempted: needs SO_PASSRIGHTS (Linux 6.16)");
        return;
    }
    // Before it is accepted, for nobody does so here.
    let ended = Start::python(
        "import array, os, socket\n\
         s = socket.socket(socket.AF_UNIX)\n\
         s.connect('/run/custody/session.sock')\n\
         print(s.send(b'x'), end=' ')\n\
         rights = array.array('i', [os.open('/dev/null', os.O_RDONLY)])\n\
         try: s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n\
         except OSError as error: print(error.errno)",
    )
    .run();
    assert_eq!(ended.text(), "1 1", "EPERM: {}", ended.text());
}

#[test]
fn the_listener_is_there_and_whoever_has_it_is_reached() {
    if !can_run() {
        return;
    }
    let script = "import socket\ns = socket.socket(socket.AF_UNIX)\n\
        s.connect('/run/custody/session.sock')\ns.sendall(b'hello')\nprint(s.recv(9).decode())";
    let mut session = Start::python(script).prepare().unwrap();
    let listener = std::os::unix::net::UnixListener::from(session.end(Role::Listener));
    let front = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let peer = custody_sys::peer::credentials(&connection).unwrap();
        let mut asked = [0; 5];
        connection.read_exact(&mut asked).unwrap();
        connection.write_all(b"answer").unwrap();
        (peer.uid, asked)
    });
    assert_eq!(session.run(b"").text(), "answer");
    assert_eq!(front.join().unwrap(), (UID, *b"hello"));
}

#[test]
fn what_the_command_leaves_behind_ends_with_it() {
    if !can_run() {
        return;
    }
    let session = Start::sh(
        "setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; sleep 0.1; echo started",
    )
    .prepare()
    .unwrap();
    let start = std::time::Instant::now();
    assert_eq!(session.run(b"").text(), "started");
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn the_streams_are_the_commands_own_to_open_again() {
    if !can_run() {
        return;
    }
    let session = Start::sh("read x < /dev/stdin; echo $x > /dev/stdout; echo err > /dev/stderr")
        .prepare()
        .unwrap();
    let ended = session.run(b"again\n");
    assert_eq!(ended.text(), "again");
    assert_eq!(ended.stderr, "err\n");
}

#[test]
fn a_session_ends_with_the_thread_that_started_it() {
    if !can_run() {
        return;
    }
    let started = std::thread::spawn(|| {
        let mut session = Start::sh("echo up; sleep 20").prepare().unwrap();
        let mut stdout = File::from(session.end(Role::Stdout));
        session.go();
        stdout.read_exact(&mut [0; 3]).unwrap();
        session
    });
    let session = started.join().unwrap();
    let (outcome, status) = session.ended();
    assert_eq!(outcome, None);
    let killed = nix::sys::signal::Signal::SIGKILL;
    assert!(
        matches!(status, WaitStatus::Signaled(_, signal, _) if signal == killed),
        "{status:?}"
    );
}

#[test]
fn signals_are_passed_on_to_the_command() {
    if !can_run() {
        return;
    }
    for (signal, name) in [
        (nix::sys::signal::Signal::SIGTERM, "TERM"),
        (nix::sys::signal::Signal::SIGHUP, "HUP"),
        (nix::sys::signal::Signal::SIGUSR1, "USR1"),
    ] {
        let mut session = Start::sh(&format!(
            "trap 'exit 42' {name}; echo ready; while :; do sleep 0.05; done"
        ))
        .prepare()
        .unwrap();
        let mut stdout = File::from(session.end(Role::Stdout));
        session.go();
        let mut ready = [0; 6];
        stdout.read_exact(&mut ready).unwrap();
        nix::sys::signal::kill(session.child.pid, signal).unwrap();
        let (outcome, _) = session.ended();
        assert_eq!(outcome, Some(Outcome::Exited { code: 42 }), "{name}");
    }
}

#[test]
fn no_signal_is_blocked_or_ignored_in_the_command() {
    if !can_run() {
        return;
    }
    let ended = Start::command(&["/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]).run();
    assert_eq!(
        ended.text(),
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000"
    );
}

#[test]
fn orphans_are_reaped() {
    if !can_run() {
        return;
    }
    let script = "for i in 1 2 3 4 5; do (sh -c 'sleep 0.01 &'); done; sleep 0.3; \
        cat /proc/[0-9]*/stat | awk '{print $3}' | sort | uniq -c | grep -c Z";
    let ended = Start::sh(script).run();
    assert_eq!(ended.stdout.trim(), "0", "{ended:?}");
}

#[test]
fn a_private_terminal_is_the_commands_own() {
    if !can_run() {
        return;
    }
    let mut start = Start::sh(
        "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all; \
        ls -l /dev/pts/0 | cut -c1-10; exec < /dev/tty && echo controlling; ps -o tty= -p $$",
    );
    start.tty = Some(WindowSize {
        rows: 41,
        columns: 133,
    });
    let mut session = start.prepare().unwrap();
    let mut master = File::from(session.end(Role::Master));
    session.go();
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    // EIO: the last slave was closed.
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        text.extend_from_slice(&buffer[..len]);
    }
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(
        lines[..5],
        ["/dev/pts/0", "41 133", "all", "crw--w----", "controlling"],
        "{text}"
    );
    assert_eq!(session.ended().0, Some(Outcome::Exited { code: 0 }));
}

#[test]
fn control_c_of_the_terminal_interrupts_the_command() {
    if !can_run() {
        return;
    }
    let mut start = Start::sh("trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done");
    start.tty = Some(WindowSize {
        rows: 24,
        columns: 80,
    });
    let mut session = start.prepare().unwrap();
    let mut master = File::from(session.end(Role::Master));
    session.go();
    let mut ready = [0; 7];
    master.read_exact(&mut ready).unwrap();
    master.write_all(b"\x03").unwrap();
    assert_eq!(session.ended().0, Some(Outcome::Exited { code: 9 }));
}

#[test]
fn read_only_mounts_of_the_policy_are_shown_at_their_place() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir_in("/opt").unwrap();
    std::os::unix::fs::chown(folder.path(), Some(UID), None).unwrap();
    std::fs::write(folder.path().join("tool"), "#!/bin/sh\necho tool\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("tool"), mode).unwrap();
    let place = folder.path().display();
    let mut start = Start::sh(&format!(
        "{place}/tool; ls -A /opt | wc -l; touch {place}/new; grep ' {place} ' /proc/self/mountinfo"
    ));
    start.read_only = vec![folder.path().into()];
    let ended = start.run();
    let lines: Vec<&str> = ended.text().lines().collect();
    assert_eq!(lines[..2], ["tool", "1"]);
    assert!(lines[2].contains(" ro,nosuid,nodev"), "{ended:?}");
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_read_only_mount_that_cannot_be_is_refused_by_name() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir_in("/opt").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/root", &link).unwrap();
    for (place, why) in [
        ("/no/such", "`/no/such`"),
        ("/", "hide the session's own"),
        ("/home", "hide the session's own"),
        ("/tmp/x", "lies below `/tmp`"),
        ("/proc/sys", "lies below `/proc`"),
        ("relative", "plain absolute"),
        (link.to_str().unwrap(), "without symlinks"),
    ] {
        let mut start = Start::sh("true");
        start.read_only = vec![Path::new(place).into()];
        let refused = start.refused();
        assert!(refused.contains(why), "{place}: {refused}");
    }
}

#[test]
fn root_is_never_a_session() {
    if !can_run() {
        return;
    }
    let mut start = Start::sh("true");
    start.uid = Some(0);
    assert!(start.refused().contains("root"));
}

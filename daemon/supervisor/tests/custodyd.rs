//! custodyd with all its programs on the real kernel: in a cgroup, folders and uid ranges of the
//! test's own. Needs root, the eBPF object and the programs (`cargo xtask build`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests stand outside the test functions that clippy exempts"
)]

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use custody_supervisor::hooks::Hooks;
use custody_sys::cgroup::{self, Cgroup};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serial_test::file_serial;

const CUSTODYD: &str = env!("CARGO_BIN_EXE_custodyd");

/// An installation of the test's own.
struct Room {
    folder: tempfile::TempDir,
    cgroup: PathBuf,
    daemon: Option<Child>,
}

impl Room {
    /// A room with custodyd in it, ready.
    fn new() -> Option<Self> {
        let mut room = Self::empty()?;
        room.start();
        Some(room)
    }

    fn empty() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return None;
        }
        if Hooks::object().is_none() || !programs().join("session/custody-init").exists() {
            println!("not attempted: needs the eBPF object and the programs (`cargo xtask build`)");
            return None;
        }
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|root| Cgroup::open(root.as_ref()).is_ok());
        let Some(root) = root else {
            println!("not attempted: needs cgroup2");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("custodyd")
            .tempdir()
            .unwrap();
        // Callers must reach the socket.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let cgroup = Path::new(root).join(folder.path().file_name().unwrap());
        let room = Self {
            folder,
            cgroup,
            daemon: None,
        };
        fs::create_dir(room.path("policies")).unwrap();
        fs::write(room.path("policies/plain.toml"), "format = 1\n").unwrap();
        room.configure("");
        Some(room)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, more: &str) {
        let at = |name: &str| self.path(name).display().to_string();
        let text = format!(
            "format = 1\n[paths]\ncgroup = '{}'\npolicies = '{}'\nruntime = '{}'\nstate = '{}'\n\
             programs = '{}'\n[users]\ncontrol = '64201'\ngate = '64202'\nresolver = '64203'\n\
             vault = '64204'\n[uids.agents]\nfirst = 1920000000\ncount = 50\n\
             [uids.fronts]\nfirst = 1920000100\ncount = 50\n\
             [uids.workers]\nfirst = 1920000200\ncount = 50\n\
             [[access]]\nuids = [1000]\npolicies = ['plain']\n{more}",
            self.cgroup.display(),
            at("policies"),
            at("run"),
            at("state"),
            programs().display(),
        );
        fs::write(self.path("custodyd.toml"), text).unwrap();
    }

    /// Programs of the room's own, to break one of them.
    fn copied_programs(&self) -> PathBuf {
        let copy = self.path("programs");
        fs::create_dir_all(copy.join("session")).unwrap();
        for name in ["control", "effect", "front", "gate", "launch", "vault"] {
            let name = format!("custody-{name}");
            fs::copy(programs().join(&name), copy.join(&name)).unwrap();
        }
        for name in ["custody-bridge", "custody-init"] {
            let name = Path::new("session").join(name);
            fs::copy(programs().join(&name), copy.join(&name)).unwrap();
        }
        let config = fs::read_to_string(self.path("custodyd.toml")).unwrap();
        let (from, to) = (programs().display().to_string(), copy.display().to_string());
        fs::write(self.path("custodyd.toml"), config.replace(&from, &to)).unwrap();
        copy
    }

    fn custodyd(&self) -> Command {
        let mut command = Command::new(CUSTODYD);
        command.arg("--config").arg(self.path("custodyd.toml"));
        command
    }

    fn start(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let before = self.log().matches(" ready ").count();
        self.daemon = Some(self.custodyd().stderr(log).spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.log().matches(" ready ").count() == before {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts custodyd, which refuses; its last words.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.custodyd().args(arguments).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(
                Instant::now() < deadline,
                "not in time: {what}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn custody(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs().join("custody"));
        command
            .arg("--socket")
            .arg(self.path("run/control.sock"))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.custody(&["run"]).args(arguments).output().unwrap()
    }

    /// A session whose command is a shell that says `up` and sleeps.
    fn sleeper(&self) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child = self
            .custody(&[
                "run",
                "--",
                "/bin/sh",
                "-c",
                "echo up; sleep 300; echo never",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "{}", self.log());
        (child, out)
    }

    /// The pids in the cgroups of `group` whose name begins with `name`.
    fn pids(&self, group: &str, name: &str) -> Vec<i32> {
        let folder = self.cgroup.join("custody").join(group);
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(name))
            .filter_map(|entry| fs::read_to_string(entry.path().join("cgroup.procs")).ok())
            .flat_map(|text| {
                let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
                pids
            })
            .collect()
    }

    /// Kills the one process of a service; returns when there is another.
    fn kill_service(&self, name: &str, group: &str) {
        self.until("it runs", || self.pids(group, name).len() == 1);
        let before = self.pids(group, name);
        let [pid] = before.as_slice() else {
            panic!("{name}: {before:?}");
        };
        kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap();
        self.until("another one runs", || {
            let now = self.pids(group, name);
            now.len() == 1 && now != before
        });
    }

    fn daemon_pid(&self) -> Pid {
        let id = self.daemon.as_ref().unwrap().id();
        Pid::from_raw(i32::try_from(id).unwrap())
    }

    fn pins(&self) -> PathBuf {
        let name = self.cgroup.display().to_string().replace('/', "-");
        let top = Path::new("/sys/fs/bpf/custody");
        let found = fs::read_dir(top).unwrap().flatten().find(|entry| {
            let entry = entry.file_name().to_string_lossy().into_owned();
            entry
                .replace("_2d", "-")
                .replace("_5f", "_")
                .replace("_2e", ".")
                == name
        });
        found.map_or_else(|| top.join("none"), |entry| entry.path())
    }

    /// Ends custodyd by a signal and returns its exit code.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill(self.daemon_pid(), signal).unwrap();
        let status = self.daemon.take().unwrap().wait().unwrap();
        status.code()
    }

    fn uid_is_free(&self) -> bool {
        let ours = |uid: u32| {
            (1_920_000_000..1_920_000_300).contains(&uid) || (64_201..=64_204).contains(&uid)
        };
        procfs::process::all_processes()
            .unwrap()
            .flatten()
            .filter_map(|process| process.status().ok())
            .all(|status| !ours(status.ruid))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        let ours = self.cgroup.join("custody");
        cgroup::kill(&ours).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !cgroup::is_empty(&ours).unwrap() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pins = self.pins();
        cgroup::remove(&self.cgroup).unwrap();
        if pins.exists() {
            fs::remove_dir_all(pins).unwrap();
        }
    }
}

/// Where `cargo xtask build` puts the programs: beside the profile's folder.
fn programs() -> PathBuf {
    let profile = Path::new(CUSTODYD).parent().unwrap();
    profile.parent().unwrap().join("custody")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
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
    assert!(room.pids("agents", "").is_empty());
    assert!(room.pids("services", "front").is_empty());
    assert_eq!(
        fs::read_dir(room.cgroup.join("custody/agents"))
            .unwrap()
            .flatten()
            .filter(|e| e.path().is_dir())
            .count(),
        0
    );

    let uids: Vec<String> = (0..2)
        .map(|_| text(&room.run(&["--", "/usr/bin/id", "-u"]).stdout))
        .collect();
    assert_ne!(uids[0], uids[1], "a uid comes round as late as it can");

    assert_eq!(room.end(Signal::SIGTERM), Some(0));
    assert!(room.uid_is_free());
    assert!(!room.cgroup.exists());
    assert!(!room.pins().exists());
    assert!(!room.path("run/control.sock").exists());
}

#[test]
#[file_serial(custody)]
fn stop_and_signals_reach_the_session_that_they_name() {
    let Some(room) = Room::new() else { return };
    let (mut one, _) = room.sleeper();
    let (mut two, _) = room.sleeper();
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
#[file_serial(custody)]
fn a_dead_vault_or_front_is_replaced_and_sessions_go_on() {
    let Some(room) = Room::new() else { return };
    let (mut session, mut out) = room.sleeper();
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
    room.until("the session ends", || room.pids("agents", "").is_empty());
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
#[file_serial(custody)]
fn a_dead_gate_or_control_ends_every_session_and_is_replaced() {
    let Some(room) = Room::new() else { return };
    for service in ["gate", "control"] {
        let (mut session, _out) = room.sleeper();
        room.kill_service(service, "services");
        room.until("the session is gone", || room.pids("agents", "").is_empty());
        assert!(!session.wait().unwrap().success());
        room.until("all is well again", || {
            room.run(&["--", "/bin/true"]).status.code() == Some(0)
        });
    }
}

#[test]
#[file_serial(custody)]
fn when_custodyd_is_killed_everything_of_it_ends_the_hooks_hold_and_the_next_start_cleans_up() {
    let Some(mut room) = Room::new() else { return };
    let (mut session, _out) = room.sleeper();
    room.end(Signal::SIGKILL);
    room.until("every process of it ends", || room.uid_is_free());
    assert!(!session.wait().unwrap().success());
    let pins = fs::read_dir(room.pins()).unwrap().count();
    assert_eq!(pins, 27, "nine hooks of three groups stay pinned");
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
#[file_serial(custody)]
fn a_second_custodyd_is_refused_and_the_first_does_not_notice() {
    let Some(room) = Room::new() else { return };
    let words = room.refused(&[]);
    assert!(words.contains("another custodyd runs here"), "{words}");
    // Other folders, the same cgroups.
    let config = fs::read_to_string(room.path("custodyd.toml")).unwrap();
    let other = config.replace(
        &room.path("run").display().to_string(),
        &room.path("run2").display().to_string(),
    );
    fs::write(room.path("custodyd.toml"), other).unwrap();
    let words = room.refused(&[]);
    assert!(
        words.contains("another custodyd has the cgroups"),
        "{words}"
    );
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
}

#[test]
#[file_serial(custody)]
fn what_does_not_hold_at_the_start_is_said_with_what_to_do_and_nothing_is_changed() {
    let Some(room) = Room::empty() else { return };
    let cases: [(&str, &str, &[&str]); 6] = [
        ("unknown = 1", "", &["unknown field `unknown`"]),
        (
            "[credentials]\nmail = { file = '/no/such/token' }",
            "",
            &["credential `mail`", "/no/such/token"],
        ),
        (
            "[credentials]\nmail = { systemd = 'mail' }",
            "",
            &["LoadCredential=mail"],
        ),
        (
            "",
            "format = 1\nunknown = 2\n",
            &["policies/plain.toml", "line 2", "unknown"],
        ),
        ("", "format = 9\n", &["format"]),
        ("", "not toml", &["plain.toml"]),
    ];
    for (config, policy, expected) in cases {
        room.configure(config);
        let policy = if policy.is_empty() {
            "format = 1\n"
        } else {
            policy
        };
        fs::write(room.path("policies/plain.toml"), policy).unwrap();
        for arguments in [&["--check"][..], &[]] {
            let words = room.refused(arguments);
            for part in expected {
                assert!(words.contains(part), "{part} in {words}");
            }
        }
        assert!(!room.path("run").exists());
        assert!(!room.path("state").exists());
        assert!(!room.cgroup.exists());
    }
    room.configure("");
    fs::write(room.path("policies/plain.toml"), "format = 1\n").unwrap();
    let output = room.custodyd().arg("--check").output().unwrap();
    assert!(
        text(&output.stdout).contains("would start: 1 policies"),
        "{output:?}"
    );
}

#[test]
#[file_serial(custody)]
fn a_folder_that_must_not_be_a_workspace_is_refused_with_what_to_do() {
    let Some(room) = Room::new() else { return };
    let mine = tempfile::tempdir_in("/var/tmp").unwrap();
    chown(mine.path(), Some(1000), Some(1000)).unwrap();
    let at = |path: &Path| path.display().to_string();
    let write = ["--", "/bin/sh", "-c", "echo by-the-agent > made && id -u"];

    let with = |folder: &str| room.run(&[&["--workdir", folder][..], &write].concat());
    let output = with(&at(mine.path()));
    assert_eq!(output.status.code(), Some(0), "{output:?}\n{}", room.log());
    let made = fs::metadata(mine.path().join("made")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), 1000);

    let roots = tempfile::tempdir_in("/var/tmp").unwrap();
    for (folder, expected) in [
        (at(roots.path()), "owned by root"),
        ("/".into(), "system folder"),
        ("/no/such/folder".into(), "/no/such/folder"),
        (at(&room.path("state")), ""),
    ] {
        let output = with(&folder);
        assert_eq!(output.status.code(), Some(125), "{folder}: {output:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{folder}: {output:?}"
        );
    }
    // A mount inside it.
    let inner = mine.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let flags = nix::mount::MsFlags::empty();
    nix::mount::mount(Some("none"), &inner, Some("tmpfs"), flags, Some("size=4k")).unwrap();
    let output = with(&at(mine.path()));
    nix::mount::umount(&inner).unwrap();
    assert!(
        text(&output.stderr).contains("is mounted in it"),
        "{output:?}"
    );
    assert!(room.pids("agents", "").is_empty());
}

#[test]
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
    assert_eq!(next().trim(), "READY=1");
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
    assert_eq!(room.end(Signal::SIGTERM), Some(0));
    assert_eq!(next().trim(), "STOPPING=1");
}

#[test]
#[file_serial(custody)]
fn another_than_root_is_told_why_it_cannot_be() {
    let Some(room) = Room::empty() else { return };
    // What nobody may execute, wherever the build put it.
    let custodyd = room.path("custodyd");
    fs::copy(CUSTODYD, &custodyd).unwrap();
    let output = Command::new(custodyd).uid(65_534).output().unwrap();
    assert!(text(&output.stderr).contains("must be root"), "{output:?}");
}

#[test]
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

#[test]
#[file_serial(custody)]
fn a_service_that_never_stays_up_ends_custodyd_and_leaves_nothing() {
    let Some(room) = Room::empty() else { return };
    fs::copy("/bin/false", room.copied_programs().join("custody-gate")).unwrap();
    let words = room.refused(&[]);
    assert!(
        words.contains("custody-gate ended 8 times in a row"),
        "{words}"
    );
    assert!(room.uid_is_free());
    assert!(!room.cgroup.exists());
    assert!(!room.pins().exists());
}

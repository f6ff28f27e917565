//! What a session may use at most: memory and processes, where the host's cgroup2 has the
//! controllers (`cargo xtask guest --tests -- 'custody-tests::limits'`).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests stand outside the test functions that clippy exempts"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
};

use custody_supervisor::limits::{self, Limits};
use custody_tests::{
    ground,
    host::{Host, Setup},
    probe::PYTHON,
};
use custody_wire::layer::Status;
use serial_test::file_serial;

/// The least that a policy can say.
const MEMORY_MB: u64 = 64;

/// So many processes a session may have here; a loop tries for [`TRIED`].
const PROCESSES: u64 = 24;
const TRIED: usize = 200;

/// Forks until it is refused or has [`TRIED`] children, which wait for its end.
const FORKS: &str = "
import errno, os, sys, time
made, refused, pipe = 0, 'nothing', os.pipe()
for _ in range(int(sys.argv[1])):
    try:
        pid = os.fork()
    except OSError as error:
        refused = errno.errorcode[error.errno]
        break
    if pid == 0:
        os.close(pipe[1])
        os.read(pipe[0], 1)
        os._exit(0)
    made += 1
os.close(pipe[1])
for _ in range(made):
    os.wait()
again = os.fork()
if again == 0:
    os._exit(0)
os.waitpid(again, 0)
print(made, refused, flush=True)
sys.stdin.readline()
";

/// Takes more than the session may have: by itself, or into its tmpfs as much as they hold.
const HOGS: [(&str, &str); 2] = [
    (
        "its heap",
        "held = [bytearray(b'x' * (1 << 20)) for _ in range(256)]\nprint('survived')",
    ),
    (
        "its tmpfs",
        "for place in ['/dev/shm', '/home/agent', '/tmp']:\n  f = open(place + '/hog', 'wb', buffering=0)\n  try:\n    for _ in range(256):\n      f.write(b'x' * (1 << 20))\n  except OSError:\n    pass\nheld = bytearray(b'x' * (8 << 20))\nprint('survived')",
    ),
];

fn setup() -> Setup {
    let policy = format!(
        "format = 1\n[session]\nlimits.memory_mb = {MEMORY_MB}\nlimits.processes = {PROCESSES}\n"
    );
    Setup {
        policies: vec![("small".into(), policy)],
        ..Setup::default()
    }
}

/// What its tmpfs may hold: bytes, and files.
const ROOM: &str = "
import os
places = ['/tmp', '/home/agent', '/dev/shm']
found = [os.statvfs(place) for place in places]
assert len({os.stat(place).st_dev for place in places}) == 3
print(*[it.f_blocks * it.f_frsize for it in found], *[it.f_files for it in found])
with open('/tmp/hog', 'wb') as f:
    try:
        for _ in range(64):
            f.write(b'x' * (1 << 20))
            f.flush()
        print('no end')
    except OSError as error:
        print(error.errno)
";

fn host() -> Host {
    Host::start(&setup()).unwrap()
}

/// Where the sessions' cgroup2 has both controllers; says so if not.
fn has_controllers(host: &Host) -> bool {
    let offered = limits::offered(host.cgroup());
    if offered.len() < 2 {
        println!("not attempted: needs the controllers `memory` and `pids` in cgroup2");
        return false;
    }
    true
}

fn python(host: &Host, program: &str) -> Command {
    let mut command = host.run("small", []);
    command.args(["--", PYTHON, "-c", program]);
    command
}

/// A session that is up and waits for a line.
struct Waiting {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().into()
    }

    fn go_on(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
    }
}

/// What a file of a cgroup says.
fn said(cgroup: &Path, file: &str) -> String {
    let text = fs::read_to_string(cgroup.join(file)).unwrap();
    text.trim().into()
}

fn only_cgroup(host: &Host) -> PathBuf {
    let cgroups = host.session_cgroups();
    assert_eq!(cgroups.len(), 1, "{cgroups:?}");
    cgroups.into_iter().next().unwrap()
}

#[test]
#[file_serial(custody)]
fn the_tmpfs_of_a_session_hold_no_more_than_its_memory_on_any_host() {
    if !ground::can_run() {
        return;
    }
    let host = host();
    let out = python(&host, ROOM).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let mut lines = text.lines();
    let numbers: Vec<u64> = lines
        .next()
        .unwrap_or_else(|| panic!("{out:?}"))
        .split(' ')
        .map(|it| it.parse().unwrap())
        .collect();
    let (bytes, files) = numbers.split_at(3);
    assert_eq!(bytes.iter().sum::<u64>(), MEMORY_MB << 20, "{bytes:?}");
    assert!(
        files
            .iter()
            .zip(bytes)
            .all(|(files, bytes)| files * 4096 <= *bytes)
    );
    assert_eq!(lines.next(), Some("28"), "ENOSPC: {text}");
}

/// Both in one installation: its start is the longest part in an emulated machine.
#[test]
#[file_serial(custody)]
fn a_session_that_takes_more_than_it_may_is_held_or_ends_whole_and_alone() {
    if !ground::can_run() {
        return;
    }
    let host = host();
    if !has_controllers(&host) {
        return;
    }
    one_that_takes_more_memory_ends_whole_and_alone(&host);
    a_loop_of_forks_is_held_and_the_session_goes_on(&host);
}

fn one_that_takes_more_memory_ends_whole_and_alone(host: &Host) {
    let waits = "import sys\nprint('up', flush=True)\nsys.stdin.readline()\nprint('still here')";
    let mut bystander = Waiting::start(python(host, waits));
    assert_eq!(bystander.line(), "up");
    let cgroup = only_cgroup(host);
    assert_eq!(said(&cgroup, "memory.max"), (MEMORY_MB << 20).to_string());
    assert_eq!(said(&cgroup, "memory.oom.group"), "1");
    if cgroup.join("memory.swap.max").exists() {
        assert_eq!(said(&cgroup, "memory.swap.max"), "0");
    }

    for (what, hog) in HOGS {
        let Output {
            status,
            stdout,
            stderr,
        } = python(host, hog).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success(), "{what}: {status}");
        assert_eq!(String::from_utf8_lossy(&stdout), "", "{what}: {stderr}");
        host.wait("the hog's session is gone", || {
            host.session_cgroups() == [cgroup.clone()]
        })
        .unwrap();
    }

    bystander.go_on();
    assert_eq!(bystander.line(), "still here");
    assert!(bystander.child.wait().unwrap().success());
    host.wait("the bystander's session is gone", || {
        host.session_cgroups().is_empty()
    })
    .unwrap();
}

fn a_loop_of_forks_is_held_and_the_session_goes_on(host: &Host) {
    let mut command = python(host, FORKS);
    command.arg(TRIED.to_string());
    let mut session = Waiting::start(command);
    let line = session.line();
    let (made, refused) = line.split_once(' ').unwrap();
    let made: u64 = made.parse().unwrap();
    assert!((1..PROCESSES).contains(&made), "{line}");
    assert_eq!(refused, "EAGAIN");
    let cgroup = only_cgroup(host);
    assert_eq!(said(&cgroup, "pids.max"), PROCESSES.to_string());
    session.go_on();
    assert!(session.child.wait().unwrap().success());
}

/// Of root, whom RLIMIT_NPROC does not bind: it is the cgroup that holds.
#[test]
#[file_serial(custody)]
fn the_cgroup_alone_holds_a_loop_of_forks_of_root() {
    if !ground::can_run() {
        return;
    }
    // Its folders alone: nothing of the service is asked.
    let host = Host::install(&setup()).unwrap();
    if !has_controllers(&host) {
        return;
    }
    limits::hand_down(host.cgroup()).unwrap();
    let cgroup = host.cgroup().join("forks");
    fs::create_dir(&cgroup).unwrap();
    let allowed = Limits {
        memory: MEMORY_MB << 20,
        processes: PROCESSES,
    };
    assert_eq!(limits::set(&cgroup, allowed), Status::Full);
    let join = format!(
        "open('{}', 'w').write('0')\n{FORKS}",
        cgroup.join("cgroup.procs").display()
    );
    let output = Command::new(PYTHON)
        .args(["-c", &join, &TRIED.to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let made = PROCESSES - 1; // and itself
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        format!("{made} EAGAIN"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(said(&cgroup, "pids.events"), "max 1");
}

//! Many sessions, one after the other and at once: nothing of them is left, and what one costs.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use custody_tests::{ground, host::Host};

/// So many sessions, each time. More than half of the uids that an installation of the tests has:
/// twice as many need every uid again.
const SESSIONS: usize = 200;

/// The most proportional set size (proc_pid_smaps(5)) of an idle session with its front, in KiB.
const IDLE_MAX: u64 = 4 << 10;

/// The sessions whose memory is looked at together.
const BESIDE: usize = 4;

/// What a session says when it is up, and connected to its front; it ends with its standard input.
const WAITING: &str = "sleep 600 | /run/custody/bin/custody-bridge & echo up; read -r line";

/// The shortest sessions: one that calls nothing and has no front, and one that connects and leaves.
const SHORT: [&str; 2] = ["/bin/true", "/run/custody/bin/custody-bridge"];

#[cfg(test)]
/// `custody`, as root: one user alone may not hold as many connections.
fn custody(host: &Host) -> Command {
    let mut command = Command::new(host.programs().join("custody"));
    command
        .arg("--socket")
        .arg(host.folder().join("run/control.sock"));
    command
}

#[cfg(test)]
fn run(host: &Host) -> Command {
    let mut command = custody(host);
    command.args(["run", "--policy", "plain", "--"]);
    command
}

#[cfg(test)]
/// What the installation holds of the machine, by kind.
#[derive(Debug, Eq, PartialEq)]
struct Held {
    processes: usize,
    cgroups: usize,
    pins: usize,
    mounts: usize,
    /// Of custodyd, by what they are: `socket`, `pidfd`, a namespace, a file.
    descriptors: BTreeMap<String, usize>,
}

#[cfg(test)]
fn held(host: &Host) -> Held {
    let left = host.leftovers();
    let count = |kind: &str| left.iter().filter(|it| it.starts_with(kind)).count();
    let pid = host.pid("custodyd").unwrap();
    let mut descriptors = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        if let Ok(link) = fs::read_link(entry.path()) {
            let link = link.to_string_lossy().into_owned();
            // A number in a name is another each time.
            let kind: String = link.chars().filter(|c| !c.is_ascii_digit()).collect();
            *descriptors.entry(kind).or_insert(0) += 1;
        }
    }
    Held {
        processes: count("process"),
        cgroups: count("cgroup"),
        pins: count("pin"),
        mounts: count("mount"),
        descriptors,
    }
}

#[cfg(test)]
/// What is held when as many launchers wait for a session as are kept ready.
fn settled(host: &Host) -> Held {
    host.wait("the sessions' cgroups and fronts are gone", || {
        host.session_cgroups().is_empty() && host.pids("custody-front").is_empty()
    })
    .unwrap();
    launchers_ready(host);
    held(host)
}

#[cfg(test)]
/// Waits for the launchers that are kept ready: until they execute, they are still named as
/// custodyd is.
fn launchers_ready(host: &Host) {
    host.wait("launchers are ready", || {
        host.pids("custody-launch").len() == 2
    })
    .unwrap();
}

#[cfg(test)]
/// A session that waits, from its first word on.
struct Waiting {
    child: Child,
    _out: BufReader<ChildStdout>,
}

#[cfg(test)]
fn begin(host: &Host) -> Child {
    run(host)
        .args(["/bin/sh", "-c", WAITING])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(test)]
fn up(mut child: Child) -> Waiting {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    Waiting { child, _out: out }
}

#[cfg(test)]
fn end(mut waiting: Waiting) {
    let mut stdin = waiting.child.stdin.take().unwrap();
    stdin.write_all(b"end\n").unwrap();
    drop(stdin);
    assert!(waiting.child.wait().unwrap().success());
}

#[cfg(test)]
/// Proportional set size in KiB.
fn pss(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[expect(clippy::print_stdout, reason = "the numbers are what is asked for")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
#[serial_test::file_serial(custody)]
fn of_hundreds_of_sessions_in_a_row_and_at_once_nothing_is_left() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    // The first brings what stays: threads of control, pages.
    end(up(begin(&host)));
    let before = settled(&host);

    let mut times = Vec::new();
    for command in SHORT.into_iter().cycle().take(SESSIONS) {
        let begun = Instant::now();
        let mut command = run(&host)
            .arg(command)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        assert!(command.wait().unwrap().success());
        times.push(begun.elapsed());
    }
    say(&format!(
        "{SESSIONS} sessions in a row: median {:?}",
        median(times)
    ));
    assert_eq!(settled(&host), before, "after {SESSIONS} sessions in a row");

    let begun = Instant::now();
    let started: Vec<Child> = (0..SESSIONS).map(|_| begin(&host)).collect();
    let waiting: Vec<Waiting> = started.into_iter().map(up).collect();
    say(&format!(
        "{SESSIONS} sessions at once: all up after {:?}",
        begun.elapsed()
    ));
    launchers_ready(&host);
    assert_eq!(host.session_cgroups().len(), SESSIONS);
    let uids = host.session_uids();
    assert_eq!(uids.len(), SESSIONS, "each has a uid of its own");
    waiting.into_iter().for_each(end);
    assert_eq!(settled(&host), before, "after {SESSIONS} sessions at once");

    // Twice as many as there are uids: each was given back.
    assert!(run(&host).arg("/bin/true").status().unwrap().success());
}

#[test]
#[serial_test::file_serial(custody)]
fn an_idle_session_with_its_front_and_init_takes_little_memory() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    // Pages that all fronts share count for each in part: beside three others, as on a host in use. The
    // code of a build without optimisations is more than half of it all.
    let sessions: Vec<Waiting> = (0..BESIDE).map(|_| up(begin(&host))).collect();
    host.wait("the fronts run", || {
        host.pids("custody-front").len() == BESIDE
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let of = |pids: Vec<i32>| pids.into_iter().map(pss).collect::<Vec<u64>>();
    let (fronts, inits) = (of(host.pids("custody-front")), of(host.session_inits()));
    say(&format!(
        "PSS in KiB: fronts {fronts:?}, inits {inits:?}; at most {IDLE_MAX} for one of each"
    ));
    assert_eq!(inits.len(), BESIDE);
    let most = fronts.iter().max().unwrap() + inits.iter().max().unwrap();
    assert!(most > 0 && most <= IDLE_MAX, "{most} KiB");
    sessions.into_iter().for_each(end);
}

#[test]
#[serial_test::file_serial(custody)]
fn a_session_that_is_stopped_is_gone_when_stop_answers() {
    if !ground::can_run() {
        return;
    }
    let host = Host::plain().unwrap();
    let mut times = Vec::new();
    for round in 0..20 {
        let mut waiting = up(begin(&host));
        // With a front that runs, and with one that starts.
        if round % 2 == 0 {
            host.wait("its front runs", || host.pids("custody-front").len() == 1)
                .unwrap();
        }
        let listed = custody(&host).args(["ps", "--json"]).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let id = listed.pointer("/sessions/0/session").unwrap();
        let id = id.as_str().unwrap();
        let begun = Instant::now();
        let stopped = custody(&host).args(["stop", id]).status().unwrap();
        times.push(begun.elapsed());
        assert!(stopped.success());
        assert_eq!(host.pids("custody-front"), Vec::<i32>::new());
        assert!(!waiting.child.wait().unwrap().success());
    }
    say(&format!(
        "custody stop, until everything is gone: median {:?}",
        median(times)
    ));
}

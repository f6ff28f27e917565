//! Launchers that are ready before there is a session: what they serve, when they are replaced,
//! and that nothing of them is left.

use std::{collections::BTreeSet, fs, path::PathBuf};

use custody_tests::ground::{self, Ground, words};
use nix::{
    mount::{MsFlags, mount, umount},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// What custodyd keeps.
const MOST: usize = 2;

/// The launchers that wait, when there are as many as are kept.
fn ready(ground: &Ground) -> anyhow::Result<BTreeSet<i32>> {
    ground.host.wait("two launchers are ready", || {
        ground.host.pids("custody-launch").len() == MOST
    })?;
    Ok(ground.host.pids("custody-launch").into_iter().collect())
}

/// The cgroup that a process of the host is in, as the host sees it.
fn cgroup_of(pid: i32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(line.into())
}

#[test]
#[serial_test::file_serial(custody)]
fn a_session_is_served_by_a_launcher_that_was_ready_and_each_serves_one() {
    if !ground::can_run() {
        return;
    }
    let mut ground = Ground::set().unwrap();
    let before = ready(&ground).unwrap();
    let cgroups: BTreeSet<_> = before.iter().map(|pid| cgroup_of(*pid)).collect();
    assert_eq!(cgroups.len(), MOST, "each has a cgroup of its own");

    // The session's pid 1 is the launcher that waited.
    let mut child = ground
        .run()
        .args(["--", "/bin/sleep", "600"])
        .spawn()
        .unwrap();
    ground
        .host
        .wait("the session runs", || {
            ground.host.session_cgroups().len() == 1
        })
        .unwrap();
    let procs = ground.host.session_cgroups()[0].join("cgroup.procs");
    let of_session: BTreeSet<i32> = fs::read_to_string(&procs)
        .unwrap()
        .lines()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(
        before.intersection(&of_session).count(),
        1,
        "{of_session:?}"
    );

    let after = ready(&ground).unwrap();
    assert_eq!(
        before.intersection(&after).count(),
        1,
        "{before:?} {after:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    ground
        .host
        .wait("the session is gone", || {
            ground.host.session_cgroups().is_empty()
        })
        .unwrap();

    ground.host.down().unwrap();
    assert_eq!(ground.host.leftovers(), Vec::<String>::new());
}

#[test]
#[serial_test::file_serial(custody)]
fn a_launcher_that_died_serves_nobody() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    for pid in ready(&ground).unwrap() {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    let output = ground.shell("echo ran").unwrap();
    assert!(words(&output).contains("ran"), "{}", words(&output));
}

#[test]
#[serial_test::file_serial(custody)]
fn a_file_system_that_was_mounted_meanwhile_is_a_workspace() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    let before = ready(&ground).unwrap();
    let mut folder = PathBuf::new();
    let output = ground.in_workspace(
        "mounted",
        |at| {
            folder = at.to_owned();
            let none = None::<&str>;
            mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), none)?;
            Ok(())
        },
        "touch made && echo ran",
    );
    let made = folder.join("made").exists();
    umount(&folder).unwrap();
    let output = output.unwrap();
    assert!(words(&output).contains("ran"), "{}", words(&output));
    assert!(made);
    let after = ready(&ground).unwrap();
    assert_eq!(
        before.intersection(&after).count(),
        0,
        "{before:?} {after:?}"
    );
}

//! A launcher that was ready before there was a plan makes the same session as one that was not.

#[cfg(test)]
mod support;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use custody_wire::{
    launch::{Network, Service},
    layer::Layer,
};
use nix::sys::wait::WaitStatus;
use support::{Start, Waiting, can_run, folder_of, service};

/// What a session can see of how it was made. Numbers of mounts and devices differ by nature.
const SEEN: &str = "cut -d' ' -f4-7 /proc/self/mountinfo; cd /; \
    find / -xdev -printf '%p %m %U %G %l\\n' | grep -v ^/proc; \
    find /dev -printf '%p %m %U %G %l\\n' | grep -v /dev/pts; \
    cat /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf; md5sum /etc/services; \
    env; ulimit -a; grep -v -e ctxt -e ^Vm -e ^Rss -e ^SigQ /proc/self/status; hostname; umask; \
    cat /proc/self/oom_score_adj; cut -d' ' -f 4-7 /proc/self/stat; ls /proc/self/fd";

#[test]
fn the_session_is_the_same_in_everything_that_it_sees() {
    if !can_run() {
        return;
    }
    let folder = folder_of(4321);
    let start = || Start::sh(SEEN).workspace(folder.path());
    let cold = start().prepare().unwrap();
    let ready = Waiting::start().serve(&start()).unwrap();
    assert_eq!(cold.layers, ready.layers);
    let (cold, ready) = (cold.run(b""), ready.run(b""));
    // The mount of the programs names their folder, which is each test's own.
    let same = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.contains("/run/custody/bin "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(same(cold.text()), same(ready.text()));
    assert!(cold.text().lines().count() > 60, "{}", cold.text());
}

#[test]
fn a_file_of_the_host_that_changed_meanwhile_is_read_again() {
    if !can_run() {
        return;
    }
    let waiting = Waiting::start();
    // The mode that it has: only the time of its last change is another now.
    let services = Path::new("/etc/services");
    let Ok(found) = fs::metadata(services) else {
        println!("not attempted: no /etc/services");
        return;
    };
    fs::set_permissions(
        services,
        fs::Permissions::from_mode(found.permissions().mode()),
    )
    .unwrap();
    let session = waiting.serve(&Start::sh(
        "cmp /etc/services /etc/services && id -un; ls /",
    ));
    let ended = session.unwrap().run(b"");
    let wanted = Start::sh("id -un; ls /").run();
    assert_eq!(ended.text(), wanted.text());
}

#[test]
fn what_was_done_already_cannot_be_left_out() {
    if !can_run() {
        return;
    }
    for layer in Layer::ALL {
        let start = Start::sh("true").without(&[layer]);
        let why = Waiting::start().serve(&start).err();
        let said = why
            .as_ref()
            .is_some_and(|why| why.contains("for what it is not"));
        assert!(said, "{layer:?}: {why:?}");
    }
}

#[test]
fn a_services_plan_is_refused() {
    if !can_run() {
        return;
    }
    let plan = service(Service {
        program: "/bin/true".into(),
        arguments: Vec::new(),
        read: Vec::new(),
        write: Vec::new(),
        execute: Vec::new(),
        network: Network::None,
    });
    let why = Waiting::start().serve_plan(&plan, &[]).err();
    let said = why
        .as_ref()
        .is_some_and(|why| why.contains("ready for a session"));
    assert!(said, "{why:?}");
}

#[test]
fn it_ends_with_its_channel() {
    if !can_run() {
        return;
    }
    let status = Waiting::start().hang_up();
    assert!(matches!(status, WaitStatus::Exited(_, 125)), "{status:?}");
}

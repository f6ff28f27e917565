//! Each layer by itself: what a plan keeps and leaves out, and what then stands in the report.

#[cfg(test)]
mod support;

use std::path::Path;

use custody_wire::{
    launch::Outcome,
    layer::{Layer, Status},
};
use support::{Session, Start, UID, can_run, folder_of};

/// The layers that custodyd does not put on the cgroup.
fn ours() -> impl Iterator<Item = Layer> {
    Layer::ALL.into_iter().filter(|one| !one.is_on_cgroup())
}

#[cfg(test)]
fn session(script: &str, folder: &Path, without: &[Layer]) -> Session {
    Start::sh(script)
        .workspace(folder)
        .without(without)
        .prepare()
        .unwrap_or_else(|why| panic!("without {without:?}: {why}"))
}

/// The layers in full, of those that custody-launch reports.
fn full(session: &Session) -> Vec<Layer> {
    ours()
        .filter(|layer| *session.status_of(*layer) == Status::Full)
        .collect()
}

fn ends_well(session: Session, what: Layer) {
    let ended = session.run(b"");
    assert_eq!(
        ended.outcome,
        Some(Outcome::Exited { code: 0 }),
        "{what:?}: {ended:?}"
    );
}

#[test]
fn every_layer_is_full_or_not_needed() {
    if !can_run() {
        return;
    }
    let session = Start::sh("true").prepare().unwrap();
    for layer in ours() {
        let wanted = if layer == Layer::IdMap {
            Status::NotNeeded
        } else {
            Status::Full
        };
        assert_eq!(session.status_of(layer), &wanted, "{layer:?}");
    }
    // custodyd attaches the others, and reports them.
    let reported = session.layers.iter();
    assert!(reported.clone().all(|one| !one.layer.is_on_cgroup()));
}

#[test]
fn any_one_layer_can_be_left_out_and_the_others_stay_full() {
    if !can_run() {
        return;
    }
    let folder = folder_of(4321);
    for out in ours() {
        let session = session("true", folder.path(), &[out]);
        let wanted: Vec<Layer> = ours().filter(|layer| *layer != out).collect();
        assert_eq!(full(&session), wanted, "without {out:?}");
        ends_well(session, out);
    }
}

#[test]
fn any_one_layer_can_be_all_that_there_is() {
    if !can_run() {
        return;
    }
    let folder = folder_of(4321);
    for only in ours() {
        let without: Vec<Layer> = Layer::ALL.into_iter().filter(|it| *it != only).collect();
        let session = session("true", folder.path(), &without);
        assert_eq!(full(&session), [only]);
        ends_well(session, only);
    }
}

#[test]
fn without_any_layer_a_plan_runs_as_root_of_the_host_and_says_so() {
    if !can_run() {
        return;
    }
    let folder = folder_of(4321);
    let session = session("id -u; stat -c %u .", folder.path(), &Layer::ALL);
    assert_eq!(full(&session), []);
    assert_eq!(session.run(b"").text(), "0\n4321");
}

#[test]
fn an_id_map_holds_in_the_hosts_root_too() {
    if !can_run() {
        return;
    }
    let folder = folder_of(4321);
    let without: Vec<Layer> = Layer::ALL
        .into_iter()
        .filter(|it| ![Layer::IdMap, Layer::Uid].contains(it))
        .collect();
    let session = session("stat -c %u .; touch new", folder.path(), &without);
    assert_eq!(session.run(b"").text(), UID.to_string());
    let new = std::fs::metadata(folder.path().join("new")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&new), 4321);
}

/// A session that is handed a pipe beside its plan, and what it finds open from 3 up.
#[cfg(test)]
fn open_from_three(without: &[Layer]) -> String {
    let (_reader, writer) = nix::unistd::pipe().unwrap();
    let script = "for n in /proc/self/fd/*; do n=${n##*/}; test $n -gt 2 && readlink /proc/$$/fd/$n; \
        done; true";
    let mut start = Start::sh(script).without(without);
    start.inherit = vec![writer];
    start.run().text().to_owned()
}

#[test]
fn a_descriptor_beside_the_plan_is_inherited_only_without_the_layer_that_closes_it() {
    if !can_run() {
        return;
    }
    assert_eq!(open_from_three(&[]), "");
    let open = open_from_three(&[Layer::Fds]);
    assert!(open.starts_with("pipe:["), "{open}");
    assert_eq!(open.lines().count(), 1, "and nothing else: {open}");
}

#[test]
fn an_inherited_socket_speaks_to_whoever_made_it() {
    if !can_run() {
        return;
    }
    let (ours, theirs) = custody_sys::channel::pair_stream().unwrap();
    let script = "
import os, stat
for n in range(3, 20):
    try:
        if stat.S_ISSOCK(os.fstat(n).st_mode): os.write(n, b'out')
    except OSError: pass
";
    for (without, wanted) in [(&[][..], ""), (&[Layer::Fds], "out")] {
        let mut start = Start::python(script).without(without);
        start.inherit = vec![theirs.try_clone().unwrap()];
        let ended = start.run();
        assert_eq!(ended.text(), "");
        let mut said = [0; 8];
        nix::sys::socket::setsockopt(
            &ours,
            nix::sys::socket::sockopt::ReceiveTimeout,
            &nix::sys::time::TimeVal::new(0, 1000),
        )
        .unwrap();
        let len = nix::unistd::read(&ours, &mut said).unwrap_or(0);
        assert_eq!(&said[..len], wanted.as_bytes(), "without {without:?}");
    }
}

#[test]
fn the_launchers_environment_comes_along_only_without_the_layer_that_constructs_it() {
    if !can_run() {
        return;
    }
    // The launcher is started with LEAK in its environment.
    let seen = |without: &[Layer]| {
        let ended = Start::sh("echo ${LEAK-none} $HOME").without(without).run();
        ended.text().to_owned()
    };
    assert_eq!(seen(&[]), "none /home/agent");
    let leaked = seen(&[Layer::Environment]);
    assert_eq!(leaked, "from-the-launcher /home/agent");
}

#[test]
fn no_plan_makes_a_session_in_the_hosts_own_mount_namespace() {
    if !can_run() {
        return;
    }
    let why = Start::sh("true")
        .without(&Layer::ALL)
        .refused_in(custody_sys::clone::Namespaces::Inherited);
    assert!(why.contains("mount namespace is shared"), "{why}");
}

/// A file beside the system's own, open to nobody but root; what a session's four ways to write
/// or truncate it come to; and what it is afterwards.
#[cfg(test)]
fn attacked_system_file(start: impl FnOnce(Start, &Path) -> Start) -> (String, String) {
    let folder = tempfile::tempdir_in("/usr/local").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let script = format!(
        "
import os
from errno import errorcode
path = '{}'
for act in (
    lambda: os.open(path, os.O_WRONLY),
    lambda: os.open(path, os.O_WRONLY | os.O_TRUNC),
    lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
    lambda: os.truncate(path, 0),
):
    try:
        act()
        print('done', end=' ')
    except OSError as error:
        print(errorcode[error.errno], end=' ')
",
        file.display()
    );
    let ended = start(Start::python(&script), folder.path()).run();
    let said = ended.text().to_owned();
    (said, std::fs::read_to_string(file).unwrap())
}

#[test]
fn the_systems_files_are_held_by_the_mount_and_the_uid_each_by_itself() {
    if !can_run() {
        return;
    }
    for (without, answers) in [
        (&[][..], &["EACCES", "EROFS"][..]),
        (&[Layer::Landlock], &["EACCES", "EROFS"]),
        (
            &[Layer::Capabilities, Layer::Landlock, Layer::Uid],
            &["EROFS"],
        ),
        (&[Layer::Landlock, Layer::MountNamespace], &["EACCES"]),
    ] {
        let (said, left) = attacked_system_file(|start, _| start.without(without));
        let said: Vec<&str> = said.split(' ').collect();
        assert_eq!((said.len(), left.as_str()), (4, "kept"), "{without:?}");
        let refused = said.iter().all(|answer| answers.contains(answer));
        assert!(refused, "without {without:?}: {said:?}");
    }
}

#[test]
fn what_a_policy_shows_below_usr_is_held_by_its_mount_though_anyone_may_write_it() {
    if !can_run() {
        return;
    }
    let (said, left) = attacked_system_file(|mut start, folder| {
        for name in ["", "file"] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(folder.join(name), mode).unwrap();
        }
        start.read_only = vec![folder.to_owned()];
        start
    });
    assert_eq!(
        (said.as_str(), left.as_str()),
        ("EROFS EROFS EROFS EROFS", "kept")
    );
}

#[test]
fn alone_landlock_holds_the_systems_files_against_writing_but_not_against_truncation() {
    if !can_run() {
        return;
    }
    let without: Vec<Layer> = Layer::ALL
        .into_iter()
        .filter(|it| *it != Layer::Landlock)
        .collect();
    let (said, left) = attacked_system_file(|start, _| start.without(&without));
    assert_eq!(
        (said.as_str(), left.as_str()),
        ("EACCES EACCES done done", "")
    );
}

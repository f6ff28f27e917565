//! Out of the cgroup, and up to root.

use std::{fs, path::PathBuf};

use custody_wire::layer::Layer;
use nix::libc;

use super::{Attempt, Need, Owner, Promised, Proof, TwinShows, calls, processes::OTHER};
use crate::{
    evidence::row::Class,
    probe::{Argument, Attack, Call, PYTHON},
    suite::scene::Scene,
};

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "escape/cgroup",
        mechanism: "leaving the cgroup",
        question: "May a session move itself to the root of the cgroups?",
        needs: &[Need::Program(PYTHON)],
        promised: Promised::Layers(&[
            &[Layer::Uid],
            &[Layer::MountNamespace],
            &[Layer::Landlock],
            &[Layer::BpfLsm],
        ]),
        source: "kernel.md 1.6",
        owner: Owner::Root,
        attack: |_, _, _| calls::attack(leave()),
        twin: calls::other,
        twin_shows: TwinShows::Step("found twin"),
        proof: Proof::Step("write cgroup.procs"),
        notes: &[OTHER],
        ..Attempt::BASE
    },
    Attempt {
        id: "escape/clone-into-cgroup",
        mechanism: "a child in another cgroup",
        question: "May a session start a process in the root of the cgroups?",
        needs: &[Need::Program(PYTHON)],
        promised: Promised::Layers(&[&[Layer::Seccomp], &[Layer::Uid], &[Layer::MountNamespace]]),
        source: "kernel.md 1.6: clone3(2) with CLONE_INTO_CGROUP",
        owner: Owner::Root,
        attack: |_, _, _| calls::attack(born_elsewhere()),
        twin: calls::other,
        twin_shows: TwinShows::Step("found twin"),
        proof: Proof::Step("clone3 CLONE_INTO_CGROUP"),
        notes: &[OTHER],
        ..Attempt::BASE
    },
    Attempt {
        id: "privilege/set-user-id-program",
        class: Class::SharedProcessCredential,
        mechanism: "a set-user-ID program",
        question: "Does a set-user-ID program of root read the credential's file for a session?",
        promised: Promised::Layers(&[
            &[Layer::NoNewPrivs, Layer::Uid, Layer::Capabilities],
            &[Layer::MountNamespace],
            &[Layer::BpfLsm],
        ]),
        needs: &[Need::SetUserId],
        source: "kernel.md section 7, 42",
        before: |scene, _| {
            use std::os::unix::fs::PermissionsExt as _;
            let path = set_user_id(scene);
            if !path.exists() {
                fs::copy(scene.program("custody-probe"), &path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o4755))?;
            }
            Ok(())
        },
        attack: |scene, _, _| Attack::Program {
            program: set_user_id(scene),
            arguments: Vec::new(),
            input: file(scene.credential_file.clone()),
        },
        twin: |scene, _| Attack::Program {
            program: scene.program("custody-probe"),
            arguments: Vec::new(),
            input: file("/etc/passwd".into()),
        },
        twin_shows: TwinShows::Said("pread"),
        notes: &["the twin runs the same program without the bit, on a file that all may read"],
        ..Attempt::BASE
    },
];

/// The program, beside the installation's own: where sockets of services are, `/run`, set-user-ID
/// bits count for nothing (it is nosuid).
fn set_user_id(scene: &Scene) -> PathBuf {
    scene.workspace().with_file_name("set-user-id")
}

/// The same probe's order to read a file.
fn file(path: PathBuf) -> String {
    serde_json::to_string(&Attack::File { path }).unwrap_or_default()
}

/// A child that the kernel puts into the root at once.
fn born_elsewhere() -> Vec<Call> {
    const CLONE_INTO_CGROUP: i64 = 0x2_0000_0000;
    // struct clone_args: flags, three pointers, exit_signal, five words, cgroup.
    let mut words: Vec<Argument> = [CLONE_INTO_CGROUP, 0, 0, 0, i64::from(libc::SIGCHLD)]
        .into_iter()
        .chain([0; 5])
        .map(Argument::Number)
        .collect();
    words.push(Argument::Result(0));
    vec![
        calls::call(
            "open the root of the cgroups",
            libc::SYS_openat,
            vec![
                calls::HERE,
                calls::text(root()),
                calls::number(libc::O_PATH | libc::O_DIRECTORY),
            ],
        ),
        Call {
            child_ms: Some(0),
            ..calls::call(
                "clone3 CLONE_INTO_CGROUP",
                libc::SYS_clone3,
                vec![Argument::Words(words), calls::number(88)],
            )
        },
    ]
}

/// Where the host has mounted the unified hierarchy.
fn root() -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .map(|line| line.split(' '))
        .find_map(|mut words| {
            let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "cgroup2").then(|| place.to_owned())
        })
        .unwrap_or_else(|| "/sys/fs/cgroup".into())
}

/// Moves the caller to the root of the unified hierarchy.
fn leave() -> Vec<Call> {
    let root = root();
    vec![
        calls::call(
            "open cgroup.procs",
            libc::SYS_openat,
            vec![
                calls::HERE,
                calls::text(format!("{root}/cgroup.procs")),
                calls::number(libc::O_WRONLY),
            ],
        ),
        calls::call(
            "write cgroup.procs",
            libc::SYS_write,
            vec![Argument::Result(0), calls::bytes(b"0"), calls::number(1)],
        ),
    ]
}

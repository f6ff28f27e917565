//! Who holds the credential, and what the kernel keeps for him: by a keyring, shared memory, a
//! queue; by what `/proc` shows of a process besides its memory; by calls that compare or count.

use custody_wire::layer::Layer;
use nix::libc;

use super::{
    Arm, Attempt, Leg, Need, Owner, Promised, Proof, TwinShows, calls, planted, planted_file,
};
use crate::{
    evidence::row::Class,
    probe::{Argument, Attack, By, Call, PYTHON},
    standin,
    suite::scene::Scene,
};

const NO_IPC: &str =
    "nothing is kept there inside: the twin makes calls that are allowed, by the same script";

const PERFMON: &str = "Landlock is no leg: the kernel lets who has CAP_PERFMON past it here \
                       (memory/environ-perfmon)";

/// What stands between a session and a process by its pid.
const BY_PID: &[Leg] = &[
    &[Layer::Seccomp],
    &[Layer::BpfLsm],
    &[Layer::Uid],
    &[Layer::PidNamespace],
    &[Layer::Landlock],
];

macro_rules! kept {
    ($id:literal, $mechanism:literal, $question:literal, $promised:expr, $source:literal,
     $calls:expr) => {
        Attempt {
            id: $id,
            class: Class::SharedProcessCredential,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers($promised),
            source: $source,
            attack: |scene, _, _| calls::attack($calls(scene)),
            twin: calls::other,
            twin_shows: TwinShows::Step("found twin"),
            notes: &[NO_IPC],
            ..Attempt::BASE
        }
    };
}

macro_rules! shown {
    ($id:literal, $mechanism:literal, $question:literal, $promised:expr, $source:literal,
     $by:expr) => {
        Attempt {
            id: $id,
            class: Class::SharedProcessCredential,
            mechanism: $mechanism,
            question: $question,
            promised: Promised::Layers($promised),
            source: $source,
            attack: |scene, arm, effect| Attack::Memory {
                by: $by,
                pids: scene.holders(arm),
                everyone: arm == Arm::Confined,
                effect,
            },
            twin: |scene, effect| {
                planted(
                    scene,
                    Attack::Memory {
                        by: $by,
                        pids: Vec::new(),
                        everyone: true,
                        effect,
                    },
                )
            },
            twin_shows: TwinShows::Planted,
            ..Attempt::BASE
        }
    };
}

/// A call on the holder that reads nothing by itself.
macro_rules! named {
    ($id:literal, $mechanism:literal, $question:literal, $step:literal, $source:literal,
     $calls:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers(BY_PID),
            source: $source,
            attack: |scene, _, _| calls::attack($calls(i64::from(scene.outsider()))),
            twin: calls::other,
            twin_shows: TwinShows::Step("found twin"),
            proof: Proof::Step($step),
            notes: &["the call is refused whole: the twin makes calls that are allowed"],
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    kept!(
        "memory/keyring",
        "the keyring of a uid",
        "Can a key be read that the holder keeps in the keyring of its uid?",
        &[&[Layer::Seccomp], &[Layer::Uid]],
        "kernel.md section 3: neither a pid namespace nor Landlock hides a keyring",
        |scene: &Scene| keyring(&scene.held_name)
    ),
    kept!(
        "memory/sysv-shm",
        "System V shared memory",
        "Can shared memory of the holder be attached?",
        &[&[Layer::IpcNamespace], &[Layer::Uid]],
        "kernel.md section 3",
        |scene: &Scene| system_v(standin::shm_key(&scene.held_name))
    ),
    Attempt {
        apart: Some("a message is taken once, until it is put in again"),
        ..kept!(
            "memory/message-queue",
            "a POSIX message queue",
            "Can a message be taken that the holder has put into a queue?",
            &[&[Layer::IpcNamespace], &[Layer::Uid]],
            "kernel.md section 7, 19",
            |scene: &Scene| queue(&scene.held_name)
        )
    },
    Attempt {
        id: "memory/posix-shm",
        class: Class::SharedProcessCredential,
        mechanism: "POSIX shared memory",
        question: "Can shared memory of the holder be opened by its name?",
        promised: Promised::Layers(&[&[Layer::MountNamespace], &[Layer::Uid]]),
        source: "kernel.md section 3",
        attack: |scene, _, _| Attack::File {
            path: format!("/dev/shm/{}", scene.held_name).into(),
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        ..Attempt::BASE
    },
    shown!(
        "memory/fd-links",
        "/proc/PID/fd",
        "Can an open file of the holder be opened again through its descriptors?",
        &[
            &[Layer::Uid],
            &[Layer::PidNamespace, Layer::MountNamespace],
            &[Layer::Landlock]
        ],
        "kernel.md section 7, 16",
        By::FdLinks
    ),
    shown!(
        "memory/task-environ",
        "/proc/PID/task/TID",
        "Does a thread show what its process hides, or the other way round?",
        &[&[Layer::Uid], &[Layer::PidNamespace, Layer::MountNamespace]],
        "kernel.md section 7, 52: another path to the same file",
        By::TaskEnviron
    ),
    Attempt {
        owner: Owner::Root,
        // `may_access_mm` with CAP_PERFMON is of Linux 6.15: before, there is no such door, and no half that
        // is missing.
        class: Class::Confinement,
        needs: &[Need::Kernel("6.15"), Need::Program(PYTHON)],
        notes: &[NO_IPC, PERFMON],
        ..kept!(
            "memory/environ-perfmon",
            "/proc/PID/environ with CAP_PERFMON",
            "Can whoever may only measure performance read the holder's environment?",
            &[
                &[Layer::Uid],
                &[Layer::Capabilities],
                &[Layer::PidNamespace, Layer::MountNamespace],
            ],
            "peers.md section 4, 38: a shortcut past the check of ptrace",
            |scene: &Scene| environ_with_perfmon(scene.outsider())
        )
    },
    named!(
        "memory/kcmp",
        "kcmp(2)",
        "May a session compare descriptors of the holder?",
        "kcmp",
        "kernel.md section 3",
        // KCMP_FILE: descriptor 0 of the holder with itself.
        |pid: i64| vec![calls::call(
            "kcmp",
            libc::SYS_kcmp,
            [pid, pid, 0, 0, 0].map(Argument::Number).to_vec()
        )]
    ),
    Attempt {
        promised: Promised::Layers(&[&[Layer::Seccomp], &[Layer::Uid], &[Layer::PidNamespace]]),
        needs: &[Need::PerfEvents, Need::Program(PYTHON)],
        notes: &[PERFMON],
        ..named!(
            "memory/perf-event",
            "perf_event_open(2) of the holder",
            "May a session count, and so time, what the holder does?",
            "perf_event_open",
            "kernel.md section 3",
            |pid: i64| vec![calls::clock_of(pid, -1)]
        )
    },
    Attempt {
        promised: Promised::Layers(&[&[Layer::Uid], &[Layer::PidNamespace, Layer::MountNamespace]]),
        twin: |_, _| calls::attack(maps("self")),
        twin_shows: TwinShows::Step("read maps"),
        notes: &[PERFMON, "the twin reads its own"],
        ..named!(
            "memory/maps",
            "/proc/PID/maps",
            "May a session see where things are in the holder's memory?",
            "read maps",
            "kernel.md section 7, 16: what hardening of addresses hides",
            |pid: i64| maps(&pid.to_string())
        )
    },
];

/// The holder's own uid, with CAP_PERFMON, reads his environment: with it the kernel asks no
/// security module (`may_access_mm`, kernel/fork.c), Landlock neither.
fn environ_with_perfmon(pid: i32) -> Vec<Call> {
    let uid = i64::from(crate::suite::scene::SHARED_UID);
    const VERSION_3: u32 = 0x2008_0522;
    // CAP_PERFMON, the 38th, effective and permitted (capabilities(7), capset(2)).
    const PERFMON: u32 = 1 << (38 - 32);
    let stage = |step: &str, number, arguments| Call {
        go_on: true,
        quiet: true,
        ..calls::call(step, number, arguments)
    };
    vec![
        stage(
            "prctl PR_SET_KEEPCAPS",
            libc::SYS_prctl,
            [i64::from(libc::PR_SET_KEEPCAPS), 1, 0, 0, 0]
                .map(Argument::Number)
                .to_vec(),
        ),
        stage(
            "setresuid",
            libc::SYS_setresuid,
            vec![Argument::Number(uid); 3],
        ),
        stage(
            "capset",
            libc::SYS_capset,
            vec![
                calls::words(&[VERSION_3, 0]),
                calls::words(&[0, 0, 0, PERFMON, PERFMON, 0]),
            ],
        ),
        calls::call(
            "open environ",
            libc::SYS_openat,
            vec![
                calls::HERE,
                calls::text(format!("/proc/{pid}/environ")),
                calls::number(libc::O_RDONLY),
            ],
        ),
        calls::call(
            "read environ",
            libc::SYS_read,
            vec![
                Argument::Result(3),
                calls::buffer("environ", 4096),
                calls::number(4096),
            ],
        ),
    ]
}

/// keyctl(2) KEYCTL_SEARCH in @u, then KEYCTL_READ. Who only has the uid may not read: the key must be
/// possessed (keyrings(7)), and it is by whose session keyring has @u in it, which nobody's need
/// have who came by way of su(1) or sudo(8). So a keyring is made and @u put in.
pub(super) fn keyring(name: &str) -> Vec<Call> {
    const SESSION_KEYRING: i64 = -3;
    const USER_KEYRING: i64 = -4;
    calls::as_holder(vec![
        calls::call(
            "keyctl KEYCTL_JOIN_SESSION_KEYRING",
            libc::SYS_keyctl,
            vec![calls::number(1), calls::number(0)],
        ),
        calls::call(
            "keyctl KEYCTL_LINK",
            libc::SYS_keyctl,
            vec![
                calls::number(8),
                calls::number(USER_KEYRING),
                calls::number(SESSION_KEYRING),
            ],
        ),
        calls::call(
            "keyctl KEYCTL_SEARCH",
            libc::SYS_keyctl,
            vec![
                calls::number(10),
                calls::number(USER_KEYRING),
                calls::text("user"),
                calls::text(name),
                calls::number(0),
            ],
        ),
        calls::call(
            "keyctl KEYCTL_READ",
            libc::SYS_keyctl,
            vec![
                calls::number(11),
                Argument::Result(4),
                calls::buffer("key", 256),
                calls::number(256),
                calls::number(0),
            ],
        ),
    ])
}

/// shmget(2), shmat(2); what is there is read by way of a file.
pub(super) fn system_v(key: i32) -> Vec<Call> {
    vec![
        calls::call(
            "shmget",
            libc::SYS_shmget,
            vec![calls::number(key), calls::number(0), calls::number(0)],
        ),
        calls::call(
            "shmat",
            libc::SYS_shmat,
            vec![
                Argument::Result(0),
                calls::NULL,
                calls::number(libc::SHM_RDONLY),
            ],
        ),
        calls::call(
            "memfd_create",
            libc::SYS_memfd_create,
            vec![calls::text("read"), calls::number(0)],
        ),
        calls::call(
            "pwrite64",
            libc::SYS_pwrite64,
            vec![
                Argument::Result(2),
                Argument::Result(1),
                calls::number(256),
                calls::number(0),
            ],
        ),
        calls::call(
            "pread64",
            libc::SYS_pread64,
            vec![
                Argument::Result(2),
                calls::buffer("shared", 256),
                calls::number(256),
                calls::number(0),
            ],
        ),
    ]
}

/// mq_open(2), which takes the name without its slash, and mq_timedreceive(2).
pub(super) fn queue(name: &str) -> Vec<Call> {
    const MESSAGE: usize = 8192;
    vec![
        calls::call(
            "mq_open",
            libc::SYS_mq_open,
            vec![
                calls::text(name),
                calls::number(libc::O_RDONLY | libc::O_NONBLOCK),
                calls::number(0),
                calls::NULL,
            ],
        ),
        calls::call(
            "mq_timedreceive",
            libc::SYS_mq_timedreceive,
            vec![
                Argument::Result(0),
                calls::buffer("message", MESSAGE),
                calls::number(8192),
                calls::NULL,
                calls::NULL,
            ],
        ),
    ]
}

fn maps(pid: &str) -> Vec<Call> {
    vec![
        calls::call(
            "open maps",
            libc::SYS_openat,
            vec![
                calls::HERE,
                calls::text(format!("/proc/{pid}/maps")),
                calls::number(libc::O_RDONLY),
            ],
        ),
        calls::call(
            "read maps",
            libc::SYS_read,
            vec![
                Argument::Result(0),
                calls::buffer("maps", 4096),
                calls::number(4096),
            ],
        ),
    ]
}

//! Doors of the kernel: calls that reach no protected effect by themselves, and that have opened
//! one before. In the reach arm they are made as root, who may; each undoes itself, or ends with
//! the process that made it.

use custody_wire::layer::Layer;
use nix::libc;

use super::{Arm, Attempt, Leg, Need, Owner, Promised, Proof, TwinShows, calls};
use crate::probe::{Argument, Call, PYTHON};

/// Root without capabilities may not; another uid has none.
const PRIVILEGED: &[Leg] = &[&[Layer::Seccomp], &[Layer::Capabilities], &[Layer::Uid]];

/// The same with the second lock on the call.
const LOCKED: &[Leg] = &[
    &[Layer::Seccomp],
    &[Layer::BpfLsm],
    &[Layer::Capabilities],
    &[Layer::Uid],
];

/// The filter on system calls and, where the kernel takes it, the second lock.
const FILTERED_AND_LOCKED: &[Leg] = &[&[Layer::Seccomp], &[Layer::BpfLsm]];

/// The filter on system calls, and nothing else.
const FILTERED: &[Leg] = &[&[Layer::Seccomp]];

const REFUSED_WHOLE: &str =
    "the call is refused whole: the twin makes calls that are allowed, by the same script";

const CLONE_NEWUSER: i64 = libc::CLONE_NEWUSER as i64;
const CLONE_NEWNS: i64 = libc::CLONE_NEWNS as i64;

macro_rules! door {
    ($id:literal, $mechanism:literal, $question:literal, $owner:expr, $promised:expr,
     $step:literal, $source:literal, |$arm:pat_param| $calls:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers($promised),
            source: $source,
            owner: $owner,
            attack: |_, $arm, _| calls::attack($calls),
            twin: calls::other,
            twin_shows: TwinShows::Step("found twin"),
            proof: Proof::Step($step),
            notes: &[REFUSED_WHOLE],
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    door!(
        "surface/bpf",
        "bpf(2)",
        "May it make a map for eBPF?",
        Owner::Root,
        LOCKED,
        "bpf BPF_MAP_CREATE",
        "kernel.md section 7, 45",
        // An array of one word (union bpf_attr: type 2, key 4, value 4, one entry).
        |_| vec![calls::call(
            "bpf BPF_MAP_CREATE",
            libc::SYS_bpf,
            vec![
                calls::number(0),
                calls::words(&[2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
                calls::number(48),
            ],
        )]
    ),
    door!(
        "surface/perf-event",
        "perf_event_open(2)",
        "May it count events of the whole machine?",
        Owner::Root,
        LOCKED,
        "perf_event_open",
        "kernel.md section 7, 45",
        |_| vec![calls::clock_of(-1, 0)]
    ),
    door!(
        "surface/userfaultfd",
        "userfaultfd(2)",
        "May it make the kernel wait in the middle of a copy?",
        Owner::Root,
        PRIVILEGED,
        "userfaultfd",
        "Documentation/admin-guide/mm/userfaultfd.rst: races of kernel bugs made certain",
        |_| vec![calls::call(
            "userfaultfd",
            libc::SYS_userfaultfd,
            vec![calls::number(libc::O_CLOEXEC)],
        )]
    ),
    door!(
        "surface/keyring",
        "kernel keyrings",
        "May it keep a key in the kernel?",
        Owner::Standin,
        FILTERED,
        "add_key",
        "kernel.md section 3: keyrings are of the uid, not of the session",
        // In the keyring of the process, which ends with it (process-keyring(7)).
        |_| vec![calls::call(
            "add_key",
            libc::SYS_add_key,
            vec![
                calls::text("user"),
                calls::text("custody-bypass"),
                calls::bytes(b"x"),
                calls::number(1),
                calls::number(-2),
            ],
        )]
    ),
    door!(
        "surface/user-namespace-unshare",
        "user namespace",
        "May it become root of a user namespace by unshare(2)?",
        Owner::Standin,
        FILTERED_AND_LOCKED,
        "unshare CLONE_NEWUSER",
        "kernel.md section 7, 41: capabilities over the kernel's largest surface",
        |_| vec![unshare("unshare CLONE_NEWUSER", CLONE_NEWUSER)]
    ),
    door!(
        "surface/user-namespace-clone",
        "user namespace",
        "May it by clone(2)?",
        Owner::Standin,
        FILTERED_AND_LOCKED,
        "clone CLONE_NEWUSER",
        "kernel.md section 7, 41",
        |_| vec![Call {
            child_ms: Some(0),
            ..calls::call(
                "clone CLONE_NEWUSER",
                libc::SYS_clone,
                vec![
                    calls::number(CLONE_NEWUSER | i64::from(libc::SIGCHLD)),
                    calls::NULL,
                    calls::NULL,
                    calls::NULL,
                    calls::NULL,
                ],
            )
        }]
    ),
    door!(
        "surface/user-namespace-clone3",
        "user namespace",
        "May it by clone3(2), whose flags no filter can see?",
        Owner::Standin,
        FILTERED_AND_LOCKED,
        "clone3 CLONE_NEWUSER",
        "crbug.com/1213452: the flags are behind a pointer",
        // struct clone_args: flags, four pointers, exit_signal, three words of stack and tls.
        |_| vec![Call {
            child_ms: Some(0),
            ..calls::call(
                "clone3 CLONE_NEWUSER",
                libc::SYS_clone3,
                vec![
                    Argument::Words(
                        [CLONE_NEWUSER, 0, 0, 0, i64::from(libc::SIGCHLD), 0, 0, 0]
                            .map(Argument::Number)
                            .to_vec()
                    ),
                    calls::number(64),
                ],
            )
        }]
    ),
    door!(
        "surface/mount",
        "mount(2)",
        "May it put a file system of its own over a folder?",
        Owner::Root,
        &[
            &[Layer::Seccomp],
            &[Layer::BpfLsm],
            &[Layer::Capabilities],
            &[Layer::Uid],
            &[Layer::Landlock]
        ],
        "mount tmpfs",
        "kernel.md section 7, 41",
        |arm| vec![
            apart(arm),
            calls::call(
                "mount tmpfs",
                libc::SYS_mount,
                vec![
                    calls::text("tmpfs"),
                    calls::text("/tmp"),
                    calls::text("tmpfs"),
                    calls::number(0),
                    calls::NULL,
                ],
            ),
        ]
    ),
    door!(
        "surface/mount-by-descriptor",
        "fsopen(2)",
        "May it make a file system by the calls that came after mount(2)?",
        Owner::Root,
        PRIVILEGED,
        "fsopen",
        "OpenShell and others list mount and forget fsopen",
        |_| vec![calls::call(
            "fsopen",
            libc::SYS_fsopen,
            vec![calls::text("tmpfs"), calls::number(1)],
        )]
    ),
    door!(
        "surface/open-tree",
        "open_tree(2)",
        "May it copy a mount, to move it elsewhere?",
        Owner::Root,
        PRIVILEGED,
        "open_tree OPEN_TREE_CLONE",
        "kernel.md section 4",
        |_| vec![calls::call(
            "open_tree OPEN_TREE_CLONE",
            libc::SYS_open_tree,
            vec![calls::HERE, calls::text("/"), calls::number(1)],
        )]
    ),
    door!(
        "surface/chroot",
        "chroot(2)",
        "May it change its root?",
        Owner::Root,
        PRIVILEGED,
        "chroot",
        "kernel.md section 2: chroot in a user namespace, which Landlock does not see",
        |_| vec![calls::call(
            "chroot",
            libc::SYS_chroot,
            vec![calls::text("/tmp")]
        )]
    ),
    door!(
        "surface/setns",
        "setns(2)",
        "May it join namespaces by a pidfd?",
        Owner::Root,
        PRIVILEGED,
        "setns",
        "kernel.md section 3: setns(pidfd) of root",
        // Its own: nothing changes where it is allowed.
        |_| vec![
            calls::call("getpid", libc::SYS_getpid, Vec::new()),
            calls::call(
                "pidfd_open",
                libc::SYS_pidfd_open,
                vec![Argument::Result(0), calls::number(0)],
            ),
            calls::call(
                "setns",
                libc::SYS_setns,
                vec![Argument::Result(1), calls::number(libc::CLONE_NEWUTS)],
            ),
        ]
    ),
    door!(
        "surface/ptrace-traceme",
        "PTRACE_TRACEME",
        "May a process ask to be traced?",
        Owner::Standin,
        FILTERED_AND_LOCKED,
        "ptrace PTRACE_TRACEME",
        "kernel.md section 5",
        |_| vec![calls::call(
            "ptrace PTRACE_TRACEME",
            libc::SYS_ptrace,
            vec![calls::number(0), calls::number(0), calls::NULL, calls::NULL],
        )]
    ),
    door!(
        "surface/mknod-block",
        "mknod(2)",
        "May it make the node of a disk?",
        Owner::Root,
        &[
            &[Layer::CgroupDevice],
            &[Layer::BpfLsm],
            &[Layer::Capabilities],
            &[Layer::Uid],
            &[Layer::Landlock]
        ],
        "mknod",
        "AegisBPF's boundaries: a raw block device",
        // Major 259 and a minor that no disk here has: the node leads nowhere. In a mount of its own.
        |arm| vec![
            apart(arm),
            Call {
                go_on: true,
                ..calls::call(
                    "mount tmpfs",
                    libc::SYS_mount,
                    vec![
                        calls::text("tmpfs"),
                        calls::text("/tmp"),
                        calls::text("tmpfs"),
                        calls::number(0),
                        calls::NULL,
                    ],
                )
            },
            calls::call(
                "mknod",
                libc::SYS_mknodat,
                vec![
                    calls::HERE,
                    calls::text("/tmp/custody-bypass-node"),
                    calls::number(libc::S_IFBLK | 0o600),
                    calls::number(259 << 8 | 200),
                ],
            ),
            calls::call(
                "unlink",
                libc::SYS_unlinkat,
                vec![
                    calls::HERE,
                    calls::text("/tmp/custody-bypass-node"),
                    calls::number(0),
                ],
            ),
        ]
    ),
    door!(
        "surface/personality",
        "personality(2)",
        "May it turn off the kernel's hardening of addresses for what it starts?",
        Owner::Standin,
        FILTERED,
        "personality",
        "kernel.md section 5",
        |_| vec![calls::call(
            "personality",
            libc::SYS_personality,
            vec![calls::number(libc::ADDR_NO_RANDOMIZE)],
        )]
    ),
    door!(
        "surface/seccomp-listener",
        "seccomp notifier",
        "May it answer system calls of what it starts, in place of the kernel?",
        Owner::Root,
        FILTERED,
        "seccomp SECCOMP_FILTER_FLAG_NEW_LISTENER",
        "seccomp_unotify(2): a filter of our own before the one that refuses",
        |_| listener()
    ),
    door!(
        "surface/memfd-secret",
        "memfd_secret(2)",
        "May it have memory that nobody outside can look into?",
        Owner::Standin,
        FILTERED,
        "memfd_secret",
        "kernel.md section 4",
        |_| vec![calls::call(
            "memfd_secret",
            libc::SYS_memfd_secret,
            vec![calls::number(libc::O_CLOEXEC)],
        )]
    ),
    door!(
        "surface/fanotify",
        "fanotify(7)",
        "May it be told of every file that anyone opens?",
        Owner::Root,
        PRIVILEGED,
        "fanotify_init",
        "kernel.md section 4",
        |_| vec![calls::call(
            "fanotify_init",
            libc::SYS_fanotify_init,
            vec![calls::number(0x8), calls::number(0)],
        )]
    ),
    door!(
        "surface/kernel-log",
        "syslog(2)",
        "May it read the kernel's log?",
        Owner::Root,
        PRIVILEGED,
        "syslog SYSLOG_ACTION_READ_ALL",
        "kernel.md section 7, 24",
        |_| vec![calls::call(
            "syslog SYSLOG_ACTION_READ_ALL",
            libc::SYS_syslog,
            vec![calls::number(3), buffer(), calls::number(4096)],
        )]
    ),
    door!(
        "surface/hostname",
        "sethostname(2)",
        "May it name the host?",
        Owner::Root,
        &[&[Layer::Seccomp], &[Layer::Capabilities], &[Layer::Uid]],
        "sethostname",
        "kernel.md section 4",
        // In a uts namespace of its own, where it may make one.
        |_| vec![
            unshare("unshare CLONE_NEWUTS", i64::from(libc::CLONE_NEWUTS)),
            calls::call(
                "sethostname",
                libc::SYS_sethostname,
                vec![calls::text("twin"), calls::number(4)],
            ),
        ]
    ),
];

fn buffer() -> Argument {
    calls::buffer("log", 4096)
}

fn unshare(step: &str, flags: i64) -> Call {
    calls::call(step, libc::SYS_unshare, vec![calls::number(flags)])
}

/// A mount namespace of the caller's own, so that nothing comes of it on the host. A session may
/// not, and tries all the same: it is in one already.
fn apart(arm: Arm) -> Call {
    Call {
        go_on: arm != Arm::Reach,
        ..unshare("unshare CLONE_NEWNS", CLONE_NEWNS)
    }
}

/// A filter that allows everything, and a listener for what it would ask.
fn listener() -> Vec<Call> {
    const SET_MODE_FILTER: i64 = 1;
    const NEW_LISTENER: i64 = 8;
    // BPF_RET | BPF_K, SECCOMP_RET_ALLOW: struct sock_filter, and struct sock_fprog around it.
    let program = [&[6, 0, 0, 0][..], &0x7fff_0000_u32.to_ne_bytes()].concat();
    vec![
        calls::call(
            "prctl PR_SET_NO_NEW_PRIVS",
            libc::SYS_prctl,
            vec![
                calls::number(libc::PR_SET_NO_NEW_PRIVS),
                calls::number(1),
                calls::number(0),
                calls::number(0),
                calls::number(0),
            ],
        ),
        calls::call(
            "seccomp SECCOMP_FILTER_FLAG_NEW_LISTENER",
            libc::SYS_seccomp,
            vec![
                calls::number(SET_MODE_FILTER),
                calls::number(NEW_LISTENER),
                Argument::Words(vec![calls::number(1), calls::bytes(&program)]),
            ],
        ),
    ]
}

//! Doors of the kernel that lead to another view of the host: namespaces, mounts, roots, nodes,
//! names.

use custody_wire::layer::Layer;
use nix::libc;

use super::{
    Arm, Attempt, Need, Owner, Promised, Proof, TwinShows, calls,
    surface::{FILTERED_AND_LOCKED, PRIVILEGED, REFUSED_WHOLE, door},
};
use crate::probe::{Argument, Call, PYTHON};

const CLONE_NEWUSER: i64 = libc::CLONE_NEWUSER as i64;
const CLONE_NEWNS: i64 = libc::CLONE_NEWNS as i64;

pub(super) const ALL: &[Attempt] = &[
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
    Attempt {
        apart: Some("the node has one name"),
        ..door!(
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
        )
    },
    door!(
        "surface/hostname",
        "sethostname(2)",
        "May it name the host?",
        Owner::Root,
        &[&[Layer::Seccomp], &[Layer::Capabilities], &[Layer::Uid]],
        "sethostname",
        "kernel.md section 4",
        // In a uts namespace of its own. Where it may make none it asks all the same: a session is
        // in one already.
        |arm| vec![
            Call {
                go_on: arm != Arm::Reach,
                quiet: arm != Arm::Reach,
                ..unshare("unshare CLONE_NEWUTS", i64::from(libc::CLONE_NEWUTS))
            },
            calls::call(
                "sethostname",
                libc::SYS_sethostname,
                vec![calls::text("twin"), calls::number(4)],
            ),
        ]
    ),
];

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

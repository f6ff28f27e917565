//! The hooks themselves: what a session would take away first. Before each arm one more of them is
//! attached, to a cgroup where no session is, and pinned beside the others.

use std::{
    fs, io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use custody_sys::{bpf, cgroup::Cgroup};
use custody_wire::layer::Layer;
use nix::libc;

use super::{
    Attempt, Owner,
    surface::{REFUSED_WHOLE, door},
};
use crate::{
    attempts::{Need, Promised, Proof, TwinShows, calls},
    probe::{Argument, Call, PYTHON},
    suite::{
        hooks::{Hooks, SOCK_CREATE},
        scene::Scene,
    },
};

macro_rules! taken {
    ($id:literal, $mechanism:literal, $question:literal, $promised:expr, $step:literal,
     $source:literal, $before:expr, $calls:expr) => {
        Attempt {
            before: |scene, _| $before(scene),
            apart: Some("they have one pin, or one cgroup, to take away"),
            attack: |scene, _, _| calls::attack($calls(scene)),
            ..door!(
                $id,
                $mechanism,
                $question,
                Owner::Root,
                $promised,
                $step,
                $source,
                |_| Vec::new()
            )
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    taken!(
        "hooks/unpin",
        "removing a hook's pin",
        "May it remove the name by which a hook outlives the daemon?",
        &[
            &[Layer::Uid],
            &[Layer::MountNamespace],
            &[Layer::Landlock],
            &[Layer::BpfLsm],
        ],
        "unlink",
        "bpf(2), BPF_OBJ_PIN: a link without a pin and without a holder is detached",
        pinned,
        |scene: &Scene| vec![calls::call(
            "unlink",
            libc::SYS_unlink,
            vec![calls::text(pin(scene))],
        )]
    ),
    taken!(
        "hooks/move-pin",
        "moving a hook's pin away",
        "May it move the pin to where the daemon does not look for it?",
        &[
            &[Layer::Uid],
            &[Layer::MountNamespace],
            &[Layer::Landlock],
            &[Layer::BpfLsm],
        ],
        "rename",
        "rename(2) on a bpf file system",
        pinned,
        |scene: &Scene| vec![calls::call(
            "rename",
            libc::SYS_rename,
            vec![calls::text(pin(scene)), calls::text(away(scene))],
        )]
    ),
    taken!(
        "hooks/link-detach",
        "BPF_LINK_DETACH",
        "May it open a hook's pin and detach what is behind it?",
        &[
            &[Layer::Seccomp],
            &[Layer::BpfLsm],
            &[Layer::Uid],
            &[Layer::MountNamespace],
        ],
        "bpf BPF_LINK_DETACH",
        "include/uapi/linux/bpf.h: a link is detached while others hold it",
        pinned,
        |scene: &Scene| vec![
            bpf_call(
                "bpf BPF_OBJ_GET",
                7,
                // pathname; bpf_fd and file_flags.
                vec![calls::text(pin(scene)), calls::number(0)],
            ),
            // link_fd, the call's first word.
            bpf_call("bpf BPF_LINK_DETACH", 34, vec![Argument::Result(0)]),
        ]
    ),
    taken!(
        "hooks/prog-detach",
        "BPF_PROG_DETACH",
        "May it take a program away from a cgroup?",
        &[
            &[Layer::Seccomp],
            &[Layer::BpfLsm],
            &[Layer::MountNamespace],
        ],
        "bpf BPF_PROG_DETACH",
        "include/uapi/linux/bpf.h: what is attached without a link goes with any descriptor of its \
         cgroup",
        attached,
        |scene: &Scene| vec![
            calls::call(
                "open the cgroup",
                libc::SYS_openat,
                vec![
                    calls::HERE,
                    calls::text(cgroup(scene)),
                    calls::number(libc::O_RDONLY | libc::O_DIRECTORY),
                ],
            ),
            bpf_call(
                "bpf BPF_PROG_DETACH",
                9,
                // target_fd and no program; attach_type and no flags.
                vec![Argument::Result(0), calls::number(i64::from(SOCK_CREATE)),],
            ),
        ]
    ),
];

/// bpf(2) with an attribute of these 64-bit words.
fn bpf_call(step: &str, command: i64, words: Vec<Argument>) -> Call {
    let length = i64::try_from(words.len()).unwrap_or(0) * 8;
    calls::call(
        step,
        libc::SYS_bpf,
        vec![
            calls::number(command),
            Argument::Words(words),
            calls::number(length),
        ],
    )
}

fn pin(scene: &Scene) -> PathBuf {
    scene.pins().join("custody-bypass")
}

fn away(scene: &Scene) -> PathBuf {
    scene.pins().join("custody-bypass-moved")
}

/// The cgroup that the spare hook is attached to, without a link. One that had links a moment ago takes
/// none without (EPERM): the kernel lets links go after a grace period.
fn cgroup(scene: &Scene) -> PathBuf {
    scene.cgroup().join("to-be-taken")
}

/// One more link of a hook of the sessions', pinned beside the others.
fn pinned(scene: &Scene) -> anyhow::Result<()> {
    gone(&pin(scene))?;
    gone(&away(scene))?;
    let hooks = Hooks::pinned_in(scene.pins())?;
    let cgroup = Cgroup::ensure(&scene.cgroup().join("to-be-unpinned"))?;
    let link = hooks.to_be_taken()?.attach_also(cgroup.as_fd())?;
    Ok(bpf::pin(link, &pin(scene))?)
}

/// The same hook's program, attached as it was before there were links.
fn attached(scene: &Scene) -> anyhow::Result<()> {
    let hooks = Hooks::pinned_in(scene.pins())?;
    let cgroup = Cgroup::ensure(&cgroup(scene))?;
    Ok(hooks.to_be_taken()?.attach_without_link(cgroup.as_fd())?)
}

fn gone(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

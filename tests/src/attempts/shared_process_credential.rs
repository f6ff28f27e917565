//! Reading the credential: from the processes that hold it, from what was inherited, from files.

use custody_wire::layer::Layer;

use super::{
    Arm, Attempt, Carries, NO_SUCH_CALL, OWN_MEMORY, Owner, Promised, TwinShows, planted,
    planted_file,
};
use crate::{
    evidence::row::Class,
    probe::{Attack, By, Effect},
    suite::{message, scene::Scene},
};

/// What stands between a session and another process's memory.
const MEMORY: Promised = Promised::Layers(&[
    &[Layer::Uid],
    &[Layer::PidNamespace, Layer::MountNamespace],
    &[Layer::Landlock],
]);

/// The same without Landlock, which lets whoever has CAP_PERFMON read an environment.
const ENVIRON: Promised =
    Promised::Layers(&[&[Layer::Uid], &[Layer::PidNamespace, Layer::MountNamespace]]);

/// The same for calls that take a pid and that the filter denies whole.
const BY_PID: Promised = Promised::Layers(&[
    &[Layer::Seccomp],
    &[Layer::Uid],
    &[Layer::PidNamespace],
    &[Layer::Landlock],
]);

macro_rules! memory {
    ($id:literal, $mechanism:literal, $question:literal, $promised:expr, $source:literal, $by:expr, $twin:expr, $notes:expr) => {
        Attempt {
            id: $id,
            class: Class::SharedProcessCredential,
            mechanism: $mechanism,
            question: $question,
            promised: $promised,
            source: $source,
            attack: |scene, arm, effect| memory(scene, arm, $by, effect),
            twin: |scene, effect| {
                planted(
                    scene,
                    Attack::Memory {
                        by: $twin,
                        pids: Vec::new(),
                        everyone: true,
                        effect,
                    },
                )
            },
            twin_shows: TwinShows::Planted,
            notes: $notes,
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    memory!(
        "memory/proc-mem",
        "/proc/PID/mem",
        "Can the holder's memory be read as a file?",
        MEMORY,
        "github/gh-aw-firewall#620: tokens hidden from the environment, read from /proc",
        By::ProcMem,
        By::ProcMem,
        &[OWN_MEMORY]
    ),
    memory!(
        "memory/process-vm-readv",
        "process_vm_readv(2)",
        "Can the holder's memory be read by a call?",
        BY_PID,
        "kernel.md section 3",
        By::ProcessVmReadv,
        By::ProcMem,
        &[NO_SUCH_CALL, OWN_MEMORY]
    ),
    Attempt {
        apart: Some("a process has one tracer"),
        ..memory!(
            "memory/ptrace",
            "ptrace(2)",
            "Can the holder be traced?",
            BY_PID,
            "kernel.md section 3",
            By::Ptrace,
            By::ProcMem,
            &[NO_SUCH_CALL, OWN_MEMORY]
        )
    },
    memory!(
        "memory/environ",
        "/proc/PID/environ",
        "Does a process that can be named show the credential in its environment or arguments?",
        ENVIRON,
        "nono 0.81: /proc/PPID/environ of the supervisor held the real key",
        By::Environ,
        By::Environ,
        &[]
    ),
    Attempt {
        apart: Some(super::authenticated_client::ONE_CONNECTION),
        ..memory!(
            "memory/pidfd-getfd",
            "pidfd_getfd(2)",
            "Can a descriptor of the holder be copied and read?",
            BY_PID,
            "kernel.md section 3: the descriptor of a memfd_secret can be taken and mapped",
            By::PidfdGetfd,
            By::ProcMem,
            &[NO_SUCH_CALL, OWN_MEMORY]
        )
    },
    Attempt {
        id: "file/credential",
        class: Class::SharedProcessCredential,
        mechanism: "the credential's file",
        question: "Can the file that the credential came from be opened?",
        promised: Promised::Layers(&[&[Layer::MountNamespace], &[Layer::Uid]]),
        source: "CVE-2024-21626 and every agent that reads ~/.netrc",
        owner: Owner::Root,
        attack: |scene, _, _| Attack::File {
            path: scene.credential_file.clone(),
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        notes: &[
            "the file lies below `/tmp`, which Landlock gives to every session: it is no leg here",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "inherited/environment",
        class: Class::SharedProcessCredential,
        mechanism: "the caller's environment",
        question: "Does a session inherit a key that its caller has in the environment?",
        promised: Promised::Layers(&[&[Layer::Environment]]),
        source: "sreerevanth/repopilot#81: a deny list of names leaked 14 secrets",
        carries: Carries::Environment,
        attack: |_, _, _| Attack::Environment,
        twin: |scene, _| planted(scene, Attack::Environment),
        twin_shows: TwinShows::Planted,
        ..Attempt::BASE
    },
    Attempt {
        id: "inherited/file",
        class: Class::SharedProcessCredential,
        mechanism: "an open file of the caller",
        question: "Does a session inherit an open file with the credential in it?",
        promised: Promised::Layers(&[&[Layer::Fds]]),
        source: "CVE-2024-21626: a leaked descriptor",
        carries: Carries::File,
        attack: |_, _, effect| Attack::Descriptors { effect },
        twin: |scene, effect| planted(scene, Attack::Descriptors { effect }),
        twin_shows: TwinShows::Planted,
        ..Attempt::BASE
    },
    Attempt {
        id: "reflected/header",
        class: Class::SharedProcessCredential,
        mechanism: "a service that sends the request back",
        question: "Does an answer show the credential that the worker put in?",
        promised: Promised::Gate {
            says: &["[credential]"],
            mutant: "effect-scrubber",
        },
        source: "boxlite#1500: the upstream echoes what was substituted",
        attack: |scene, arm, effect| {
            message::call(
                scene,
                arm,
                "reflect",
                &serde_json::json!({"text": effect.nonce}),
            )
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        ..Attempt::BASE
    },
];

fn memory(scene: &Scene, arm: Arm, by: By, effect: Effect) -> Attack {
    Attack::Memory {
        by,
        pids: scene.holders(arm),
        everyone: arm == Arm::Confined,
        effect,
    }
}

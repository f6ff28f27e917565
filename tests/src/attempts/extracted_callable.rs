//! Extraction of the guarded callable. In our topology: execute our own programs inside the
//! session, drive a connector, forge a plan or a permit; and the guard that shares the agent's
//! process, which stays here as the reach arm and stays succeeding.

use custody_wire::layer::Layer;

use super::{Attempt, Need, Owner, Promised, TwinShows};
use crate::{
    evidence::row::Class,
    probe::Attack,
    suite::{guard, message},
};

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "guard/in-process",
        class: Class::ExtractedCallable,
        mechanism: "the callable behind a guard in one process",
        question: "Does code beside the agent's client find a callable that performs the effect?",
        needs: &[Need::Program(guard::PYTHON)],
        promised: Promised::Gate {
            says: &["`trusted_value`"],
            mutant: "gate-authority",
        },
        source: "§12.3: an in-process language runtime offers no custody",
        attack: guard::attack,
        twin: guard::twin,
        twin_shows: TwinShows::Effect,
        notes: &[
            "the reach arm is a real guard in one process with the agent: its callable is extracted and performs the effect, on every run; no profile of ours has such a guard",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "program/drive-connector",
        class: Class::ExtractedCallable,
        mechanism: "custody-effect over a channel of the attacker's",
        question: "Does the connector perform when the agent starts it and speaks its protocol?",
        promised: Promised::Layers(&[
            &[Layer::Seccomp],
            &[Layer::CgroupInet],
            &[Layer::NetworkNamespace],
            &[Layer::Landlock],
        ]),
        source: "kernel.md attempts 11 and 12: dispatch around the guard by its own code",
        attack: |scene, _, effect| Attack::DriveConnector {
            program: scene.program("custody-effect"),
            to: scene.witness_address,
            effect: scene.with_leaked_token(effect),
        },
        twin: |scene, effect| Attack::DriveConnector {
            program: scene.program("custody-effect"),
            to: scene.witness_address,
            effect: scene.with_leaked_token(effect),
        },
        twin_shows: TwinShows::Said("the connector is ready"),
        notes: &[
            "the twin is the connector up to its word that it is ready: no session may connect anywhere",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "program/forge-plan",
        class: Class::ExtractedCallable,
        mechanism: "custody-launch with a forged plan",
        question: "Does the launcher read the credential's file for an agent that forges its plan?",
        promised: Promised::Layers(&[&[Layer::Uid], &[Layer::MountNamespace]]),
        source: "firejail #2718: joining a sandbox through its own launcher",
        owner: Owner::Root,
        attack: |scene, _, _| Attack::ForgePlan {
            program: scene.program("custody-launch"),
            file: scene.credential_file.clone(),
        },
        twin: |scene, _| Attack::ForgePlan {
            program: scene.program("custody-launch"),
            file: "/etc/passwd".into(),
        },
        twin_shows: TwinShows::Step("the launcher answers"),
        notes: &[
            "the twin is the launcher up to its answer to a plan: no session may launch anything",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "message/forge-permit",
        class: Class::ExtractedCallable,
        mechanism: "a forged permit in a frame of our own protocol",
        question: "Does anything behind the session's socket take a permit from the agent?",
        promised: Promised::Gate {
            says: &["-32700", "-32600", "closed"],
            mutant: "vault-permit-signature",
        },
        source: "Zouuup and others: a credential socket without authentication (llxprt-code#1954)",
        attack: |scene, arm, effect| Attack::ForgePermit {
            socket: scene.permit_socket(arm),
            effect,
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        ..Attempt::BASE
    },
];

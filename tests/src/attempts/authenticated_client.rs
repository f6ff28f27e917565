//! Through someone who is authenticated already: an inherited connection, a deputy on a socket, a
//! descriptor taken from a client, the worker's own connection.

use custody_wire::layer::Layer;

use super::{
    Arm, Attempt, Carries, NO_DATAGRAMS, NO_SUCH_CALL, OWN_MEMORY, Owner, Promised, TwinShows,
    Workspace, planted,
};
use crate::{
    evidence::row::Class,
    probe::{Address, Attack, By, How},
    suite::message,
};

/// Why runs that copy the holder's descriptors are none beside another.
pub(super) const ONE_CONNECTION: &str = "the holder has one connection, and two would speak on it";

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "client/inherited-connection",
        class: Class::AuthenticatedClient,
        mechanism: "an inherited connection",
        question: "Does a session inherit a connection that its caller had authenticated?",
        promised: Promised::Layers(&[&[Layer::Fds]]),
        source: "kernel.md 1.3: no filter closes an inherited socket",
        carries: Carries::Connection,
        attack: |_, _, effect| Attack::Descriptors { effect },
        twin: |scene, effect| planted(scene, Attack::Descriptors { effect }),
        twin_shows: TwinShows::Planted,
        notes: &[
            "the twin inherits a file, not a connection: a session has no one to be connected to",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "client/pidfd-getfd",
        class: Class::AuthenticatedClient,
        mechanism: "pidfd_getfd(2)",
        question: "Can the socket of an authenticated client be copied?",
        promised: Promised::Layers(&[
            &[Layer::Seccomp],
            &[Layer::Uid],
            &[Layer::PidNamespace],
            &[Layer::Landlock],
        ]),
        source: "kernel.md section 3: pidfd_getfd takes a socket",
        attack: |scene, arm, effect| Attack::Memory {
            by: By::PidfdGetfd,
            pids: scene.clients(arm),
            everyone: arm == Arm::Confined,
            effect,
        },
        twin: |scene, effect| {
            planted(
                scene,
                Attack::Memory {
                    by: By::ProcMem,
                    pids: Vec::new(),
                    everyone: true,
                    effect,
                },
            )
        },
        twin_shows: TwinShows::Planted,
        notes: &[NO_SUCH_CALL, OWN_MEMORY],
        apart: Some(ONE_CONNECTION),
        ..Attempt::BASE
    },
    Attempt {
        id: "deputy/unix-path",
        class: Class::AuthenticatedClient,
        mechanism: "a deputy on a path",
        question: "May a session speak to a program that listens on a path and has a key?",
        promised: Promised::Layers(&[&[Layer::CgroupUnix], &[Layer::MountNamespace]]),
        source: "nolabs-ai/nono#781: a deny rule on a socket's path does not stop connect(2)",
        attack: |scene, _, effect| Attack::Local {
            to: Address::Path(scene.deputy_path.clone()),
            how: How::Stream,
            effect,
        },
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        ..Attempt::BASE
    },
    Attempt {
        id: "deputy/workspace-socket",
        class: Class::AuthenticatedClient,
        mechanism: "a deputy in the shared workspace",
        question: "May a session speak to a program that listens in the workspace they share?",
        promised: Promised::Layers(&[&[Layer::CgroupUnix]]),
        source: "Kilo-Org/kilocode#11650: a bind mount does not stop connect(2)",
        owner: Owner::Operator,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| {
            scene.knocking(Attack::Local {
                to: Address::Path(scene.workspace().join("deputy.sock")),
                how: How::Stream,
                effect,
            })
        },
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        apart: Some(super::sockets::ONE_DOOR),
        ..Attempt::BASE
    },
    Attempt {
        id: "deputy/unix-abstract",
        class: Class::AuthenticatedClient,
        mechanism: "a deputy on an abstract name",
        question: "May a session speak to a program that listens on an abstract name?",
        promised: Promised::Layers(&[&[Layer::NetworkNamespace], &[Layer::Landlock]]),
        source: "Zouuup/landrun#43: D-Bus and others by their sockets",
        attack: |scene, _, effect| Attack::Local {
            to: Address::Abstract(scene.deputy_name.clone()),
            how: How::Stream,
            effect,
        },
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        ..Attempt::BASE
    },
    Attempt {
        id: "deputy/datagram-pair",
        class: Class::AuthenticatedClient,
        mechanism: "sendto(2) from a datagram pair",
        question: "May a session send to a path without socket(2) and connect(2)?",
        promised: Promised::Layers(&[
            &[Layer::Seccomp],
            &[Layer::CgroupUnix],
            &[Layer::MountNamespace],
        ]),
        source: "trpc-agent-go#2426: socketpair(SOCK_DGRAM) and sendto walk around the filter",
        attack: |scene, _, effect| Attack::Local {
            to: Address::Path(scene.deputy_datagram.clone()),
            how: How::PairDatagram,
            effect,
        },
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        notes: &[NO_DATAGRAMS],
        ..Attempt::BASE
    },
    Attempt {
        id: "client/request-smuggling",
        class: Class::AuthenticatedClient,
        mechanism: "a second request inside the worker's connection",
        question: "Can an argument end the worker's request and begin one of its own?",
        promised: Promised::Gate {
            says: &["`request`"],
            mutant: "gate-path-segment+gate-floor",
        },
        source: "CWE-93 and CWE-444: line breaks in what becomes a request",
        attack: |scene, arm, effect| {
            message::call(
                scene,
                arm,
                "read_note",
                &serde_json::json!({"note": message::smuggled(&effect)}),
            )
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        ..Attempt::BASE
    },
];

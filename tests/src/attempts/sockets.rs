//! Deputies on sockets of AF_UNIX: whoever speaks to one has its authority.

use std::path::Path;

use custody_wire::layer::Layer;
use nix::libc;

use super::{
    Attempt, Leg, NO_DATAGRAMS, Need, Owner, Promised, TwinShows, Workspace, calls, own_listener,
};
use crate::{
    evidence::row::Class,
    probe::{Address, Attack, Call, Effect, How, PYTHON},
    suite::scene::Scene,
};

/// A path outside: hidden, and not on the list.
const PATH: &[Leg] = &[&[Layer::CgroupUnix], &[Layer::MountNamespace]];

/// The same with the filter, which knows datagram sockets.
const DATAGRAM: &[Leg] = &[
    &[Layer::Seccomp],
    &[Layer::CgroupUnix],
    &[Layer::MountNamespace],
];

/// Why runs that knock are none beside another.
pub(super) const ONE_DOOR: &str = "who listens in the workspace has one door to be knocked at";

/// What the stand-in is not.
const NOT_ITSELF: &str = "the stand-in at such a path speaks HTTP, not the service's protocol: \
                          the door is the connection";

macro_rules! deputy {
    ($id:literal, $mechanism:literal, $question:literal, $promised:expr, $source:literal,
     $how:expr, $notes:expr, $to:expr) => {
        Attempt {
            id: $id,
            class: Class::AuthenticatedClient,
            mechanism: $mechanism,
            question: $question,
            promised: Promised::Layers($promised),
            source: $source,
            attack: |scene, _, effect| Attack::Local {
                to: $to(scene),
                how: $how,
                effect,
            },
            twin: own_listener,
            twin_shows: TwinShows::Said("HTTP/1.1 200"),
            notes: $notes,
            ..Attempt::BASE
        }
    };
}

/// A deputy in the workspace, where a session may write: only the hooks on its cgroup, or how its
/// own folders are mounted, stand between them.
macro_rules! workspace_deputy {
    ($id:literal, $mechanism:literal, $question:literal, $promised:expr, $source:literal,
     $attack:expr) => {
        Attempt {
            id: $id,
            class: Class::AuthenticatedClient,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers($promised),
            source: $source,
            owner: Owner::Operator,
            workspace: Workspace::Shared,
            attack: |scene, _, effect| scene.knocking($attack(scene, effect)),
            twin: own_listener,
            twin_shows: TwinShows::Said("HTTP/1.1 200"),
            apart: Some(ONE_DOOR),
            ..Attempt::BASE
        }
    };
}

macro_rules! service {
    ($id:literal, $question:literal, $source:literal, $path:literal) => {
        deputy!(
            $id,
            "a deputy on a path",
            $question,
            PATH,
            $source,
            How::Stream,
            &[NOT_ITSELF],
            |scene: &Scene| Address::Path(scene.public($path))
        )
    };
}

pub(super) const ALL: &[Attempt] = &[
    service!(
        "deputy/docker",
        "May a session speak to the socket of a container engine?",
        "peers.md section 4: a container engine's socket is root",
        "docker.sock"
    ),
    service!(
        "deputy/d-bus",
        "May a session speak to the system bus?",
        "Zouuup/landrun#43, greywall#32: D-Bus as a deputy",
        "dbus/system_bus_socket"
    ),
    service!(
        "deputy/systemd",
        "May a session ask the service manager to start something?",
        "systemd#8846, secureblue#1697: systemd-run",
        "systemd/private"
    ),
    service!(
        "deputy/ssh-agent",
        "May a session let an ssh-agent sign?",
        "kernel.md section 7, 37",
        "ssh-agent/agent.1000"
    ),
    service!(
        "deputy/gpg-agent",
        "May a session let a gpg-agent sign?",
        "kernel.md section 7, 37",
        "gnupg/S.gpg-agent"
    ),
    service!(
        "deputy/tmux",
        "May a session type into a terminal outside?",
        "kernel.md section 7, 37: send-keys",
        "tmux-1000/default"
    ),
    deputy!(
        "deputy/x11",
        "a deputy on an abstract name",
        "May a session speak to a display by its abstract name?",
        &[&[Layer::NetworkNamespace], &[Layer::Landlock]],
        "kernel.md section 7, 38",
        How::Stream,
        &[NOT_ITSELF],
        |scene: &Scene| Address::Abstract(format!("{}/.X11-unix/X0", scene.deputy_name))
    ),
    deputy!(
        "deputy/packets",
        "SOCK_SEQPACKET to a path",
        "May a session speak to a path by another type of socket?",
        PATH,
        "kernel.md 1.3",
        How::Packets,
        &[],
        |scene: &Scene| Address::Path(scene.public("packets.sock"))
    ),
    deputy!(
        "deputy/datagram",
        "SOCK_DGRAM to a path",
        "May a session send datagrams to a path?",
        DATAGRAM,
        "kernel.md 1.3: journald and syslog listen like that",
        How::Datagram,
        &[NO_DATAGRAMS],
        |scene: &Scene| Address::Path(scene.deputy_datagram.clone())
    ),
    deputy!(
        "deputy/datagram-pair-connect",
        "connect(2) of a datagram pair",
        "May one end of a pair be connected to someone else?",
        DATAGRAM,
        "trpc-agent-go#2426: the pair that can be turned round",
        How::PairConnect,
        &[NO_DATAGRAMS],
        |scene: &Scene| Address::Path(scene.deputy_datagram.clone())
    ),
    deputy!(
        "deputy/proc-self-root",
        "another name for the same path",
        "May it name the path through /proc/self/root?",
        PATH,
        "CoSAI: /proc/self/root walks around a list of names",
        How::Stream,
        &[],
        |scene: &Scene| Address::Path(
            format!("/proc/self/root{}", scene.deputy_path.display()).into()
        )
    ),
    workspace_deputy!(
        "deputy/prefix",
        "another name for the same path",
        "May it begin with the folder of the allowed path and walk back?",
        &[&[Layer::CgroupUnix]],
        "CWE-22: a list that compares beginnings",
        |scene: &Scene, effect| Attack::Local {
            to: Address::Path(walked_back(scene, listeners()).into()),
            how: How::Stream,
            effect,
        }
    ),
    workspace_deputy!(
        "deputy/prefix-tmp",
        "another name for the same path",
        "May it begin with the folder of its own sockets and walk back?",
        &[&[Layer::CgroupUnix]],
        "CWE-22: a list that compares beginnings",
        |scene: &Scene, effect| Attack::Local {
            to: Address::Path(walked_back(scene, Path::new("/tmp")).into()),
            how: How::Stream,
            effect,
        }
    ),
    workspace_deputy!(
        "deputy/nul-in-name",
        "a name with a NUL",
        "May an address hold the deputy's path, a NUL, and the allowed path?",
        &[&[Layer::CgroupUnix]],
        "peers.md section 4, 3: two readers of one name",
        |scene: &Scene, effect| calls::attack(with_nul(scene, &effect))
    ),
    workspace_deputy!(
        "deputy/symlink",
        "a link to the deputy's socket",
        "May it connect to a link in its own /tmp that leads to the socket?",
        &[&[Layer::MountNamespace]],
        "peers.md section 4, 36: links against what is compared by name",
        |scene: &Scene, effect| calls::attack(linked(scene, &effect))
    ),
    Attempt {
        twin: |scene, effect| Attack::Twin {
            of: Box::new(Attack::Passed {
                by: "/nowhere".into(),
                effect,
            }),
            plant: scene.plant.clone(),
        },
        ..workspace_deputy!(
            "deputy/passed-connection",
            "a passed connection",
            "May a session be handed a connection by a program that it can reach?",
            &[&[Layer::CgroupUnix], &[Layer::BpfLsm]],
            "kernel.md section 7, 36: no filter closes a passed socket",
            |scene: &Scene, effect| Attack::Passed {
                by: scene.workspace().join("giver.sock"),
                effect,
            }
        )
    },
];

/// The folder of the one socket that a session may connect to.
fn listeners() -> &'static Path {
    let listener = Path::new(custody_wire::launch::LISTENER);
    listener.parent().unwrap_or(listener)
}

/// The deputy's path by way of `from`.
fn walked_back(scene: &Scene, from: &Path) -> String {
    let up = "/..".repeat(from.components().count().saturating_sub(1));
    format!(
        "{}{up}{}/deputy.sock",
        from.display(),
        scene.workspace().display()
    )
}

/// struct sockaddr_un with these bytes as its path (unix(7)).
fn address(path: &[u8]) -> Vec<u8> {
    [&calls::family(libc::AF_UNIX)[..], path].concat()
}

fn with_nul(scene: &Scene, effect: &Effect) -> Vec<Call> {
    const LONGEST: usize = 108;
    let deputy = scene.workspace().join("deputy.sock");
    let mut path = deputy.as_os_str().as_encoded_bytes().to_vec();
    path.push(0);
    path.extend_from_slice(custody_wire::launch::LISTENER.as_bytes());
    path.truncate(LONGEST);
    speak(&path, effect)
}

fn speak(path: &[u8], effect: &Effect) -> Vec<Call> {
    vec![
        calls::socket("AF_UNIX", libc::AF_UNIX, libc::SOCK_STREAM, 0),
        calls::connect(&address(path)),
        calls::send("sendto", &effect.request(), 0, &[]),
        calls::receive(0, 0),
    ]
}

fn linked(scene: &Scene, effect: &Effect) -> Vec<Call> {
    let link = format!("/tmp/{}.sock", effect.nonce);
    let mut calls = speak(&[link.as_bytes(), b"\0"].concat(), effect);
    let make = calls::call(
        "symlink",
        libc::SYS_symlinkat,
        vec![
            calls::text(scene.workspace().join("deputy.sock")),
            calls::HERE,
            calls::text(&link),
        ],
    );
    // After socket(2), whose descriptor the others use.
    calls.insert(1, make);
    if let Some(connect) = calls.get_mut(2) {
        connect.go_on = true;
    }
    let away = vec![calls::HERE, calls::text(&link), calls::number(0)];
    calls.insert(3, calls::call("unlink", libc::SYS_unlinkat, away));
    calls
}

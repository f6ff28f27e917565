//! What a caller leaves open: whoever inherits it needs no door any more.

use custody_wire::layer::Layer;
use nix::libc;

use super::{Attempt, Carries, Need, Owner, Promised, Proof, TwinShows, calls};
use crate::{
    evidence::row::Class,
    probe::{Argument, Call, Effect, PYTHON},
    suite::scene::Scene,
};

const OWN: &str = "a session has nobody who would leave it such a thing: the twin makes its own \
                   descriptors and uses them by the same calls";

macro_rules! inherited {
    ($id:literal, $class:expr, $mechanism:literal, $question:literal, $promised:expr,
     $source:literal, $carries:expr, $proof:expr, $calls:expr) => {
        Attempt {
            id: $id,
            class: $class,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers($promised),
            source: $source,
            carries: $carries,
            attack: |scene, _, effect| calls::attack($calls(scene, effect)),
            twin: calls::other,
            twin_shows: TwinShows::Step("found twin"),
            proof: $proof,
            notes: &[OWN],
            ..Attempt::BASE
        }
    };
}

/// ioctl_tty(2).
const TIOCSTI: i64 = 0x5412;

/// Into someone's terminal: as root, for it is not the caller's own.
macro_rules! typed {
    ($id:literal, $question:literal, $source:literal, $request:expr) => {
        Attempt {
            owner: Owner::Root,
            ..inherited!(
                $id,
                Class::Confinement,
                "TIOCSTI into an inherited terminal",
                $question,
                &[
                    &[Layer::Fds],
                    &[Layer::Seccomp],
                    &[Layer::Capabilities],
                    &[Layer::Uid]
                ],
                $source,
                Carries::Terminal,
                Proof::Step("ioctl TIOCSTI"),
                |_: &Scene, _: Effect| vec![calls::call(
                    "ioctl TIOCSTI",
                    libc::SYS_ioctl,
                    vec![
                        Argument::Inherited("tty".into()),
                        calls::number($request),
                        calls::bytes(b"x"),
                    ],
                )]
            )
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    inherited!(
        "fd/tcp-socket",
        Class::WithoutAuthorization,
        "an inherited socket that is not connected",
        "May a session connect a socket that was made outside?",
        &[&[Layer::Fds], &[Layer::Landlock]],
        "kernel.md 1.3: the hooks on a cgroup see the cgroup that the socket was made in",
        Carries::Tcp,
        Proof::Effect,
        |scene: &Scene, effect| {
            let request = scene.with_leaked_token(effect).request();
            let to = calls::address(scene.witness_address);
            vec![
                calls::call(
                    "connect",
                    libc::SYS_connect,
                    vec![socket(), calls::bytes(&to), calls::length(&to)],
                ),
                send(&request, &[]),
                calls::call(
                    "recvfrom",
                    libc::SYS_recvfrom,
                    vec![
                        socket(),
                        calls::buffer("answer", 4096),
                        calls::number(4096),
                        calls::number(0),
                        calls::NULL,
                        calls::NULL,
                    ],
                ),
            ]
        }
    ),
    inherited!(
        "fd/udp-socket",
        Class::WithoutAuthorization,
        "an inherited datagram socket",
        "May a session send from a datagram socket that was made outside?",
        &[&[Layer::Fds], &[Layer::BpfLsm]],
        "kernel.md 1.3: every layer passes it",
        Carries::Udp,
        Proof::Effect,
        |scene: &Scene, effect: Effect| vec![send(
            &effect.request(),
            &calls::address(scene.ports.udp)
        )]
    ),
    inherited!(
        "fd/folder",
        Class::SharedProcessCredential,
        "an inherited folder",
        "May a session open a file below a folder that was left open?",
        &[&[Layer::Fds]],
        "CVE-2024-21626: a leaked descriptor of a folder of the host",
        Carries::Folder,
        Proof::Effect,
        |scene: &Scene, _: Effect| vec![
            calls::call(
                "openat",
                libc::SYS_openat,
                vec![
                    Argument::Inherited(scene.public("folder").display().to_string()),
                    calls::text("carried"),
                    calls::number(libc::O_RDONLY),
                ],
            ),
            calls::call(
                "read",
                libc::SYS_read,
                vec![
                    Argument::Result(0),
                    calls::buffer("carried", 256),
                    calls::number(256),
                ],
            ),
        ]
    ),
    inherited!(
        "fd/pidfd",
        Class::Confinement,
        "an inherited pidfd",
        "May a session signal a process outside by a pidfd that was left open?",
        &[&[Layer::Fds], &[Layer::Uid], &[Layer::PidNamespace]],
        "pidfd_send_signal(2): a pid namespace does not hide who is held by a descriptor",
        Carries::Pidfd,
        Proof::Step("pidfd_send_signal"),
        // Signal 0: whether it may (kill(2)).
        |_: &Scene, _: Effect| vec![calls::call(
            "pidfd_send_signal",
            libc::SYS_pidfd_send_signal,
            vec![
                Argument::Inherited("anon_inode:[pidfd]".into()),
                calls::number(0),
                calls::NULL,
                calls::number(0),
            ],
        )]
    ),
    typed!(
        "fd/terminal-type-ahead",
        "May a session type into a terminal that its caller left open?",
        "CVE-2017-5226: TIOCSTI out of a sandbox",
        TIOCSTI
    ),
    typed!(
        "fd/terminal-type-ahead-wide",
        "May it, with a bit set that only the kernel's 32-bit view of a request drops?",
        "CVE-2019-10063: a filter that compares 64 bits",
        TIOCSTI | 1 << 32
    ),
];

fn socket() -> Argument {
    Argument::Inherited("socket:".into())
}

fn send(what: &[u8], to: &[u8]) -> Call {
    let address = if to.is_empty() {
        calls::NULL
    } else {
        calls::bytes(to)
    };
    calls::call(
        "sendto",
        libc::SYS_sendto,
        vec![
            socket(),
            calls::bytes(what),
            calls::length(what),
            calls::number(libc::MSG_NOSIGNAL),
            address,
            calls::length(to),
        ],
    )
}

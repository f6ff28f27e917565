//! Over the network, every way but the plain one: other families, other protocols, other calls;
//! and in from outside.

use std::net::SocketAddr;

use custody_wire::layer::Layer;
use nix::libc;

use super::{Attempt, NO_TCP, Need, Owner, Promised, TwinShows, calls, frames::udp_packet};
use crate::{
    attempts::Proof,
    evidence::row::Class,
    probe::{Argument, Call, Effect, PYTHON},
    suite::scene::Scene,
};

/// What stands between a session and TCP that Landlock sees.
const TCP: Promised = Promised::Layers(&[
    &[Layer::Seccomp],
    &[Layer::CgroupInet],
    &[Layer::NetworkNamespace],
    &[Layer::Landlock],
]);

/// The same for what Landlock does not see.
const IP: Promised = Promised::Layers(&[
    &[Layer::Seccomp],
    &[Layer::CgroupInet],
    &[Layer::NetworkNamespace],
]);

/// The same for sockets that only CAP_NET_RAW makes (raw(7)).
const RAW: Promised = Promised::Layers(&[
    &[Layer::Seccomp],
    &[Layer::CgroupInet],
    &[Layer::NetworkNamespace],
    &[Layer::Capabilities],
    &[Layer::Uid],
]);

pub(super) const CALLS: &[Need] = &[Need::Program(PYTHON)];
const MPTCP: Need = Need::Socket("multipath TCP", libc::AF_INET, libc::SOCK_STREAM, 262);
const UDP_LITE: Need = Need::Socket("UDP-Lite", libc::AF_INET, libc::SOCK_DGRAM, 136);

/// No family but AF_UNIX is allowed: the twin makes the same calls on a pair of that.
pub(super) const NO_FAMILY: &str = "no such socket is allowed: the twin makes the same calls on a pair of \
                         AF_UNIX";

macro_rules! direct {
    ($id:literal, $mechanism:literal, $question:literal, $needs:expr, $promised:expr, $owner:expr,
     $source:literal, $calls:expr) => {
        Attempt {
            id: $id,
            class: Class::WithoutAuthorization,
            mechanism: $mechanism,
            question: $question,
            needs: $needs,
            promised: $promised,
            source: $source,
            owner: $owner,
            attack: |scene, _, effect| calls::attack($calls(scene, &effect)),
            twin: calls::pair,
            twin_shows: TwinShows::Said("POST /v1/messages"),
            notes: &[NO_FAMILY],
            ..Attempt::BASE
        }
    };
}

macro_rules! door {
    ($id:literal, $mechanism:literal, $question:literal, $needs:expr, $promised:expr, $step:literal,
     $source:literal, $calls:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: $needs,
            promised: Promised::Layers($promised),
            source: $source,
            owner: Owner::Root,
            attack: |scene, _, effect| calls::attack($calls(scene, &effect)),
            twin: calls::pair,
            twin_shows: TwinShows::Said("POST /v1/messages"),
            proof: Proof::Step($step),
            notes: &[NO_FAMILY],
            ..Attempt::BASE
        }
    };
}

pub(super) use door;

pub(super) const ALL: &[Attempt] = &[
    // Few kernels have this door; where it is not, that is no half that is missing.
    Attempt {
        class: Class::Confinement,
        ..direct!(
            "direct/x32",
            "the system calls of x32",
            "May it make the socket by numbers of x32, which a filter by number alone passes?",
            &[Need::Program(PYTHON), Need::X32],
            TCP,
            Owner::Standin,
            "agentsh C2 and CVE-2014-0038's class; seccomp(2): bit 30 of the number, the same architecture",
            |scene: &Scene, effect: &Effect| by_x32(stream(
                libc::AF_INET,
                0,
                scene.witness_address,
                &scene.with_leaked_token(effect.clone())
            ))
        )
    },
    direct!(
        "direct/tcp6",
        "tcp connect",
        "May it connect over IPv6?",
        &[Need::Program(PYTHON), Need::Ipv6],
        TCP,
        Owner::Standin,
        "kernel.md 1.3: rules for one family only",
        |scene: &Scene, effect: &Effect| match scene.ports.tcp6 {
            Some(to) => stream(libc::AF_INET6, 0, to, effect),
            None => Vec::new(),
        }
    ),
    direct!(
        "direct/tcp-v4-mapped",
        "tcp connect",
        "May it connect over IPv6 to an address of IPv4?",
        &[Need::Program(PYTHON), Need::Ipv6],
        TCP,
        Owner::Standin,
        "RFC 4291, section 2.5.5.2: a mapped address passes rules on connect4",
        |scene: &Scene, effect: &Effect| stream(
            libc::AF_INET6,
            0,
            mapped(scene.witness_address),
            &scene.with_leaked_token(effect.clone())
        )
    ),
    direct!(
        "direct/tcp-fast-open-connect",
        "tcp fast open",
        "May it connect late, by TCP_FASTOPEN_CONNECT and the first write?",
        CALLS,
        TCP,
        Owner::Standin,
        "tcp(7): connect(2) returns at once and the first send makes the connection",
        |scene: &Scene, effect: &Effect| late(scene, effect)
    ),
    direct!(
        "direct/multipath-fast-open",
        "multipath tcp",
        "May it use multipath TCP and connect by sendto(2)?",
        &[Need::Program(PYTHON), MPTCP],
        IP,
        Owner::Standin,
        "landlock-lsm/linux#41 and #54 together",
        |scene: &Scene, effect: &Effect| {
            let effect = scene.with_leaked_token(effect.clone());
            vec![
                calls::socket("MPTCP", libc::AF_INET, libc::SOCK_STREAM, 262),
                calls::send(
                    "sendto MSG_FASTOPEN",
                    &effect.request(),
                    libc::MSG_FASTOPEN,
                    &calls::address(scene.witness_address),
                ),
                calls::receive(0, 0),
            ]
        }
    ),
    direct!(
        "direct/udp-connect",
        "udp",
        "May it connect a datagram socket and send?",
        CALLS,
        IP,
        Owner::Standin,
        "kernel.md 1.3: Landlock ABI 7 has no rule for UDP",
        |scene: &Scene, effect: &Effect| vec![
            calls::socket("AF_INET SOCK_DGRAM", libc::AF_INET, libc::SOCK_DGRAM, 0),
            calls::connect(&calls::address(scene.ports.udp)),
            calls::send("sendto", &effect.request(), 0, &[]),
        ]
    ),
    direct!(
        "direct/udp-send",
        "udp",
        "May it send a datagram without connect(2)?",
        CALLS,
        IP,
        Owner::Standin,
        "OpenShell#1169: names looked up although connect is denied",
        |scene: &Scene, effect: &Effect| datagram(0, scene.ports.udp, effect)
    ),
    direct!(
        "direct/udp-sendmmsg",
        "sendmmsg(2)",
        "May it send datagrams by the call that sends many?",
        CALLS,
        IP,
        Owner::Standin,
        "sendmmsg(2): filters list send, sendto and sendmsg",
        |scene: &Scene, effect: &Effect| many(scene.ports.udp, effect)
    ),
    // Debian's 7.3 has it no more: where this door is not, no half is missing.
    Attempt {
        class: Class::Confinement,
        ..direct!(
            "direct/udp-lite",
            "UDP-Lite",
            "May it send by the protocol that nobody thinks of?",
            &[Need::Program(PYTHON), UDP_LITE],
            IP,
            Owner::Standin,
            "kernel.md 1.3: UDP-Lite passes Landlock",
            |scene: &Scene, effect: &Effect| match scene.ports.udp_lite {
                Some(to) => datagram(136, to, effect),
                None => Vec::new(),
            }
        )
    },
    direct!(
        "direct/raw-ip",
        "raw ip socket",
        "May it write IP packets itself?",
        CALLS,
        RAW,
        Owner::Root,
        "peers.md appendix A: raw sockets of bwrap and nono",
        |scene: &Scene, effect: &Effect| vec![
            calls::socket("SOCK_RAW", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP),
            calls::send(
                "sendto",
                &udp_packet(scene.ports.udp, &effect.request()),
                0,
                &calls::address(scene.ports.udp),
            ),
        ]
    ),
    Attempt {
        id: "direct/listen",
        class: Class::WithoutAuthorization,
        mechanism: "an outsider who calls in",
        question: "May a session listen, and tell what to do to an outsider who connects?",
        needs: CALLS,
        promised: TCP,
        source: "kernel.md section 7, 33",
        attack: |scene, _, effect| calls::attack(listen(scene, &effect)),
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        apart: Some("who calls in calls one port"),
        notes: &[NO_TCP],
        ..Attempt::BASE
    },
    Attempt {
        owner: Owner::Standin,
        ..door!(
            "direct/listen-autobind",
            "listen(2) without bind(2)",
            "May it listen without bind(2), on a port that the kernel picks?",
            CALLS,
            &[&[Layer::Seccomp], &[Layer::CgroupInet]],
            "listen",
            "kernel.md 1.3: the bind hooks and Landlock miss it",
            |_: &Scene, _: &Effect| vec![
                calls::socket("AF_INET", libc::AF_INET, libc::SOCK_STREAM, 0),
                calls::call(
                    "listen",
                    libc::SYS_listen,
                    vec![Argument::Result(0), calls::number(1)],
                ),
            ]
        )
    },
];

/// socket(2), connect(2), the request and its answer.
fn stream(family: i32, protocol: i32, to: SocketAddr, effect: &Effect) -> Vec<Call> {
    let name = match family {
        libc::AF_INET6 => "AF_INET6",
        _ => "AF_INET",
    };
    vec![
        calls::socket(name, family, libc::SOCK_STREAM, protocol),
        calls::connect(&calls::address(to)),
        calls::send("sendto", &effect.request(), 0, &[]),
        calls::receive(0, 0),
    ]
}

fn late(scene: &Scene, effect: &Effect) -> Vec<Call> {
    let effect = scene.with_leaked_token(effect.clone());
    let mut calls = stream(libc::AF_INET, 0, scene.witness_address, &effect);
    let option = calls::option(
        "setsockopt TCP_FASTOPEN_CONNECT",
        libc::IPPROTO_TCP,
        libc::TCP_FASTOPEN_CONNECT,
        1,
    );
    calls.insert(1, option);
    calls
}

fn mapped(of: SocketAddr) -> SocketAddr {
    match of {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        SocketAddr::V6(_) => of,
    }
}

fn datagram(protocol: i32, to: SocketAddr, effect: &Effect) -> Vec<Call> {
    vec![
        calls::socket("SOCK_DGRAM", libc::AF_INET, libc::SOCK_DGRAM, protocol),
        calls::send("sendto", &effect.request(), 0, &calls::address(to)),
    ]
}

/// One message by sendmmsg(2): struct mmsghdr, struct msghdr and struct iovec as words.
fn many(to: SocketAddr, effect: &Effect) -> Vec<Call> {
    let (address, request) = (calls::address(to), effect.request());
    let part = Argument::Words(vec![calls::bytes(&request), calls::length(&request)]);
    let message = Argument::Words(vec![
        calls::bytes(&address),
        calls::length(&address),
        part,
        calls::number(1),
        calls::NULL,
        calls::number(0),
        calls::number(0),
        calls::number(0),
    ]);
    vec![
        calls::socket("SOCK_DGRAM", libc::AF_INET, libc::SOCK_DGRAM, 0),
        calls::call(
            "sendmmsg",
            libc::SYS_sendmmsg,
            vec![
                Argument::Result(0),
                message,
                calls::number(1),
                calls::number(libc::MSG_NOSIGNAL),
            ],
        ),
    ]
}

fn listen(scene: &Scene, effect: &Effect) -> Vec<Call> {
    let address = calls::address(scene.ports.calls);
    let request = effect.request();
    // struct timeval: not for ever where nobody comes.
    let patience = [2_i64.to_ne_bytes(), 0_i64.to_ne_bytes()].concat();
    vec![
        calls::socket("AF_INET", libc::AF_INET, libc::SOCK_STREAM, 0),
        calls::option("setsockopt", libc::SOL_SOCKET, libc::SO_REUSEADDR, 1),
        calls::call(
            "setsockopt",
            libc::SYS_setsockopt,
            vec![
                Argument::Result(0),
                calls::number(libc::SOL_SOCKET),
                calls::number(libc::SO_RCVTIMEO),
                calls::bytes(&patience),
                calls::length(&patience),
            ],
        ),
        calls::call(
            "bind",
            libc::SYS_bind,
            vec![
                Argument::Result(0),
                calls::bytes(&address),
                calls::length(&address),
            ],
        ),
        calls::call(
            "listen",
            libc::SYS_listen,
            vec![Argument::Result(0), calls::number(1)],
        ),
        calls::call(
            "accept4",
            libc::SYS_accept4,
            vec![
                Argument::Result(0),
                calls::NULL,
                calls::NULL,
                calls::number(libc::SOCK_CLOEXEC),
            ],
        ),
        calls::call(
            "sendto",
            libc::SYS_sendto,
            vec![
                Argument::Result(5),
                calls::bytes(&request),
                calls::length(&request),
                calls::number(libc::MSG_NOSIGNAL),
                calls::NULL,
                calls::number(0),
            ],
        ),
        calls::receive(5, 0),
    ]
}

/// The same calls by their numbers of x32: bit 30, and those that have one of their own
/// (arch/x86/entry/syscalls/syscall_64.tbl).
fn by_x32(mut calls: Vec<Call>) -> Vec<Call> {
    const BIT: i64 = 0x4000_0000;
    for call in &mut calls {
        call.number = BIT
            | match call.number {
                libc::SYS_recvfrom => 517,
                number => number,
            };
    }
    calls
}

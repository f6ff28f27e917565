//! Sockets below or beside the usual ones: packets by hand, the hypervisor's channel, netlink.

use std::net::{Ipv4Addr, SocketAddr};

use custody_wire::layer::Layer;
use nix::libc;

use super::{
    Attempt, Need, Owner, Promised, TwinShows, calls,
    frames::{echo, ip_packet, loopback, netlink, netlink_address, sock_diag},
    network::{CALLS, NO_FAMILY, door},
};
use crate::{
    attempts::Proof,
    probe::{Argument, Effect, PYTHON},
    suite::scene::Scene,
};

const PACKET: Need = Need::Socket("AF_PACKET", libc::AF_PACKET, libc::SOCK_DGRAM, 0);
const VSOCK: Need = Need::Socket("AF_VSOCK", libc::AF_VSOCK, libc::SOCK_STREAM, 0);
const XDP: Need = Need::Socket("AF_XDP", libc::AF_XDP, libc::SOCK_RAW, 0);

pub(super) const ALL: &[Attempt] = &[
    door!(
        "direct/packet",
        "packet socket",
        "May it put frames on an interface?",
        &[Need::Program(PYTHON), PACKET],
        &[
            &[Layer::Seccomp],
            &[Layer::NetworkNamespace],
            &[Layer::Capabilities],
            &[Layer::Uid],
        ],
        "sendto",
        "packet(7): below every rule on IP sockets",
        |scene: &Scene, effect: &Effect| vec![
            calls::socket("AF_PACKET", libc::AF_PACKET, libc::SOCK_DGRAM, 0),
            calls::send(
                "sendto",
                &ip_packet(scene.ports.udp, &effect.request()),
                0,
                &loopback(),
            ),
        ]
    ),
    door!(
        "direct/raw-icmp",
        "raw icmp socket",
        "May it send an echo request and hear the answer?",
        CALLS,
        &[
            &[Layer::Seccomp],
            &[Layer::CgroupInet],
            &[Layer::NetworkNamespace],
            &[Layer::Capabilities],
            &[Layer::Uid],
        ],
        "recvfrom",
        "ICMP tunnels: data leaves in the payload of an echo",
        |_: &Scene, effect: &Effect| vec![
            calls::socket("ICMP", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
            calls::send(
                "sendto",
                &echo(effect.nonce.as_bytes()),
                0,
                &calls::address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            ),
            calls::receive(0, 0),
        ]
    ),
    door!(
        "direct/xdp",
        "xdp socket",
        "May it make a socket of AF_XDP?",
        &[Need::Program(PYTHON), XDP],
        &[&[Layer::Seccomp], &[Layer::Capabilities], &[Layer::Uid]],
        "socket AF_XDP",
        "Documentation/networking/af_xdp.rst: frames past the network stack",
        |_: &Scene, _: &Effect| vec![calls::socket("AF_XDP", libc::AF_XDP, libc::SOCK_RAW, 0)]
    ),
    Attempt {
        notes: &[
            NO_FAMILY,
            "no connection is tried: on a guest the other end is the hypervisor's host",
        ],
        ..door!(
            "direct/vsock",
            "vsock",
            "May it make a socket that leads past every network namespace to the hypervisor?",
            &[Need::Program(PYTHON), VSOCK],
            &[&[Layer::Seccomp], &[Layer::BpfLsm]],
            "socket AF_VSOCK",
            "mxc#936, moby#44562: AF_VSOCK ignores network namespaces",
            |_: &Scene, _: &Effect| vec![calls::socket(
                "AF_VSOCK",
                libc::AF_VSOCK,
                libc::SOCK_STREAM,
                0
            )]
        )
    },
    door!(
        "direct/netlink-route",
        "netlink",
        "May it ask the kernel for interfaces?",
        CALLS,
        &[&[Layer::Seccomp], &[Layer::BpfLsm]],
        "recvfrom",
        "peers.md appendix A: netlink in bwrap, firejail, srt, sandlock and nono",
        |_: &Scene, _: &Effect| netlink(
            "NETLINK_ROUTE",
            libc::NETLINK_ROUTE,
            18,
            &[0; 16],
            libc::MSG_DONTWAIT
        )
    ),
    door!(
        "direct/netlink-sock-diag",
        "netlink",
        "May it list the sockets of the host, with their paths?",
        CALLS,
        &[
            &[Layer::Seccomp],
            &[Layer::BpfLsm],
            &[Layer::NetworkNamespace]
        ],
        "found deputy.sock",
        "sock_diag(7): who listens where",
        |_: &Scene, _: &Effect| sock_diag()
    ),
    door!(
        "direct/netlink-audit",
        "netlink",
        "May it bind a socket to the audit subsystem?",
        CALLS,
        &[&[Layer::Seccomp], &[Layer::BpfLsm]],
        "bind",
        "kernel.md section 7, 31",
        // What is asked there needs CAP_AUDIT_CONTROL, which no layer here grants: the door is the
        // socket.
        |_: &Scene, _: &Effect| vec![
            calls::socket(
                "NETLINK_AUDIT",
                libc::AF_NETLINK,
                libc::SOCK_RAW,
                libc::NETLINK_AUDIT
            ),
            calls::call(
                "bind",
                libc::SYS_bind,
                vec![
                    Argument::Result(0),
                    calls::bytes(&netlink_address(0)),
                    calls::number(12),
                ],
            ),
        ]
    ),
    door!(
        "direct/netlink-uevent",
        "netlink",
        "May it listen to the kernel's events of devices?",
        CALLS,
        &[&[Layer::Seccomp], &[Layer::BpfLsm]],
        "bind",
        "kernel.md section 7, 31",
        |_: &Scene, _: &Effect| vec![
            calls::socket(
                "NETLINK_KOBJECT_UEVENT",
                libc::AF_NETLINK,
                libc::SOCK_RAW,
                libc::NETLINK_KOBJECT_UEVENT
            ),
            calls::call(
                "bind",
                libc::SYS_bind,
                vec![
                    Argument::Result(0),
                    calls::bytes(&netlink_address(1)),
                    calls::number(12),
                ],
            ),
        ]
    ),
];

//! Packets and messages by hand, for sockets below the usual ones.

use std::net::SocketAddr;

use nix::libc;

use super::calls;
use crate::probe::Call;

/// A UDP header and what follows; without a checksum, which IPv4 allows (RFC 768).
pub(super) fn udp_packet(to: SocketAddr, what: &[u8]) -> Vec<u8> {
    let port = to.port().to_be_bytes();
    let length = u16::try_from(what.len().saturating_add(8)).unwrap_or(u16::MAX);
    [&port[..], &port, &length.to_be_bytes(), &[0, 0], what].concat()
}

/// The same in an IPv4 packet from and to this host (RFC 791).
pub(super) fn ip_packet(to: SocketAddr, what: &[u8]) -> Vec<u8> {
    let udp = udp_packet(to, what);
    let length = u16::try_from(udp.len().saturating_add(20)).unwrap_or(u16::MAX);
    let mut head = vec![0x45, 0];
    head.extend_from_slice(&length.to_be_bytes());
    // No fragment, 64 hops, UDP, the checksum still 0.
    head.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    let sum = checksum(&head).to_be_bytes();
    let (before, rest) = head.split_at(10);
    let (_, after) = rest.split_at(2);
    [before, &sum, after, &udp].concat()
}

/// An ICMP echo request (RFC 792).
pub(super) fn echo(what: &[u8]) -> Vec<u8> {
    let with = |sum: [u8; 2]| [&[8, 0], &sum[..], &[0x43, 0x55, 0, 1], what].concat();
    with(checksum(&with([0, 0])).to_be_bytes())
}

/// The checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        let high = u32::from(pair.first().copied().unwrap_or(0));
        let low = u32::from(pair.get(1).copied().unwrap_or(0));
        sum = sum.wrapping_add(high << 8 | low);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff).wrapping_add(sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// struct sockaddr_ll of the loopback interface, which is the first of every network namespace.
pub(super) fn loopback() -> Vec<u8> {
    // ETH_P_IP in network order, ifi_index 1, no link address (packet(7)).
    let ip = 0x0800_u16.to_be_bytes();
    [
        &calls::family(libc::AF_PACKET)[..],
        &ip,
        &1_i32.to_ne_bytes(),
        &[0, 0, 0, 6],
        &[0; 8],
    ]
    .concat()
}

/// struct sockaddr_nl with these groups (netlink(7)).
pub(super) fn netlink_address(groups: u32) -> Vec<u8> {
    [
        &calls::family(libc::AF_NETLINK)[..],
        &[0; 6],
        &groups.to_ne_bytes(),
    ]
    .concat()
}

/// Asks the kernel one thing over netlink, and hears the answer.
pub(super) fn netlink(name: &str, protocol: i32, kind: u16, body: &[u8], flags: i32) -> Vec<Call> {
    let message = message(kind, body);
    vec![
        calls::socket(name, libc::AF_NETLINK, libc::SOCK_RAW, protocol),
        calls::send("sendto", &message, 0, &netlink_address(0)),
        calls::receive(0, flags),
    ]
}

/// struct nlmsghdr and what follows: a request for all there is.
fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let flags = match body.is_empty() {
        true => libc::NLM_F_REQUEST,
        false => libc::NLM_F_REQUEST | libc::NLM_F_DUMP,
    };
    let length = u32::try_from(body.len().saturating_add(16)).unwrap_or(16);
    [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &u16::try_from(flags).unwrap_or(0).to_ne_bytes(),
        &[1, 0, 0, 0, 0, 0, 0, 0],
        body,
    ]
    .concat()
}

/// Every socket of AF_UNIX with its name (sock_diag(7)).
pub(super) fn sock_diag() -> Vec<Call> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const UDIAG_SHOW_NAME: u32 = 1;
    // struct unix_diag_req: family, no protocol, every state, no inode, show, no cookie.
    let request = [
        &[u8::try_from(libc::AF_UNIX).unwrap_or(0), 0, 0, 0][..],
        &u32::MAX.to_ne_bytes(),
        &[0; 4],
        &UDIAG_SHOW_NAME.to_ne_bytes(),
        &u64::MAX.to_ne_bytes(),
    ]
    .concat();
    let mut calls = netlink(
        "NETLINK_SOCK_DIAG",
        libc::NETLINK_SOCK_DIAG,
        SOCK_DIAG_BY_FAMILY,
        &request,
        libc::MSG_DONTWAIT,
    );
    if let Some(last) = calls.last_mut() {
        last.again = 64;
        last.finds = Some("deputy.sock".into());
    }
    calls
}

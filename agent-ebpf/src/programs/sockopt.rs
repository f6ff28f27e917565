//! setsockopt(2): what programs need, and nothing that opens a door.
//!
//! `BPF_PROG_TYPE_CGROUP_SOCKOPT` at `BPF_CGROUP_SETSOCKOPT` (kernel/bpf/cgroup.c,
//! `__cgroup_bpf_run_filter_setsockopt`). A list of what is allowed: new kernels bring new options.
//! Refused so: TCP_FASTOPEN and TCP_FASTOPEN_CONNECT (a connection past connect(2)), TCP_ULP,
//! TCP_REPAIR, SO_ATTACH_FILTER and its like (programs in the kernel), SO_BINDTODEVICE, SO_MARK,
//! SO_ZEROCOPY, IP_TRANSPARENT, IP_OPTIONS and IPV6_RTHDR (another host than connect(2) named), the
//! levels of MPTCP, ALG, TLS, VSOCK and netlink. getsockopt(2) has no hook of ours. Attempts:
//! `direct/tcp-fast-open`, `direct/tcp-fast-open-connect`, `surface/socket-filter`,
//! `surface/socket-mark`.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::Hook;
use aya_ebpf::{macros::cgroup_sockopt, programs::SockoptContext};

use super::{
    ALLOW, DENY,
    events::{Asked, refused},
    session::account,
};

// Levels (include/linux/socket.h, asm-generic/socket.h).
const SOL_IP: i32 = 0;
const SOL_SOCKET: i32 = 1;
const SOL_TCP: i32 = 6;
const SOL_IPV6: i32 = 41;

#[cgroup_sockopt(setsockopt)]
pub(crate) fn custody_setsockopt(ctx: SockoptContext) -> i32 {
    // SAFETY: the kernel passes a valid context; the verifier checks each offset.
    let (level, option) = unsafe { ((*ctx.sockopt).level, (*ctx.sockopt).optname) };
    if is_needed(level, option) {
        return ALLOW;
    }
    let asked = Asked {
        family: level as u32,
        protocol: option as u32,
        ..Asked::default()
    };
    refused(Hook::SetSockOpt, account(), asked);
    DENY
}

/// socket(7), tcp(7), ip(7), ipv6(7).
#[inline(always)]
fn is_needed(level: i32, option: i32) -> bool {
    match level {
        SOL_SOCKET => is_plain(option),
        SOL_TCP => matches!(
            option,
            1 | // TCP_NODELAY
            3 | // TCP_CORK
            4 | // TCP_KEEPIDLE
            5 | // TCP_KEEPINTVL
            6 | // TCP_KEEPCNT
            7 | // TCP_SYNCNT
            8 | // TCP_LINGER2
            10 | // TCP_WINDOW_CLAMP
            12 | // TCP_QUICKACK
            18 | // TCP_USER_TIMEOUT
            25 // TCP_NOTSENT_LOWAT
        ),
        // The C library's resolver sets these two (resolv/res_enable_icmp.c); IPV6_V6ONLY only
        // narrows what a socket is.
        SOL_IP => option == 11,                // IP_RECVERR
        SOL_IPV6 => matches!(option, 25 | 26), // IPV6_RECVERR, IPV6_V6ONLY
        _ => false,
    }
}

#[inline(always)]
fn is_plain(option: i32) -> bool {
    matches!(
        option,
        1 | // SO_DEBUG
        2 | // SO_REUSEADDR
        5 | // SO_DONTROUTE
        6 | // SO_BROADCAST
        7 | // SO_SNDBUF
        8 | // SO_RCVBUF
        9 | // SO_KEEPALIVE
        10 | // SO_OOBINLINE
        12 | // SO_PRIORITY
        13 | // SO_LINGER
        15 | // SO_REUSEPORT
        16 | // SO_PASSCRED
        18 | // SO_RCVLOWAT
        20 | // SO_RCVTIMEO_OLD
        21 | // SO_SNDTIMEO_OLD
        29 | // SO_TIMESTAMP_OLD
        35 | // SO_TIMESTAMPNS_OLD
        42 | // SO_PEEK_OFF
        44 | // SO_LOCK_FILTER
        63 | // SO_TIMESTAMP_NEW
        64 | // SO_TIMESTAMPNS_NEW
        66 | // SO_RCVTIMEO_NEW
        67 | // SO_SNDTIMEO_NEW
        76 | // SO_PASSPIDFD
        83 // SO_PASSRIGHTS
    )
}

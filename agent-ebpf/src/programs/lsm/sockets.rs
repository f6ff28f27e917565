//! Sockets: AF_UNIX streams of the session's own, and nothing else.
//!
//! A socket belongs to the cgroup that it was made in (`cgroup_sk_alloc`, kernel/cgroup/cgroup.c).
//! The cgroup hooks judge by that one: a socket from outside would keep outside's rights for ever.
//! Here the task's session counts too.

use agent_ebpf::Hook;
use aya_ebpf::{macros::lsm, programs::LsmContext};

use super::{
    super::{
        events::{Asked, allowed},
        session::{Session, confined},
    },
    ALLOW, AT_SOCK_CGROUP, AT_SOCK_FAMILY, AT_SOCK_MARK, AT_SOCK_PROTOCOL, AT_SOCKET_FILE,
    AT_SOCKET_SK, MARK, Struct, deny_of, member, session_of,
};

const AF_UNIX: u16 = 1;
const SOCK_STREAM: u32 = 1;
const SOCK_SEQPACKET: u32 = 5;
/// `SOCK_TYPE_MASK` (include/linux/net.h): flags lie above.
const SOCK_TYPES: u32 = 0xf;

/// `int socket_create(int family, int type, int protocol, int kern)`, called by `__sock_create`
/// (net/socket.c), twice for a pair. Refuses vsock, netlink and every other family, and AF_UNIX
/// datagrams, which send to any path without connect(2). Attempts: `direct/vsock`,
/// `direct/netlink-route`, `direct/udp-send`, `direct/multipath-tcp`, `deputy/datagram-pair`.
#[lsm(hook = "socket_create")]
pub(crate) fn custody_socket_create(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let family: u32 = ctx.arg(0);
    let kind: u32 = ctx.arg(1);
    let protocol: u32 = ctx.arg(2);
    let kern: u32 = ctx.arg(3);
    let kind_alone = kind & SOCK_TYPES;
    if kern != 0 {
        return ALLOW;
    }
    if family == u32::from(AF_UNIX) && matches!(kind_alone, SOCK_STREAM | SOCK_SEQPACKET) {
        allowed(Hook::LsmSocketCreate, session.id);
        return ALLOW;
    }
    let asked = Asked {
        family,
        protocol,
        port: kind_alone,
        address: [0; 16],
    };
    deny_of(Hook::LsmSocketCreate, session, asked)
}

/// `int socket_bind(struct socket *sock, struct sockaddr *address, int addrlen)`, called by
/// `__sys_bind` (net/socket.c). Attempts: `direct/listen`.
#[lsm(hook = "socket_bind")]
pub(crate) fn custody_socket_bind(ctx: LsmContext) -> i32 {
    unix_alone(Hook::LsmSocketBind, ctx.arg(0))
}

/// `int socket_connect(struct socket *sock, struct sockaddr *address, int addrlen)`, called by
/// `__sys_connect_file` (net/socket.c), io_uring's too. Attempts: `direct/tcp`,
/// `fd/tcp-socket`.
#[lsm(hook = "socket_connect")]
pub(crate) fn custody_socket_connect(ctx: LsmContext) -> i32 {
    let result = unix_alone(Hook::LsmSocketConnect, ctx.arg(0));
    if let Some(session) = confined()
        && result == ALLOW
    {
        allowed(Hook::LsmSocketConnect, session.id);
    }
    result
}

/// `int socket_listen(struct socket *sock, int backlog)`, called by `__sys_listen` (net/socket.c).
/// It closes listen(2) without bind(2), which gets a port by itself. Attempt:
/// `direct/listen-autobind`.
#[lsm(hook = "socket_listen")]
pub(crate) fn custody_socket_listen(ctx: LsmContext) -> i32 {
    unix_alone(Hook::LsmSocketListen, ctx.arg(0))
}

/// `int socket_accept(struct socket *sock, struct socket *newsock)`, called by `do_accept`
/// (net/socket.c). No attempt of the suite goes this way.
#[lsm(hook = "socket_accept")]
pub(crate) fn custody_socket_accept(ctx: LsmContext) -> i32 {
    unix_alone(Hook::LsmSocketAccept, ctx.arg(0))
}

/// `int socket_sendmsg(struct socket *sock, struct msghdr *msg, int size)`, called by
/// `sock_sendmsg` (net/socket.c). Attempts: `client/inherited-connection`,
/// `fd/udp-socket`, `deputy/passed-connection`, `direct/tcp-fast-open`.
#[lsm(hook = "socket_sendmsg")]
pub(crate) fn custody_socket_sendmsg(ctx: LsmContext) -> i32 {
    own_alone(Hook::LsmSocketSendmsg, ctx.arg(0))
}

/// `int socket_recvmsg(struct socket *sock, struct msghdr *msg, int size, int flags)`, called by
/// `sock_recvmsg` (net/socket.c). splice(2) from a socket goes past it; `file_receive` and the
/// closing of descriptors keep such a socket out. Attempt: `client/inherited-connection`.
#[lsm(hook = "socket_recvmsg")]
pub(crate) fn custody_socket_recvmsg(ctx: LsmContext) -> i32 {
    own_alone(Hook::LsmSocketRecvmsg, ctx.arg(0))
}

/// `int unix_stream_connect(struct sock *sock, struct sock *other, struct sock *newsk)`, called by
/// `unix_stream_connect` (net/unix/af_unix.c). Who listens counts, not the path: the listener has
/// to be the session's own. Attempts: `deputy/unix-path`, `deputy/unix-abstract`,
/// `deputy/packets`.
#[lsm(hook = "unix_stream_connect")]
pub(crate) fn custody_unix_stream_connect(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let other: Struct = ctx.arg(1);
    if is_of(other, session) {
        allowed(Hook::LsmUnixStreamConnect, session.id);
        return ALLOW;
    }
    deny_of(Hook::LsmUnixStreamConnect, session, asked(other))
}

/// `int unix_may_send(struct socket *sock, struct socket *other)`, called by
/// `unix_dgram_sendmsg` and `unix_dgram_connect` (net/unix/af_unix.c). Attempt:
/// `deputy/datagram-pair`.
#[lsm(hook = "unix_may_send")]
pub(crate) fn custody_unix_may_send(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let other: Struct = ctx.arg(1);
    if is_own(other, session) {
        return ALLOW;
    }
    deny_of(Hook::LsmUnixMaySend, session, Asked::default())
}

/// A socket of AF_UNIX that is the session's own.
#[inline(always)]
fn unix_alone(hook: Hook, socket: Struct) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    if is_kernels(socket) {
        return ALLOW;
    }
    let sk: Struct = member(socket, &AT_SOCKET_SK);
    if sk.is_null() {
        return deny_of(hook, session, Asked::default());
    }
    let family: u16 = member(sk, &AT_SOCK_FAMILY);
    if family == AF_UNIX && is_of(sk, session) {
        return ALLOW;
    }
    deny_of(hook, session, asked(sk))
}

/// A socket that is the session's own.
#[inline(always)]
fn own_alone(hook: Hook, socket: Struct) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    if is_kernels(socket) || is_own(socket, session) {
        return ALLOW;
    }
    let sk: Struct = member(socket, &AT_SOCKET_SK);
    let asked = if sk.is_null() {
        Asked::default()
    } else {
        asked(sk)
    };
    deny_of(hook, session, asked)
}

/// The kernel's own sockets (of a network file system, say) have no file: no descriptor leads to
/// them.
#[inline(always)]
fn is_kernels(socket: Struct) -> bool {
    let file: Struct = member(socket, &AT_SOCKET_FILE);
    file.is_null()
}

/// Whether a socket was made in the session, or is custodyd's channel to custody-init.
#[inline(always)]
pub(super) fn is_own(socket: Struct, session: Session) -> bool {
    let sk: Struct = member(socket, &AT_SOCKET_SK);
    !sk.is_null() && is_of(sk, session)
}

#[inline(always)]
fn is_of(sk: Struct, session: Session) -> bool {
    if sk.is_null() {
        return false;
    }
    let family: u16 = member(sk, &AT_SOCK_FAMILY);
    let mark: u32 = member(sk, &AT_SOCK_MARK);
    if family == AF_UNIX && mark != 0 && mark == MARK.load() {
        return true;
    }
    // `struct sock_cgroup_data` begins with its cgroup (include/linux/cgroup-defs.h).
    let cgroup: Struct = member(sk, &AT_SOCK_CGROUP);
    session_of(cgroup) == session.id
}

#[inline(always)]
fn asked(sk: Struct) -> Asked {
    if sk.is_null() {
        return Asked::default();
    }
    let family: u16 = member(sk, &AT_SOCK_FAMILY);
    let protocol: u16 = member(sk, &AT_SOCK_PROTOCOL);
    Asked {
        family: u32::from(family),
        protocol: u32::from(protocol),
        ..Asked::default()
    }
}

// UNSAFETY: an eBPF program reads its context and calls helpers through raw pointers; the
// kernel's verifier proves every access before it loads the program.
#![expect(
    unsafe_code,
    reason = "eBPF contexts and helpers are raw pointers, proved by the verifier"
)]

mod device;
mod events;
mod lsm;
mod session;
mod sockopt;
mod syscalls;
mod sysctl;

use agent_ebpf::{
    Counts, EGRESS_MAX, Egress, Hook, OBJECTS_MAX, Object, ROLES_MAX, SESSIONS_MAX, family, mapped,
    protocol,
};
use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    helpers::generated::bpf_get_current_cgroup_id,
    macros::{cgroup_sock, cgroup_sock_addr, map},
    maps::{Array, HashMap, PerCpuArray, PerCpuHashMap, RingBuf},
    programs::{SockAddrContext, SockContext},
};

use events::{Asked, allowed, refused};
use session::account;

// Names as in `agent_ebpf::map`.
#[map]
static COUNTS: PerCpuHashMap<u64, Counts> =
    PerCpuHashMap::with_max_entries(SESSIONS_MAX, BPF_F_NO_PREALLOC);
#[map]
static DROPPED: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
#[map]
static EGRESS: HashMap<Egress, u8> = HashMap::with_max_entries(EGRESS_MAX, 0);
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);
#[map]
static FILTER: Array<u64> = Array::with_max_entries(1, 0);
#[map]
static OBJECTS: HashMap<Object, u8> = HashMap::with_max_entries(OBJECTS_MAX, 0);
#[map]
static ROLES: HashMap<u64, u8> = HashMap::with_max_entries(ROLES_MAX, 0);
#[map]
static SESSIONS: HashMap<u64, u8> = HashMap::with_max_entries(SESSIONS_MAX, BPF_F_NO_PREALLOC);

/// What a program answers: 0 makes the system call fail with EPERM.
const DENY: i32 = 0;
const ALLOW: i32 = 1;

// Socket types as the kernel numbers them (socket(2)).
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;

// A function must not be named as its ELF section: bpf-linker with LLVM 22 sees one symbol twice.

#[cgroup_sock(sock_create)]
pub(crate) fn custody_sock_create(ctx: SockContext) -> i32 {
    // SAFETY: the kernel passes a valid context; the verifier checks each offset.
    let (af, kind, proto) =
        unsafe { ((*ctx.sock).family, (*ctx.sock).type_, (*ctx.sock).protocol) };
    // SAFETY: bpf-helpers(7): takes nothing.
    let cgroup_id = unsafe { bpf_get_current_cgroup_id() };
    // SAFETY: an entry is one byte; a concurrent update is seen before or after, never half.
    let role = unsafe { ROLES.get(cgroup_id) }.copied().unwrap_or(0);
    let tcp = kind == SOCK_STREAM && proto == protocol::TCP && role & family::TCP != 0;
    let udp = kind == SOCK_DGRAM && proto == protocol::UDP && role & family::UDP != 0;
    if tcp || udp {
        allowed(Hook::SockCreate, cgroup_id);
        return ALLOW;
    }
    let asked = Asked {
        family: af,
        protocol: proto,
        ..Asked::default()
    };
    refused(Hook::SockCreate, account(), asked);
    DENY
}

#[cgroup_sock_addr(bind4)]
pub(crate) fn custody_bind4(ctx: SockAddrContext) -> i32 {
    refuse(&ctx, Hook::Bind4)
}

#[cgroup_sock_addr(bind6)]
pub(crate) fn custody_bind6(ctx: SockAddrContext) -> i32 {
    refuse(&ctx, Hook::Bind6)
}

#[cgroup_sock_addr(connect4)]
pub(crate) fn custody_connect4(ctx: SockAddrContext) -> i32 {
    decide(&ctx, Hook::Connect4)
}

#[cgroup_sock_addr(connect6)]
pub(crate) fn custody_connect6(ctx: SockAddrContext) -> i32 {
    decide(&ctx, Hook::Connect6)
}

#[cgroup_sock_addr(sendmsg4)]
pub(crate) fn custody_sendmsg4(ctx: SockAddrContext) -> i32 {
    decide(&ctx, Hook::SendMsg4)
}

#[cgroup_sock_addr(sendmsg6)]
pub(crate) fn custody_sendmsg6(ctx: SockAddrContext) -> i32 {
    decide(&ctx, Hook::SendMsg6)
}

/// Denies whatever is asked.
#[inline(always)]
fn refuse(ctx: &SockAddrContext, hook: Hook) -> i32 {
    let (af, key) = destination(ctx, hook);
    deny(hook, af, key)
}

/// Allows what the map names, denies everything else.
#[inline(always)]
fn decide(ctx: &SockAddrContext, hook: Hook) -> i32 {
    let (af, key) = destination(ctx, hook);
    // SAFETY: only whether there is an entry counts, not what stands in it.
    if unsafe { EGRESS.get(key) }.is_some() {
        allowed(hook, key.cgroup_id);
        return ALLOW;
    }
    deny(hook, af, key)
}

/// The socket's family, and where the caller wants to go as a key of the map.
#[inline(always)]
fn destination(ctx: &SockAddrContext, hook: Hook) -> (u32, Egress) {
    let addr = ctx.sock_addr;
    // SAFETY: the kernel passes a valid context; the verifier checks each offset (and that the
    // IPv6 words are read at an IPv6 hook only).
    let (af, proto, port) = unsafe { ((*addr).family, (*addr).protocol, (*addr).user_port) };
    let address = match hook {
        Hook::Bind4 | Hook::Connect4 | Hook::SendMsg4 => {
            // SAFETY: as above.
            let v4 = unsafe { (*addr).user_ip4 };
            mapped(v4.to_ne_bytes()) // in network order already
        }
        _ => {
            // SAFETY: as above; word by word, as the verifier wants it.
            let words = unsafe {
                [
                    core::ptr::read_volatile(&raw const (*addr).user_ip6[0]),
                    core::ptr::read_volatile(&raw const (*addr).user_ip6[1]),
                    core::ptr::read_volatile(&raw const (*addr).user_ip6[2]),
                    core::ptr::read_volatile(&raw const (*addr).user_ip6[3]),
                ]
            };
            let [a, b, c, d] = words.map(u32::to_ne_bytes);
            [
                a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1],
                d[2], d[3],
            ]
        }
    };
    let key = Egress {
        // SAFETY: bpf-helpers(7): takes nothing.
        cgroup_id: unsafe { bpf_get_current_cgroup_id() },
        address,
        protocol: proto,
        port: u16::from_be(port as u16),
        zero: 0,
    };
    (af, key)
}

#[inline(always)]
fn deny(hook: Hook, af: u32, key: Egress) -> i32 {
    let asked = Asked {
        family: af,
        protocol: key.protocol,
        port: key.port as u32,
        address: key.address,
    };
    refused(hook, account(), asked);
    DENY
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

// LSM programs need a licence that is compatible with the GPL; the crate itself is Apache-2.0.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

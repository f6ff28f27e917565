//! BPF LSM: the second lock on each door (Documentation/bpf/prog_lsm.rst).
//!
//! | module | what |
//! |---|---|
//! | [`exec`] | what is executed |
//! | [`files`] | credential store, daemon state, block devices, setuid bits, passed descriptors |
//! | [`kernel`] | bpf(2), perf, mounts, user namespaces, io_uring |
//! | [`object`] | which inode a protected folder is or holds |
//! | [`sockets`] | families, and sockets of another session |
//! | [`tasks`] | ptrace and signals across the border of a session |
//!
//! Prototypes are in the kernel's include/linux/lsm_hook_defs.h, callers in security/security.c;
//! 0 lets through, a negative errno refuses. A program is called for every task of the machine and
//! first asks whose the task is: outside the agents' cgroup it lets through at once.
//!
//! **Invariant:** inside, whatever cannot be told refuses: a pointer that is null, a read that
//! fails, an entry that is missing. A program that fails at its load is not attached, and the
//! layer's status says so; one that is attached cannot fail later (the verifier's proof).

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

mod exec;
mod files;
mod kernel;
mod object;
mod sockets;
mod tasks;

use agent_ebpf::{Hook, offset_globals};
use aya_ebpf::{Global, cty::c_void, helpers::generated::bpf_probe_read_kernel};

use super::{
    events::{Asked, refused},
    session::{Session, level},
};

offset_globals!();

// Names as in `agent_ebpf::global`.
#[unsafe(no_mangle)]
static MARK: Global<u32> = Global::new(0);

/// A struct of the kernel's.
type Struct = *const c_void;

const ALLOW: i32 = 0;
const EPERM: i32 = -1;

/// Refuses and says so.
#[inline(always)]
fn deny(hook: Hook, session: Session) -> i32 {
    deny_of(hook, session, Asked::default())
}

#[inline(always)]
fn deny_of(hook: Hook, session: Session, asked: Asked) -> i32 {
    refused(hook, session.id, asked);
    EPERM
}

/// The member at `at` of `of`, which is not null and not the result of arithmetic.
#[inline(always)]
fn member<T: Copy>(of: Struct, at: &Global<u32>) -> T {
    // SAFETY: `of` is a kernel pointer whose type the verifier knows, `at` a constant of the
    // frozen map: the verifier checks that a member of this size lies there. A pointer that has
    // gone stale reads as zero (BPF_PROBE_MEM).
    unsafe { core::ptr::read_volatile(of.byte_add(at.load() as usize).cast::<T>()) }
}

/// A struct that lies in `of` at `at`.
#[inline(always)]
fn inside(of: Struct, at: &Global<u32>) -> Struct {
    // SAFETY: arithmetic alone, within the struct.
    unsafe { of.byte_add(at.load() as usize) }
}

/// The session that a cgroup belongs to: its ancestor at a session's level, or itself. 0 if it
/// lies higher. Only an id that equals a known session's means one.
#[inline(always)]
fn session_of(cgroup: Struct) -> u64 {
    if cgroup.is_null() {
        return 0;
    }
    let own: i32 = member(cgroup, &AT_CGROUP_LEVEL);
    if own < level() {
        return 0;
    }
    if own == level() {
        let kn: Struct = member(cgroup, &AT_CGROUP_KN);
        if kn.is_null() {
            return 0;
        }
        return member(kn, &AT_KERNFS_ID);
    }
    // The flexible array of ancestors is no member that the verifier follows.
    let place = AT_CGROUP_ANCESTORS.load() as usize + level() as usize * size_of::<Struct>();
    // SAFETY: arithmetic alone; the reads below are checked by the helper.
    let place = unsafe { cgroup.byte_add(place) };
    let ancestor: u64 = read(place);
    let kn: u64 = read(at(ancestor, &AT_CGROUP_KN));
    read(at(kn, &AT_KERNFS_ID))
}

#[inline(always)]
fn at(of: u64, member: &Global<u32>) -> Struct {
    core::ptr::without_provenance(of.wrapping_add(u64::from(member.load())) as usize)
}

/// Eight bytes at a kernel address; 0 if it has none.
#[inline(always)]
fn read(from: Struct) -> u64 {
    let mut value = 0_u64;
    // SAFETY: bpf-helpers(7): copies eight bytes, or zeroes and fails.
    let failed = unsafe { bpf_probe_read_kernel((&raw mut value).cast(), 8, from) };
    if failed == 0 { value } else { 0 }
}

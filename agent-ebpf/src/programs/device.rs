//! Device nodes: those of the session's own `/dev`.
//!
//! `BPF_PROG_TYPE_CGROUP_DEVICE` (kernel/bpf/cgroup.c, `__cgroup_bpf_check_dev_permission`, called
//! by `devcgroup_check_permission` for open(2) and mknod(2) of a device). Attempts:
//! `workspace/device`, `surface/mknod-block`.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::Hook;
use aya_ebpf::{macros::cgroup_device, programs::DeviceContext};

use super::{
    ALLOW, DENY,
    events::{Asked, refused},
    session::{account, current},
};

// `struct bpf_cgroup_dev_ctx` (include/uapi/linux/bpf.h): the type below, the access above.
const BLOCK: u32 = 1;
const MKNOD: u32 = 1;

/// An agent opens null, zero, full, random and urandom, its terminal and its own ptys. It makes no
/// node; custody-launch makes these.
#[cgroup_device]
pub(crate) fn custody_device_agent(ctx: DeviceContext) -> i32 {
    let (kind, access, major, minor) = asked(&ctx);
    let terminal = matches!((major, minor), (5, 0) | (5, 2)) || major == 136;
    let open = kind != BLOCK && (is_harmless(major, minor) || terminal);
    let makes = access & MKNOD != 0;
    if open && (!makes || current().is_some_and(|session| session.is_launching())) {
        return ALLOW;
    }
    deny(kind, access, major, minor)
}

/// A program of ours opens null, zero, full, random and urandom, and makes no node.
#[cgroup_device]
pub(crate) fn custody_device_service(ctx: DeviceContext) -> i32 {
    let (kind, access, major, minor) = asked(&ctx);
    if kind != BLOCK && access & MKNOD == 0 && is_harmless(major, minor) {
        return ALLOW;
    }
    deny(kind, access, major, minor)
}

#[inline(always)]
fn asked(ctx: &DeviceContext) -> (u32, u32, u32, u32) {
    // SAFETY: the kernel passes a valid context; the verifier checks each offset.
    let (access, major, minor) = unsafe {
        (
            (*ctx.device).access_type,
            (*ctx.device).major,
            (*ctx.device).minor,
        )
    };
    (access & 0xffff, access >> 16, major, minor)
}

/// devices.txt of the kernel.
#[inline(always)]
fn is_harmless(major: u32, minor: u32) -> bool {
    major == 1 && matches!(minor, 3 | 5 | 7 | 8 | 9)
}

#[inline(always)]
fn deny(kind: u32, access: u32, major: u32, minor: u32) -> i32 {
    let mut asked = Asked {
        family: kind,
        protocol: access,
        port: minor,
        address: [0; 16],
    };
    asked.address[0] = major as u8;
    asked.address[1] = (major >> 8) as u8;
    refused(Hook::Device, account(), asked);
    DENY
}

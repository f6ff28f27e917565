//! Sysctls: read, never written.
//!
//! `BPF_PROG_TYPE_CGROUP_SYSCTL` (kernel/bpf/cgroup.c, `__cgroup_bpf_run_filter_sysctl`, called by
//! `proc_sys_call_handler` for every read and write below /proc/sys). Attempt: `surface/sysctl`.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::Hook;
use aya_ebpf::{macros::cgroup_sysctl, programs::SysctlContext};

use super::{
    ALLOW, DENY,
    events::{Asked, refused},
    session::account,
};

#[cgroup_sysctl]
pub(crate) fn custody_sysctl(ctx: SysctlContext) -> i32 {
    // SAFETY: the kernel passes a valid context; the verifier checks the offset.
    if unsafe { (*ctx.sysctl).write } == 0 {
        return ALLOW;
    }
    refused(Hook::Sysctl, account(), Asked::default());
    DENY
}

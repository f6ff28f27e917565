//! What the programs say and count.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::{Count, Event, Hook, PATH_MAX};
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_uid_gid,
    generated::{bpf_ktime_get_boot_ns, bpf_probe_read_kernel_str},
};

use super::{COUNTS, DROPPED, EVENTS};

/// What a hook was asked for, in the fields of an [`Event`].
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    pub(super) family: u32,
    pub(super) protocol: u32,
    pub(super) port: u32,
    pub(super) address: [u8; 16],
}

/// Adds one to a count of the cgroup `id`, on this CPU.
#[inline(always)]
pub(super) fn count(id: u64, what: Count) {
    if let Some(counts) = COUNTS.get_ptr_mut(id) {
        // SAFETY: the kernel gave the pointer; the value is this CPU's alone, and every slot is
        // in bounds (a const assertion beside `Counts`).
        unsafe { (*counts)[what.slot()] += 1 };
    }
}

/// Counts what was let through.
#[inline(always)]
pub(super) fn allowed(hook: Hook, id: u64) {
    count(id, Count::Allowed(hook));
}

/// Counts a refusal and writes its event. A full ring costs the event, never the refusal.
#[inline(always)]
pub(super) fn refused(hook: Hook, id: u64, asked: Asked) {
    refused_of(hook, id, asked, core::ptr::null());
}

/// The same, with a name: a NUL-terminated string of the kernel's, or null.
#[inline(always)]
pub(super) fn refused_of(hook: Hook, id: u64, asked: Asked, name: *const u8) {
    count(id, Count::Refused(hook));
    let Some(mut entry) = EVENTS.reserve::<Event>(0) else {
        count(id, Count::Lost);
        if let Some(lost) = DROPPED.get_ptr_mut(0) {
            // SAFETY: the kernel gave the pointer; the value is this CPU's alone.
            unsafe { *lost += 1 };
        }
        return;
    };
    let event = Event {
        // SAFETY: bpf-helpers(7): takes nothing.
        boot_ns: unsafe { bpf_ktime_get_boot_ns() },
        cgroup_id: id,
        tgid: (bpf_get_current_pid_tgid() >> 32) as u32,
        uid: bpf_get_current_uid_gid() as u32,
        comm: bpf_get_current_comm().unwrap_or_default(),
        hook: hook.number(),
        family: asked.family,
        protocol: asked.protocol,
        port: asked.port,
        address: asked.address,
        path: [0; PATH_MAX],
        zero: 0,
    };
    entry.write(event);
    if !name.is_null() {
        let to = entry.as_mut_ptr();
        // SAFETY: bpf-helpers(7): at most PATH_MAX bytes go to `path`, a NUL the last of them;
        // a wrong address of the kernel's costs the name alone.
        unsafe {
            let path = (&raw mut (*to).path).cast();
            let _len = bpf_probe_read_kernel_str(path, PATH_MAX as u32, name.cast());
        }
    }
    entry.submit(0);
}

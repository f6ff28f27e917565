//! System calls, counted. Evidence runs alone load it: it taxes every system call of the machine.
//!
//! Raw tracepoint `sys_enter` (include/trace/events/syscalls.h). It sees and prevents nothing.

use agent_ebpf::Count;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use super::{events::count, session::current};

#[raw_tracepoint(tracepoint = "sys_enter")]
pub(crate) fn custody_sys_enter(_ctx: RawTracePointContext) -> i32 {
    if let Some(session) = current() {
        count(session.id, Count::Syscalls);
    }
    0
}

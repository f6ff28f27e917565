//! Tasks: nothing crosses the border of a session.

use agent_ebpf::Hook;
use aya_ebpf::{macros::lsm, programs::LsmContext};

use super::{
    super::session::{Session, confined},
    ALLOW, AT_CSS_SET_CGROUP, AT_TASK_CGROUPS, Struct, deny, member, session_of,
};

/// `PTRACE_MODE_ATTACH` (include/linux/ptrace.h).
const ATTACH: u32 = 2;

/// `int ptrace_access_check(struct task_struct *child, unsigned int mode)`, called by
/// `__ptrace_may_access` (kernel/ptrace.c): ptrace(2), process_vm_readv(2), pidfd_getfd(2),
/// /proc/PID/mem. Reading (/proc/PID/environ, fd, exe) stays inside the session; attaching is
/// profile `dev`'s alone. Attempts: `memory/ptrace`, `surface/ptrace-traceme`,
/// `memory/process-vm-readv`, `memory/pidfd-getfd`.
#[lsm(hook = "ptrace_access_check")]
pub(crate) fn custody_ptrace_access(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let mode: u32 = ctx.arg(1);
    let may = mode & ATTACH == 0 || session.may_trace();
    if may && is_of(ctx.arg(0), session) {
        return ALLOW;
    }
    deny(Hook::LsmPtraceAccess, session)
}

/// `int ptrace_traceme(struct task_struct *parent)`, called by `ptrace_traceme` (kernel/ptrace.c).
/// Attempt: `surface/ptrace-traceme`.
#[lsm(hook = "ptrace_traceme")]
pub(crate) fn custody_ptrace_traceme(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    if session.may_trace() && is_of(ctx.arg(0), session) {
        return ALLOW;
    }
    deny(Hook::LsmPtraceTraceme, session)
}

/// `int task_kill(struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred
/// *cred)`, called by `check_kill_permission` (kernel/signal.c) for what a process sends, not for
/// what the kernel does. Attempts: `process/kill`, `process/pidfd-send-signal`.
#[lsm(hook = "task_kill")]
pub(crate) fn custody_task_kill(ctx: LsmContext) -> i32 {
    inside(Hook::LsmTaskKill, ctx.arg(0))
}

/// `int task_setioprio(struct task_struct *p, int ioprio)`, called by `set_task_ioprio`
/// (block/blk-ioc.c). Attempt: `process/priority`.
#[lsm(hook = "task_setioprio")]
pub(crate) fn custody_task_setioprio(ctx: LsmContext) -> i32 {
    inside(Hook::LsmTaskSetioprio, ctx.arg(0))
}

/// `int task_setnice(struct task_struct *p, int nice)`, called by `set_one_prio` (kernel/sys.c).
/// Attempt: `process/priority`.
#[lsm(hook = "task_setnice")]
pub(crate) fn custody_task_setnice(ctx: LsmContext) -> i32 {
    inside(Hook::LsmTaskSetnice, ctx.arg(0))
}

/// `int task_setrlimit(struct task_struct *p, unsigned int resource, struct rlimit *new_rlim)`,
/// called by `do_prlimit` (kernel/sys.c). Landlock leaves it open. Attempt: `process/limits`.
#[lsm(hook = "task_setrlimit")]
pub(crate) fn custody_task_setrlimit(ctx: LsmContext) -> i32 {
    inside(Hook::LsmTaskSetrlimit, ctx.arg(0))
}

/// `int task_setscheduler(struct task_struct *p)`, called by `sched_setaffinity` and
/// `__sched_setscheduler` (kernel/sched/syscalls.c). Landlock leaves it open. Attempt:
/// `process/affinity`.
#[lsm(hook = "task_setscheduler")]
pub(crate) fn custody_task_setscheduler(ctx: LsmContext) -> i32 {
    inside(Hook::LsmTaskSetscheduler, ctx.arg(0))
}

#[inline(always)]
fn inside(hook: Hook, task: Struct) -> i32 {
    match confined() {
        Some(session) if !is_of(task, session) => deny(hook, session),
        Some(_) | None => ALLOW,
    }
}

/// Whether a task is in the session's cgroup or below it.
#[inline(always)]
fn is_of(task: Struct, session: Session) -> bool {
    let set: Struct = member(task, &AT_TASK_CGROUPS);
    if set.is_null() {
        return false;
    }
    let cgroup: Struct = member(set, &AT_CSS_SET_CGROUP);
    session_of(cgroup) == session.id
}

//! The border of a session.

use std::process::{Child, Command};

use agent_ebpf::Hook;
use serial_test::file_serial;

use crate::arena::{Arena, Place};

/// A process in no session.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("/bin/sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A child of the program's own, in the same session.
const CHILD: &str = "p = os.fork()\n\
    if p == 0:\n\
    \x20   signal.pause()\n\
    def done(answer):\n\
    \x20   os.kill(p, signal.SIGKILL); os.waitpid(p, 0); print(answer)\n";

/// From 6.15 on whoever has CAP_PERFMON or CAP_SYS_ADMIN is not asked for more (`may_access_mm`,
/// kernel/fork.c). No session has a capability: root without these two is looked at as it is.
const ENVIRON: &str = "without(21, 38) or os.open('/proc/%d/environ' % p, os.O_RDONLY)";

const SEIZE: &str = "call(101, 0x4206, p, 0, 0)";

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn no_signal_priority_limit_or_look_crosses_the_border() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let bystander = Bystander::new();
    let pid = bystander.pid();
    for (hook, what) in [
        (Hook::LsmTaskKill, "os.kill(p, 0)"),
        (
            Hook::LsmTaskKill,
            "signal.pidfd_send_signal(os.pidfd_open(p), 0)",
        ),
        (
            Hook::LsmTaskSetnice,
            "os.setpriority(os.PRIO_PROCESS, p, 1)",
        ),
        (
            Hook::LsmTaskSetrlimit,
            "call(302, p, 4, struct.pack('QQ', 0, 0), None)",
        ),
        (Hook::LsmTaskSetscheduler, "os.sched_setaffinity(p, {0})"),
        (Hook::LsmTaskSetioprio, "call(251, 1, p, 2 << 13)"),
        (Hook::LsmPtraceAccess, SEIZE),
        (
            Hook::LsmPtraceAccess,
            "call(310, p, struct.pack('PN', ctypes.addressof(b), 8), 1, struct.pack('PN', 4096, 8), 1, 0)",
        ),
        (Hook::LsmPtraceAccess, "call(438, os.pidfd_open(p), 0, 0)"),
        (
            Hook::LsmPtraceAccess,
            "os.open('/proc/%d/mem' % p, os.O_RDONLY)",
        ),
        (Hook::LsmPtraceAccess, ENVIRON),
        (Hook::LsmPtraceAccess, "os.readlink('/proc/%d/exe' % p)"),
    ] {
        arena.refused(
            hook,
            &format!("p = {pid}\nb = mapped(8)\nprint(tried(lambda: {what}))"),
        );
    }
    for what in [
        "os.kill(p, 0)",
        "os.setpriority(os.PRIO_PROCESS, p, 1)",
        "os.sched_setaffinity(p, {0})",
        "os.readlink('/proc/%d/exe' % p)",
    ] {
        arena.reached(&format!("{CHILD}done(tried(lambda: {what}))"));
    }
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn inside_a_session_only_profile_dev_traces_and_never_across_the_border() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let own = format!("{CHILD}done(tried(lambda: {SEIZE}))");
    arena.refused(Hook::LsmPtraceAccess, &own);
    assert_eq!(arena.run(Place::Tracing, &own, &[]), "reached");
    let traceme = "p = os.fork()\n\
        if p == 0:\n\
        \x20   print(tried(lambda: call(101, 0, 0, 0, 0)), flush=True); os._exit(0)\n\
        os.waitpid(p, 0)";
    arena.refused(Hook::LsmPtraceTraceme, traceme);
    assert_eq!(arena.run(Place::Tracing, traceme, &[]), "reached");

    let bystander = Bystander::new();
    let across = format!("p = {}\nprint(tried(lambda: {SEIZE}))", bystander.pid());
    assert_eq!(arena.run(Place::Tracing, &across, &[]), "EPERM");
}

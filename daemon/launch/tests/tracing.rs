//! The profile `dev`: a process of a session may look into another of the same session, and into
//! nothing else. Each refusal stands beside the arm in which the same call succeeds.

#[cfg(test)]
mod support;

use std::{path::Path, process::Command};

use custody_wire::{layer::Layer, profile::Profile};
use support::{Outside, Start, can_run};

/// `traced(pid)` tries what a debugger does with a process, and prints each answer: `ok` or the
/// name of its errno.
const TRACED: &str = r"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]
class Iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
def traced(pid, address, fd):
    own = ctypes.create_string_buffer(8)
    here, there = Iovec(ctypes.addressof(own), 8), Iovec(address, 8)
    print('readv', call(310, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0), own.value)
    print('writev', call(311, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    print('kcmp', call(312, os.getpid(), pid, 0, 0, 0))
    pidfd = libc.syscall(434, pid, 0)
    print('getfd', call(438, pidfd, fd, 0) if pidfd >= 0 else 'no pidfd')
    attached = call(101, 16, pid, 0, 0)
    print('attach', attached)
    if attached == 'ok':
        os.waitpid(pid, 0x40000000)
        print('detach', call(101, 17, pid, 0, 0))
";

/// A child of its own, and pid 1.
const INSIDE: &str = r"
secret = ctypes.create_string_buffer(b'secret!')
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(r, 1)
    os._exit(0)
traced(pid, ctypes.addressof(secret), r)
os.write(w, b'x')
os.waitpid(pid, 0)
print('traceme', call(101, 0, 0, 0, 0))
print('init')
traced(1, ctypes.addressof(secret), 3)
";

/// What a process of the same uid outside is to be asked for.
const OUTSIDE: &str = "traced(int(sys.argv[1]), 0x1000, 0)";

fn inside(script: &str) -> Start {
    Start::python(&format!("{TRACED}{script}"))
}

#[test]
fn in_dev_a_process_looks_into_its_child_but_not_into_init() {
    if !can_run() {
        return;
    }
    let ended = inside(INSIDE).profile(Profile::Dev).run();
    assert_eq!(
        ended.text(),
        "readv ok b'secret!'\nwritev ok\nkcmp ok\ngetfd ok\nattach ok\ndetach ok\ntraceme ok\n\
         init\nreadv EPERM b''\nwritev EPERM\nkcmp EPERM\ngetfd EPERM\nattach EPERM",
    );
}

#[test]
fn in_every_other_profile_it_looks_into_nothing() {
    if !can_run() {
        return;
    }
    for profile in [Profile::Standard, Profile::Hardened] {
        let ended = inside(INSIDE).profile(profile).run();
        let refused = "readv EPERM b''\nwritev EPERM\nkcmp EPERM\ngetfd EPERM\nattach EPERM";
        let wanted = format!("{refused}\ntraceme EPERM\ninit\n{refused}");
        assert_eq!(ended.text(), wanted, "{profile:?}");
    }
}

/// What a session answers that tries to trace it.
#[cfg(test)]
fn traced_by(outside: &Outside, without: &[Layer]) -> String {
    let script = OUTSIDE.replace("sys.argv[1]", &outside.0.id().to_string());
    let start = inside(&script).profile(Profile::Dev).without(without);
    start.run().text().to_owned()
}

#[test]
fn in_dev_too_nothing_outside_is_traced_and_two_locks_hold_it() {
    if !can_run() {
        return;
    }
    let outside = Outside::start();
    let gone = traced_by(&outside, &[]);
    assert_eq!(
        gone,
        "readv ESRCH b''\nwritev ESRCH\nkcmp ESRCH\ngetfd no pidfd\nattach ESRCH"
    );
    let landlocked = traced_by(&outside, &[Layer::PidNamespace]);
    assert_eq!(
        landlocked,
        "readv EPERM b''\nwritev EPERM\nkcmp EPERM\ngetfd EPERM\nattach EPERM"
    );
    // The control: with neither it is reached.
    let reached = traced_by(&outside, &[Layer::PidNamespace, Layer::Landlock]);
    assert!(reached.contains("kcmp ok"), "{reached}");
    assert!(reached.contains("attach ok"), "{reached}");
}

#[test]
fn gdb_debugs_a_program_in_dev_and_not_in_standard() {
    if !can_run() {
        return;
    }
    if !Path::new("/usr/bin/gdb").exists() {
        println!("not attempted: gdb is not installed");
        return;
    }
    let run = |profile| {
        let script = "gdb -nx -batch -ex starti -ex 'printf \"at %d\\n\", $pc != 0' \
            -ex continue --args /bin/echo debugged 2>&1; true";
        Start::sh(script).profile(profile).run().text().to_owned()
    };
    let dev = run(Profile::Dev);
    for wanted in ["at 1", "\ndebugged", "exited normally"] {
        assert!(dev.contains(wanted), "{wanted} in {dev}");
    }
    let standard = run(Profile::Standard);
    assert!(!standard.contains("debugged\n"), "{standard}");
    assert!(standard.contains("not permitted"), "{standard}");
}

#[test]
fn a_leak_sanitizer_finds_its_leak_in_dev() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir_in("/opt").unwrap();
    let (source, program) = (folder.path().join("leak.c"), folder.path().join("leak"));
    std::fs::write(
        &source,
        "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(77); p = 0; return 0; }\n",
    )
    .unwrap();
    let compiled = Command::new("cc")
        .args(["-O0", "-fsanitize=leak", "-o"])
        .args([&program, &source])
        .output();
    if !compiled
        .as_ref()
        .is_ok_and(|output| output.status.success())
    {
        println!("not attempted: no C compiler with -fsanitize=leak: {compiled:?}");
        return;
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let run = |profile| {
        let script = format!("{} 2>&1; true", program.display());
        let mut start = Start::sh(&script).profile(profile);
        start.read_only = vec![folder.path().into()];
        start.run().text().to_owned()
    };
    let dev = run(Profile::Dev);
    assert!(dev.contains("leak of 77 byte(s)"), "{dev}");
    let standard = run(Profile::Standard);
    assert!(!standard.contains("leak of 77"), "{standard}");
    assert!(standard.contains("LeakSanitizer"), "{standard}");
}

//! What is protected, setuid bits, devices.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
};

use agent_ebpf::Hook;
use serial_test::file_serial;

use crate::arena::{Arena, Place};

fn open(path: &str) -> String {
    format!("print(tried(lambda: os.close(os.open({path}, os.O_RDONLY))))")
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_is_protected_is_not_opened_by_any_name() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let folder = arena.folder();
    let name = |name: &str| format!("'{}'", folder.join(name).display());
    for path in [
        "state",
        "state/deep",
        "state/deep/deeper/file",
        "credential",
    ] {
        arena.refused(Hook::LsmFileOpen, &open(&name(path)));
    }
    // A folder beside it is free.
    fs::write(folder.join("free"), "").unwrap();
    arena.reached(&open(&name("free")));

    // A link from elsewhere, a folder above that is renamed, a mount of what lies below.
    fs::hard_link(folder.join("credential"), folder.join("link")).unwrap();
    arena.refused(Hook::LsmFileOpen, &open(&name("link")));
    let moved = folder.with_extension("moved");
    fs::rename(&folder, &moved).unwrap();
    let there = format!("'{}'", moved.join("state/deep/deeper/file").display());
    arena.refused(Hook::LsmFileOpen, &open(&there));
    fs::rename(&moved, &folder).unwrap();
    // Bound while the launch is at work, looked at afterwards.
    let answer = arena.run_sealed_between(
        &format!(
            "libc.unshare(0x20000)\n\
             libc.mount(b'none', b'/', None, 0x44000, None)\n\
             call(165, b'{}', b'/mnt', None, 0x1000, None)",
            folder.join("state/deep").display()
        ),
        "print(tried(lambda: os.open('/mnt/deeper/file', os.O_RDONLY)))",
    );
    assert_eq!(answer, "EPERM");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_credential_that_is_replaced_is_protected_again_and_its_old_inode_is_free() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let folder = arena.folder();
    let name = |name: &str| format!("'{}'", folder.join(name).display());
    fs::rename(folder.join("credential"), folder.join("old")).unwrap();
    fs::write(folder.join("credential"), "another obvious fake").unwrap();
    arena.programs.protect_again();
    arena.refused(Hook::LsmFileOpen, &open(&name("credential")));
    arena.refused(Hook::LsmFileOpen, &open(&name("state/deep")));
    arena.reached(&open(&name("old")));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_is_protected_is_not_changed_made_moved_or_removed() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let folder = arena.folder().display().to_string();
    let tried =
        |what: &str| format!("d = '{folder}'\nn = str(os.getpid())\nprint(tried(lambda: {what}))");
    for (hook, what) in [
        (
            Hook::LsmInodeCreate,
            "os.open(d + '/state/' + n, os.O_CREAT | os.O_WRONLY, 0o600)",
        ),
        (Hook::LsmInodeMkdir, "os.mkdir(d + '/state/deep/' + n)"),
        (Hook::LsmInodeMknod, "os.mkfifo(d + '/state/' + n)"),
        (Hook::LsmInodeSymlink, "os.symlink('/', d + '/state/' + n)"),
        (
            Hook::LsmInodeLink,
            "os.link(d + '/credential', d + '/' + n)",
        ),
        (
            Hook::LsmInodeLink,
            "os.link(d + '/free', d + '/state/' + n)",
        ),
        (
            Hook::LsmInodeRename,
            "(os.rename(d + '/state/deep', d + '/out'), os.rename(d + '/out', d + '/state/deep'))",
        ),
        (
            Hook::LsmInodeRename,
            "(os.rename(d + '/free', d + '/state/in'), os.rename(d + '/state/in', d + '/free'))",
        ),
        (
            Hook::LsmInodeRename,
            "(os.rename(d + '/state', d + '/out'), os.rename(d + '/out', d + '/state'))",
        ),
        (Hook::LsmInodeSetattr, "os.utime(d + '/state/deep')"),
        (Hook::LsmInodeSetattr, "os.chown(d + '/credential', 0, 0)"),
        (
            Hook::LsmInodeSetattr,
            "os.truncate(d + '/state/deep/deeper/file', 5)",
        ),
        (Hook::LsmPathChmod, "os.chmod(d + '/credential', 0o600)"),
    ] {
        fs::write(arena.folder().join("free"), "").unwrap();
        arena.refused(hook, &tried(what));
    }
    // Removed by nobody before: each has its own.
    for place in [Place::Session, Place::Below] {
        for (hook, what) in [
            (
                Hook::LsmInodeUnlink,
                "os.unlink(d + '/state/deep/deeper/file')",
            ),
            (Hook::LsmInodeRmdir, "os.rmdir(d + '/state/empty')"),
        ] {
            fs::create_dir_all(arena.folder().join("state/empty")).unwrap();
            assert_eq!(arena.run(place, &tried(what), &[]), "EPERM");
            let events = arena.events();
            assert!(events.iter().any(|event| event.hook() == Some(hook)));
        }
    }
    for what in [
        "os.unlink(d + '/state/deep/deeper/file')",
        "os.rmdir(d + '/state/empty')",
    ] {
        assert_eq!(arena.run(Place::Outside, &tried(what), &[]), "reached");
    }
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn no_setuid_bit_is_made_or_executed_and_other_modes_are_free() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let folder = arena.folder().display().to_string();
    let tried = |what: &str| {
        format!(
            "d = '{folder}/'\nos.umask(0)\nopen(d + 'own', 'w').close()\n\
             n = d + str(os.getpid())\nprint(tried(lambda: {what}))"
        )
    };
    for mode in ["0o4755", "0o2755", "0o6777"] {
        arena.refused(
            Hook::LsmPathChmod,
            &tried(&format!("os.chmod(d + 'own', {mode})")),
        );
        arena.refused(
            Hook::LsmPathChmod,
            &tried(&format!("os.fchmod(os.open(d + 'own', os.O_RDWR), {mode})")),
        );
        arena.refused(
            Hook::LsmInodeCreate,
            &tried(&format!("os.open(n, os.O_CREAT | os.O_WRONLY, {mode})")),
        );
        arena.refused(
            // mknod(2) of a regular file is a creation.
            Hook::LsmInodeCreate,
            &tried(&format!("call(133, n.encode(), 0o100000 | {mode}, 0)")),
        );
        arena.refused(
            Hook::LsmFileOpen,
            &tried(&format!("os.open(d, os.O_TMPFILE | os.O_WRONLY, {mode})")),
        );
    }
    for free in [
        "os.chmod(d + 'own', 0o755)",
        "os.open(d, os.O_TMPFILE | os.O_WRONLY, 0o755)",
        "os.link(d + 'own', n)",
        "(os.mkdir(n), os.chmod(n, 0o2755), os.rmdir(n))",
    ] {
        arena.reached(&tried(free));
    }
    let program = arena.folder().join("setuid");
    fs::copy("/bin/true", &program).unwrap();
    let run = format!(
        "print(tried(lambda: __import__('subprocess').run(['{}'], check=True)))",
        program.display()
    );
    arena.reached(&run);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    arena.refused(Hook::LsmBprmCheck, &run);
    // It is read as before, and gets no other name.
    arena.reached(&open(&format!("'{}'", program.display())));
    arena.refused(Hook::LsmInodeLink, &tried("os.link(d + 'setuid', n)"));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn no_block_device_no_pin_and_no_cgroup_is_opened_and_no_node_is_made() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let block = fs::read_dir("/dev")
        .unwrap()
        .flatten()
        .find(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    match block {
        Some(block) => arena.refused(
            Hook::LsmFileOpen,
            &open(&format!("'{}'", block.path().display())),
        ),
        None => println!("not attempted: opening a block device; there is none"),
    }
    arena.refused(Hook::LsmFileOpen, &open("'/sys/fs/bpf'"));
    let folder = arena.folder().display().to_string();
    for kind in ["0o020000", "0o060000"] {
        arena.refused(
            Hook::LsmInodeMknod,
            &format!(
                "n = '{folder}/' + str(os.getpid())\n\
                 print(tried(lambda: os.mknod(n, {kind} | 0o600, os.makedev(7, 0))))"
            ),
        );
    }
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find(|root| fs::exists(format!("{root}/cgroup.procs")).unwrap_or(false));
    arena.refused(
        Hook::LsmFileOpen,
        &format!(
            "print(tried(lambda: os.write(os.open('{}/cgroup.procs', os.O_WRONLY), b'0')))",
            root.unwrap()
        ),
    );
}

/// By its pin a hook outlives custodyd: no file of a bpf file system is opened, but names are taken
/// away without opening anything.
#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn no_pin_is_removed_moved_or_named_once_more() {
    let Some(arena) = Arena::new() else {
        return;
    };
    let folder = arena.programs.pins.folder();
    let pin = folder.join("lsm_task_kill");
    let [spare, other] = ["spare", "other"].map(|name| folder.join(name));
    for (place, expected) in [
        (Place::Outside, "reached"),
        (Place::Session, "EPERM"),
        (Place::Below, "EPERM"),
    ] {
        for what in ["os.unlink(a)", "os.rename(a, b)", "os.link(a, b)"] {
            fs::hard_link(&pin, &spare).unwrap();
            let names = format!("a, b = {spare:?}, {other:?}");
            let answer = arena.run(
                place,
                &format!("{names}\nprint(tried(lambda: {what}))"),
                &[],
            );
            assert_eq!(answer, expected, "{place:?}: {what}");
            for name in [&spare, &other] {
                if name.exists() {
                    fs::remove_file(name).unwrap();
                }
            }
        }
    }
    assert!(pin.exists());
}

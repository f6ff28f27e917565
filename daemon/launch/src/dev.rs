//! `/dev` and `/proc` of a session.

use std::{fs, os::fd::OwnedFd, path::Path};

use custody_sys::{
    mount::{self, Attributes, Depth, Tree},
    pty::{self, Pty},
};
use custody_wire::launch::WindowSize;
use nix::{
    mount::{MsFlags, mount},
    sys::stat::{Mode, SFlag, makedev, mknod},
    unistd::{Gid, Uid, fchown},
};

use crate::{
    failure::{Failure, Step as _},
    root::{Mounting as _, Root, grow, is_for_others, symlink, tmpfs},
    share::Share,
};

/// The nodes that a session has: name, major, minor (devices.txt of the kernel).
const NODES: [(&str, u64, u64); 6] = [
    ("full", 1, 7),
    ("null", 1, 3),
    ("random", 1, 8),
    ("tty", 5, 0),
    ("urandom", 1, 9),
    ("zero", 1, 5),
];

/// The group of terminals: gid 5 wherever there is a convention (Debian, Fedora, Arch), and in the
/// session's own /etc/group.
pub(crate) const TTY: u32 = 5;

/// Files of procfs that say something of the host to everybody. Only those are covered that
/// others may open at all; root's own (kcore, kmsg, sysrq-trigger) are closed by the uid.
const MASKED: [&str; 7] = [
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];

/// Builds `/dev` with a devpts and a shm of its own.
pub(crate) fn build(root: &Root) -> Result<(), Failure> {
    let dev = root.folder("/dev", 0o755)?;
    let options = "mode=0755,size=64k,nr_inodes=64";
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), &dev, Some("tmpfs"), flags, Some(options))
        .mount(|| "mount(2) of a tmpfs for `/dev`".into())?;
    // The mode of a node is its own, whatever our umask is.
    let umask = nix::sys::stat::umask(Mode::empty());
    for (name, major, minor) in NODES {
        let mode = Mode::from_bits_truncate(0o666);
        mknod(&dev.join(name), SFlag::S_IFCHR, mode, makedev(major, minor))
            .mount(|| format!("mknod(2) of `/dev/{name}`"))?;
    }
    nix::sys::stat::umask(umask);
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("ptmx", "pts/ptmx"),
        ("stderr", "/proc/self/fd/2"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
    ] {
        symlink(target, &dev.join(name))?;
    }
    let pts = root.folder("/dev/pts", 0o755)?;
    let options = format!("newinstance,ptmxmode=0666,mode=0620,gid={TTY},max=256");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(
        Some("devpts"),
        &pts,
        Some("devpts"),
        flags,
        Some(options.as_str()),
    )
    .mount(|| "mount(2) of a devpts".into())?;
    let shm = root.folder("/dev/shm", 0o755)?;
    tmpfs(
        &shm,
        &format!("mode=1777,{}", Share::NONE),
        MsFlags::empty(),
    )
}

/// Gives `/dev/shm` its share, which is known with the plan.
pub(crate) fn grow_shm(root: &Root, share: Share) -> Result<(), Failure> {
    grow(&root.place("/dev/shm"), share, MsFlags::empty())
}

/// A pty of the session's own devpts, its slave the user's.
pub(crate) fn terminal(root: &Root, size: WindowSize, uid: u32) -> Result<Pty, Failure> {
    let pty = pty::open(&root.place("/dev/pts")).step(|| "open(2) of `/dev/pts/ptmx`".into())?;
    pty::resize(&pty.master, size.rows, size.columns).step(|| "ioctl(2) TIOCSWINSZ".into())?;
    own(&pty.slave, uid, TTY)?;
    Ok(pty)
}

/// Gives an end of a pty or a pipe to the session, so that /dev/stdout opens.
pub(crate) fn own(fd: &OwnedFd, uid: u32, gid: u32) -> Result<(), Failure> {
    fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
        .step(|| "fchown(2) of the session's standard streams".into())
}

/// A procfs of the session's pid namespace, with what speaks of the host covered. Writable until
/// [`close_proc`]: the workspace's id map is written through it.
pub(crate) fn proc(root: &Root) -> Result<(), Failure> {
    proc_at(&root.folder("/proc", 0o555)?)?;
    for masked in MASKED {
        let place = root.place(masked);
        if is_for_others(&place) {
            let null = root.place("/dev/null");
            let cover = Tree::copy_of(nix::fcntl::AT_FDCWD, &null, Depth::One)
                .mount(|| "open_tree(2) of `/dev/null`".into())?;
            cover
                .attach(nix::fcntl::AT_FDCWD, &place)
                .mount(|| format!("move_mount(2) over `{masked}`"))?;
        }
    }
    Ok(())
}

/// A procfs of this pid namespace.
pub(crate) fn proc_at(place: &Path) -> Result<(), Failure> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), place, Some("proc"), flags, None::<&str>)
        .mount(|| "mount(2) of a procfs".into())
}

/// Makes all of /proc read-only: sysctls, and the session's own oom_score_adj, mem and uid_map
/// too.
pub(crate) fn close_proc(root: &Root) -> Result<(), Failure> {
    mount::restrict(&root.place("/proc"), Attributes::READ_ONLY)
        .mount(|| "mount_setattr(2) of `/proc`".into())
}

/// Makes the root itself read-only, after everything is in it.
pub(crate) fn close_root() -> Result<(), Failure> {
    mount::restrict(Path::new("/"), Attributes::READ_ONLY)
        .mount(|| "mount_setattr(2) of `/`".into())?;
    match fs::write("/probe", "") {
        Err(error) if error.raw_os_error() == Some(nix::libc::EROFS) => Ok(()),
        Err(error) => Err(error).mount(|| "the probe of a read-only `/`".into()),
        Ok(()) => Err(Failure::refused(
            Some(custody_wire::layer::Layer::MountNamespace),
            "`/` is still writable".into(),
        )),
    }
}

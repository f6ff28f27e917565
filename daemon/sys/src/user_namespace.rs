//! A user namespace that exists only to hold a map of ids, for id-mapped mounts.

// UNSAFETY: clone(2) of a child that only waits, with CLONE_NEWUSER.
#![expect(unsafe_code, reason = "clone(2) with CLONE_NEWUSER")]

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use nix::{
    fcntl::OFlag,
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::Pid,
};

/// One id as it is stored, and as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The id that the file system stores: inside the namespace.
    pub stored: u32,
    /// The id that appears: outside the namespace.
    pub shown: u32,
}

/// A user namespace with one uid and one gid in its maps (user_namespaces(7)). `proc` is where a
/// writable procfs of the caller's pid namespace is mounted. The caller must have one thread.
///
/// # Errors
/// When clone(2) fails or the maps cannot be written: EPERM without CAP_SETUID and CAP_SETGID.
pub fn with_maps(proc: &Path, uid: Pair, gid: Pair) -> io::Result<OwnedFd> {
    let holder = Holder::start()?;
    let folder: PathBuf = proc.join(holder.0.to_string());
    fs::write(folder.join("uid_map"), line(uid))?;
    fs::write(folder.join("gid_map"), line(gid))?;
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let fd = nix::fcntl::open(
        &folder.join("ns/user"),
        flags,
        nix::sys::stat::Mode::empty(),
    )?;
    Ok(fd)
}

fn line(pair: Pair) -> String {
    format!("{} {} 1\n", pair.stored, pair.shown)
}

/// A child in the new namespace, killed and reaped on drop. The namespace lives on by its
/// descriptor.
struct Holder(Pid);

impl Holder {
    fn start() -> io::Result<Self> {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        // SAFETY: clone(2) without CLONE_VM and with a null stack is fork(2): the child runs on a
        // copy of this stack. It makes system calls alone, so that a lock that another thread of
        // the parent held does not matter.
        let pid =
            unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
        if pid == 0 {
            // It must not outlive a parent that is killed here.
            // SAFETY: prctl(2) with PR_SET_PDEATHSIG takes a number.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                // SAFETY: pause(2) takes nothing and touches nothing.
                unsafe { libc::pause() };
            }
        }
        let pid = i32::try_from(pid).unwrap_or(-1);
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(Pid::from_raw(pid)))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let killed = kill(self.0, Signal::SIGKILL);
        debug_assert!(
            killed.is_ok(),
            "kill(2) of an own child that was not reaped"
        );
        let reaped = waitpid(self.0, None);
        debug_assert!(reaped.is_ok(), "waitpid(2) of an own child");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::{Depth, Tree};
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_mount_shows_the_owner_as_the_mapped_id() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::chown(&file, Some(4321), Some(4322)).unwrap();
        let pair = |stored, shown| Pair { stored, shown };
        let namespace =
            with_maps(Path::new("/proc"), pair(4321, 70_001), pair(4322, 70_002)).unwrap();
        let at = crate::path::folder(folder.path()).unwrap();
        let tree = Tree::copy_of(&at, Path::new(""), Depth::One).unwrap();
        tree.map_ids(&namespace).unwrap();
        let shown = crate::path::open_beneath(
            &tree,
            Path::new("file"),
            OFlag::O_RDONLY,
            nix::sys::stat::Mode::empty(),
        )
        .unwrap();
        let shown = fs::File::from(shown).metadata().unwrap();
        assert_eq!((shown.uid(), shown.gid()), (70_001, 70_002));
        assert_eq!(fs::metadata(&file).unwrap().uid(), 4321);
    }

    #[test]
    fn the_holder_is_gone_when_the_namespace_is_there() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let holder = Holder::start().unwrap();
        let pid = holder.0;
        drop(holder);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

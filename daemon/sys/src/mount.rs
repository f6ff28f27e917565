//! Detached mounts (open_tree(2), mount_setattr(2), move_mount(2)): a bind gets its attributes
//! before anybody can reach it.

// UNSAFETY: neither nix nor glibc of the floor has these three calls.
#![expect(
    unsafe_code,
    reason = "open_tree(2), mount_setattr(2) and move_mount(2) by number"
)]

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

/// Mount attributes (mount_setattr(2), linux/mount.h).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Attributes(u64);

impl Attributes {
    /// MOUNT_ATTR_NODEV: device nodes do not open.
    pub const NO_DEVICES: Self = Self(0x4);
    /// MOUNT_ATTR_NOEXEC.
    pub const NO_EXEC: Self = Self(0x8);
    /// MOUNT_ATTR_NOSUID: set-user-id bits and file capabilities do not count.
    pub const NO_SUID: Self = Self(0x2);
    /// MOUNT_ATTR_NOSYMFOLLOW (5.14): symlinks do not resolve.
    pub const NO_SYMLINKS: Self = Self(0x20_0000);
    /// MOUNT_ATTR_RDONLY.
    pub const READ_ONLY: Self = Self(0x1);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whether mounts below the named one count too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Depth {
    /// The one mount.
    One,
    /// All below it (AT_RECURSIVE).
    Whole,
}

/// A mount, or a tree of mounts, that is attached nowhere yet.
#[derive(Debug)]
pub struct Tree(OwnedFd);

impl Tree {
    /// A copy of the mount at `path` under `at`; an empty path is `at` itself. The last element
    /// may not be a symlink.
    ///
    /// # Errors
    /// As open_tree(2): EINVAL for a mount of another mount namespace.
    pub fn copy_of(at: impl AsFd, path: &Path, depth: Depth) -> io::Result<Self> {
        let path = c_string(path)?;
        let recursive = match depth {
            Depth::One => 0,
            Depth::Whole => AT_RECURSIVE,
        };
        let flags =
            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | recursive;
        // SAFETY: open_tree(2) reads a NUL-ended string that outlives the call.
        let raw = unsafe {
            libc::syscall(
                libc::SYS_open_tree,
                at.as_fd().as_raw_fd(),
                path.as_ptr(),
                flags,
            )
        };
        let raw = RawFd::try_from(raw).unwrap_or(-1);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made this descriptor; nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Adds `attributes`.
    ///
    /// # Errors
    /// As mount_setattr(2).
    pub fn restrict(&self, attributes: Attributes, depth: Depth) -> io::Result<()> {
        set(
            &self.0,
            c"",
            depth,
            &MountAttr {
                attr_set: attributes.0,
                ..MountAttr::default()
            },
        )
    }

    /// Shows the ids of `user_namespace`'s map (MOUNT_ATTR_IDMAP): what the file system stores as
    /// an id inside the namespace appears as the id outside.
    ///
    /// # Errors
    /// As mount_setattr(2): EINVAL for a file system without id-mapped mounts.
    pub fn map_ids(&self, user_namespace: impl AsFd) -> io::Result<()> {
        let userns_fd = u64::try_from(user_namespace.as_fd().as_raw_fd())
            .map_err(|_negative| io::ErrorKind::InvalidInput)?;
        set(
            &self.0,
            c"",
            Depth::One,
            &MountAttr {
                attr_set: MOUNT_ATTR_IDMAP,
                userns_fd,
                ..MountAttr::default()
            },
        )
    }

    /// Attaches the tree on `path` under `at`; an empty path is `at` itself. The last element
    /// may not be a symlink.
    ///
    /// # Errors
    /// As move_mount(2).
    pub fn attach(self, at: impl AsFd, path: &Path) -> io::Result<()> {
        let path = c_string(path)?;
        // SAFETY: move_mount(2) reads two NUL-ended strings that outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                self.0.as_raw_fd(),
                c"".as_ptr(),
                at.as_fd().as_raw_fd(),
                path.as_ptr(),
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Adds `attributes` to the mount at `path`.
///
/// # Errors
/// As mount_setattr(2).
pub fn restrict(path: &Path, attributes: Attributes) -> io::Result<()> {
    let path = c_string(path)?;
    let attributes = MountAttr {
        attr_set: attributes.0,
        ..MountAttr::default()
    };
    set(nix::fcntl::AT_FDCWD, &path, Depth::One, &attributes)
}

/// `struct mount_attr` of version 0 (linux/mount.h).
#[derive(Default)]
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const _: () = assert!(size_of::<MountAttr>() == 32, "MOUNT_ATTR_SIZE_VER0");

fn set(at: impl AsFd, path: &CStr, depth: Depth, attributes: &MountAttr) -> io::Result<()> {
    let flags = AT_EMPTY_PATH
        | match depth {
            Depth::One => 0,
            Depth::Whole => AT_RECURSIVE,
        };
    // SAFETY: mount_setattr(2) reads a NUL-ended string and a structure of the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<MountAttr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_nul| io::ErrorKind::InvalidInput.into())
}

// linux/fcntl.h and linux/mount.h.
const AT_EMPTY_PATH: libc::c_uint = 0x1000;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const AT_SYMLINK_NOFOLLOW: libc::c_uint = 0x100;
const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const OPEN_TREE_CLOEXEC: libc::c_uint = 0o2_000_000;
const OPEN_TREE_CLONE: libc::c_uint = 0x1;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_detached_copy_is_read_only_before_anybody_reaches_it() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        let at = crate::path::folder(folder.path()).unwrap();
        let tree = Tree::copy_of(&at, Path::new(""), Depth::One).unwrap();
        let wanted = Attributes::READ_ONLY.and(Attributes::NO_SUID);
        tree.restrict(wanted, Depth::One).unwrap();
        let inside = crate::path::open_beneath(
            &tree,
            Path::new("file"),
            nix::fcntl::OFlag::O_WRONLY,
            nix::sys::stat::Mode::empty(),
        );
        assert_eq!(inside.unwrap_err().raw_os_error(), Some(libc::EROFS));
        fs::write(folder.path().join("file"), "still writable outside").unwrap();
    }
}

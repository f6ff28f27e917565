//! Which folder may be a workspace. custodyd is root, so it looks at the descriptor and at the
//! kernel's tables, never at a path that somebody could change, and asks no file system that a
//! user may have made (a FUSE server can hang whoever asks it).

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use custody_sys::{mountinfo, path::is_plain_absolute};
use custody_wire::launch::Workspace;
use nix::sys::stat::{SFlag, fstat};

/// File systems of the kernel's own that can be id-mapped (FS_ALLOW_IDMAP in Linux 6.12) and hold
/// a work tree.
const FILE_SYSTEMS: [&str; 7] = ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs"];

/// tmpfs can be id-mapped since Linux 6.3.
const TMPFS: &str = "tmpfs";

/// Why a folder cannot be a workspace: what to do is in the words.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It holds, or lies in, a place of Custody's own.
    #[error("it holds or lies in `{place}`, which is Custody's own; use another folder")]
    Custody {
        /// Which.
        place: PathBuf,
    },
    /// The file system cannot be id-mapped.
    #[error(
        "its file system is {found}, which cannot be id-mapped; use a folder on ext4, xfs, btrfs \
         or tmpfs"
    )]
    FileSystem {
        /// Its type.
        found: String,
    },
    /// The kernel does not say.
    #[error("cannot look at it: {why}")]
    Look {
        /// Why.
        why: String,
    },
    /// Mounts below it.
    #[error(
        "`{mount}` is mounted in it, and what is mounted there would not be mapped; unmount it or \
         use a folder without mounts"
    )]
    Mounts {
        /// The first of them.
        mount: PathBuf,
    },
    /// The descriptor leads elsewhere.
    #[error("the folder is now at `{found}`; name that path")]
    Moved {
        /// Where.
        found: PathBuf,
    },
    /// Not a folder.
    #[error("it is not a folder")]
    NotAFolder,
    /// Another user's.
    #[error("it is owned by uid {owner}, and you are uid {caller}; use a folder of your own")]
    Owner {
        /// Whose.
        owner: u32,
        /// Who asks.
        caller: u32,
    },
    /// Relative, or with `..`.
    #[error("its path is not absolute and plain")]
    Path,
    /// Root's group.
    #[error(
        "its group is root's (gid 0), and what an agent makes there would be of that group: \
         `chgrp` it to a group of yours"
    )]
    RootGroup,
    /// The whole file system.
    #[error("it is the root of the file system; use a folder below it")]
    Root,
    /// Root's.
    #[error("it is owned by root; an agent never writes as root: `chown` it to a user")]
    RootOwned,
}

/// Checks the folder behind `fd`, which control says is at `path`, for `caller`. `ours` are
/// places that no workspace may hold or lie in.
///
/// # Errors
/// See [`WorkspaceError`].
pub fn check(
    fd: &OwnedFd,
    path: &Path,
    caller: u32,
    ours: &[PathBuf],
) -> Result<Workspace, WorkspaceError> {
    if !is_plain_absolute(path) {
        return Err(WorkspaceError::Path);
    }
    if path == Path::new("/") {
        return Err(WorkspaceError::Root);
    }
    let found = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(look)?;
    if found != path {
        return Err(WorkspaceError::Moved { found });
    }
    let overlap = ours
        .iter()
        .find(|place| path.starts_with(place) || place.starts_with(path));
    if let Some(place) = overlap {
        return Err(WorkspaceError::Custody {
            place: place.clone(),
        });
    }
    // The kernel's own table first: fstat(2) on a user's file system is answered by that user.
    let found = file_system(fd)?;
    if found != TMPFS && !FILE_SYSTEMS.contains(&found.as_str()) {
        return Err(WorkspaceError::FileSystem { found });
    }
    let stat = fstat(fd).map_err(|errno| look(errno.into()))?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFDIR {
        return Err(WorkspaceError::NotAFolder);
    }
    if stat.st_uid == 0 {
        return Err(WorkspaceError::RootOwned);
    }
    // The group is mapped as the owner is: files of an agent's would be root's group's, and whatever
    // that group may write he could write.
    if stat.st_gid == 0 {
        return Err(WorkspaceError::RootGroup);
    }
    // The session writes as the folder's owner. Whoever may only read it may not do that.
    if caller != 0 && caller != stat.st_uid {
        return Err(WorkspaceError::Owner {
            owner: stat.st_uid,
            caller,
        });
    }
    let below = mountinfo::below(path).map_err(look)?;
    if let Some(mount) = below.into_iter().next() {
        return Err(WorkspaceError::Mounts { mount });
    }
    Ok(Workspace {
        path: path.into(),
        owner_uid: stat.st_uid,
        owner_gid: stat.st_gid,
    })
}

/// The type of the mount that `fd` is on, by its id in /proc/self/fdinfo (proc_pid_fdinfo(5)).
fn file_system(fd: &OwnedFd) -> Result<String, WorkspaceError> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).map_err(look)?;
    let id: Option<i32> = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let mounts = mountinfo::own().map_err(look)?;
    let mount = mounts.into_iter().find(|mount| Some(mount.id) == id);
    // A mount of another mount namespace is in no table of ours.
    mount
        .map(|mount| mount.fs_type)
        .ok_or(WorkspaceError::Look {
            why: "it lies on a mount that custodyd does not see".into(),
        })
}

fn look(error: io::Error) -> WorkspaceError {
    WorkspaceError::Look {
        why: error.to_string(),
    }
}

/// Removes what the launch made in a workspace. What is not as it was made stays.
pub fn remove_placeholders(workspace: impl AsFd, placeholders: &[PathBuf]) {
    if let Err(error) = custody_launch::tidy(workspace, placeholders) {
        tracing::warn!(%error, "a placeholder stays in a workspace");
    }
}

/// Whether two descriptors are of one folder.
pub fn is_same(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, os::unix::fs::chown};

    fn open(path: &Path) -> OwnedFd {
        custody_sys::path::folder(path).unwrap()
    }

    fn checked(path: &Path, caller: u32, ours: &[PathBuf]) -> Result<Workspace, WorkspaceError> {
        check(&open(path), path, caller, ours)
    }

    #[test]
    fn a_folder_of_the_callers_own_is_taken_and_anothers_is_not() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path();
        assert!(matches!(
            checked(path, 0, &[]),
            Err(WorkspaceError::RootOwned)
        ));
        chown(path, Some(1000), Some(0)).unwrap();
        assert!(matches!(
            checked(path, 1000, &[]),
            Err(WorkspaceError::RootGroup)
        ));
        chown(path, Some(1000), Some(1000)).unwrap();
        let workspace = checked(path, 1000, &[]).unwrap();
        assert_eq!((workspace.owner_uid, workspace.owner_gid), (1000, 1000));
        checked(path, 0, &[]).unwrap();
        assert!(matches!(
            checked(path, 1001, &[]),
            Err(WorkspaceError::Owner {
                owner: 1000,
                caller: 1001
            })
        ));
        let inside = path.join("state");
        for ours in [path.to_owned(), inside, "/var/tmp".into()] {
            assert!(matches!(
                checked(path, 1000, &[ours]),
                Err(WorkspaceError::Custody { .. })
            ));
        }
        let moved = path.with_extension("moved");
        assert!(matches!(
            check(&open(path), &moved, 1000, &[]),
            Err(WorkspaceError::Moved { .. })
        ));
    }

    #[test]
    fn a_file_system_that_cannot_be_id_mapped_and_nested_mounts_are_refused() {
        assert!(matches!(
            checked(Path::new("/sys/kernel"), 0, &[]),
            Err(WorkspaceError::FileSystem { found }) if found == "sysfs"
        ));
        assert!(matches!(
            checked(Path::new("/"), 0, &[]),
            Err(WorkspaceError::Root)
        ));
        assert!(matches!(
            check(&open(Path::new("/var")), Path::new("/var/../var"), 0, &[]),
            Err(WorkspaceError::Path)
        ));
    }

    #[test]
    fn a_folder_is_the_same_by_any_name_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let again = folder.path().join(".");
        assert!(is_same(open(folder.path()), File::open(again).unwrap()));
        assert!(!is_same(open(folder.path()), open(other.path())));
    }
}

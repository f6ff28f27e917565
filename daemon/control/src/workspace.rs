//! A folder that a caller may give to a session, and its path.
//!
//! The caller opened it, so he may enter it; that it is his own says the owner. The path is read
//! from the descriptor (proc_pid_fd(5)), never taken from the caller.
//!
//! One thread serves everybody, so no file system is asked that may not answer: the path and the
//! owner are those that the kernel knows already. custodyd looks again, and at the mount.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, statx};

/// PATH_MAX (limits.h), and what `supervise::Start` allows.
const PATH_MAX: usize = 4096;

/// Folders that a session has of its own; a workspace is not laid over them.
const TAKEN: [&str; 15] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run",
    "/sbin", "/sys", "/tmp", "/usr",
];

/// Folders under which nothing is a workspace.
const UNDER: [&str; 9] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys",
];

/// Why a folder is not taken.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It was removed.
    #[error("the workspace was removed")]
    Deleted,
    /// The descriptor cannot be looked at.
    #[error("the workspace cannot be looked at: {why}")]
    Look {
        /// Why.
        why: io::Error,
    },
    /// Not a folder.
    #[error("the workspace is not a folder")]
    NotFolder,
    /// Somebody else's.
    #[error(
        "workspace `{path}` is owned by uid {owner}, not by you (uid {caller}); use a folder of your own"
    )]
    Owner {
        /// Its path.
        path: String,
        /// Whose.
        owner: u32,
        /// Who asks.
        caller: u32,
    },
    /// The path cannot be shown in a session.
    #[error("the path of the workspace cannot be used: {why}")]
    Path {
        /// Why.
        why: &'static str,
    },
    /// Root's.
    #[error("workspace `{path}` is owned by root; use a folder of an ordinary user")]
    Root {
        /// Its path.
        path: String,
    },
    /// A system folder.
    #[error("workspace `{path}` is a system folder; use one of your own below it")]
    System {
        /// Its path.
        path: String,
    },
}

/// The path of the folder in `fd`, if `caller` may give it away.
///
/// # Errors
/// See [`WorkspaceError`].
pub fn path_of(fd: impl AsFd, caller: u32) -> Result<String, WorkspaceError> {
    let fd = fd.as_fd();
    let look = |why| WorkspaceError::Look { why };
    let stat = known(fd).map_err(look)?;
    if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Directory {
        return Err(WorkspaceError::NotFolder);
    }
    // A removed folder has no link; its path ends with " (deleted)", as another's name may too.
    if stat.stx_nlink == 0 {
        return Err(WorkspaceError::Deleted);
    }
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = std::fs::read_link(link).map_err(look)?;
    let path = shown(path)?;
    if TAKEN.contains(&path.as_str()) || is_under_system(&path) {
        return Err(WorkspaceError::System { path });
    }
    match stat.stx_uid {
        0 => Err(WorkspaceError::Root { path }),
        owner if caller != 0 && owner != caller => Err(WorkspaceError::Owner {
            path,
            owner,
            caller,
        }),
        _ => Ok(path),
    }
}

/// What the kernel knows of `fd` (AT_STATX_DONT_SYNC in statx(2)). fstat(2) asks the server of a
/// FUSE or network file system, and waits as long as that likes.
fn known(fd: BorrowedFd<'_>) -> io::Result<Statx> {
    let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::UID;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(fd, c"", flags, wanted)?;
    if !StatxFlags::from_bits_retain(stat.stx_mask).contains(wanted) {
        return Err(io::Error::other("its file system does not say whose it is"));
    }
    Ok(stat)
}

fn shown(path: PathBuf) -> Result<String, WorkspaceError> {
    let bad = |why| WorkspaceError::Path { why };
    if !custody_sys::path::is_plain_absolute(&path) {
        return Err(bad("it is not absolute"));
    }
    let path = path
        .into_os_string()
        .into_string()
        .map_err(|_bytes| bad("it is not UTF-8"))?;
    if path.len() > PATH_MAX {
        return Err(bad("it is longer than 4096 bytes"));
    }
    if path.ends_with(" (deleted)") {
        return Err(bad(
            "it ends with ` (deleted)`, as that of a removed folder does",
        ));
    }
    if path.chars().any(char::is_control) {
        return Err(bad("it has a control character"));
    }
    Ok(path)
}

fn is_under_system(path: &str) -> bool {
    let ours = Path::new("/run/custody");
    UNDER.iter().any(|folder| Path::new(path).starts_with(folder))
        || Path::new(path).starts_with(ours)
        // The system's programs and libraries; /usr/src and /usr/local/src may hold a project.
        || ["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/usr/share"]
            .iter()
            .any(|folder| Path::new(path).starts_with(folder))
}

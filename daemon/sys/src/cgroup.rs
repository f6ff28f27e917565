//! cgroup2 folders (cgroups(7)): their ids, killing all in one, whether it is empty.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        stat::Mode,
        statfs::{CGROUP2_SUPER_MAGIC, statfs},
    },
};

/// An open cgroup2 folder.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    fd: OwnedFd,
    id: u64,
}

impl Cgroup {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// When it is not a folder of a cgroup2 file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        if statfs(path)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("`{}` is not on a cgroup2 file system", path.display()),
            ));
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_RDONLY;
        let fd = open(path, flags, Mode::empty())?;
        let file = File::from(fd);
        // The inode is the cgroup's id: what bpf_get_current_cgroup_id() returns (kernfs).
        let id = file.metadata()?.ino();
        Ok(Self {
            path: path.into(),
            fd: file.into(),
            id,
        })
    }

    /// Makes a folder that was not there.
    ///
    /// # Errors
    /// When mkdir(2) fails, or it cannot be opened.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir(path)?;
        Self::open(path)
    }

    /// Makes the folder unless it is there.
    ///
    /// # Errors
    /// When mkdir(2) fails, or it cannot be opened.
    pub fn ensure(path: &Path) -> io::Result<Self> {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Self::open(path),
        }
    }

    /// Its id.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no process is in it or below it. A folder that is gone is empty.
    ///
    /// # Errors
    /// When cgroup.events cannot be read.
    pub fn is_empty(&self) -> io::Result<bool> {
        is_empty(&self.path)
    }

    /// Kills every process in it and below it (`cgroup.kill`, Linux 5.14), at once even while
    /// they fork.
    ///
    /// # Errors
    /// When the file cannot be written; a folder that is gone is not an error.
    pub fn kill(&self) -> io::Result<()> {
        kill(&self.path)
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Kills every process in the cgroup at `path` and below it.
///
/// # Errors
/// When the file cannot be written; a folder that is gone is not an error.
pub fn kill(path: &Path) -> io::Result<()> {
    or_gone(fs::write(path.join("cgroup.kill"), "1"), ())
}

/// Whether no process is in the cgroup at `path` or below it. A folder that is gone is empty.
///
/// # Errors
/// When cgroup.events cannot be read.
pub fn is_empty(path: &Path) -> io::Result<bool> {
    let events = or_gone(
        fs::read_to_string(path.join("cgroup.events")),
        "populated 0".into(),
    )?;
    Ok(events.lines().any(|line| line == "populated 0"))
}

/// Removes the empty cgroup at `path` and the empty ones below it.
///
/// # Errors
/// When one still holds a process (EBUSY).
pub fn remove(path: &Path) -> io::Result<()> {
    let Some(entries) = or_gone(fs::read_dir(path).map(Some), None)? else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    or_gone(fs::remove_dir(path), ())
}

/// ENODEV comes from a file of a cgroup that was removed while it was open.
fn or_gone<T>(result: io::Result<T>, gone: T) -> io::Result<T> {
    match result {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::ENODEV as i32) =>
        {
            Ok(gone)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_file_system_is_no_cgroup() {
        let folder = tempfile::tempdir().unwrap();
        let error = Cgroup::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("cgroup2"), "{error}");
    }

    #[test]
    fn what_is_gone_is_empty_dead_and_removed() {
        let gone = Path::new("/sys/fs/cgroup/no/such/folder");
        assert!(is_empty(gone).unwrap());
        kill(gone).unwrap();
        remove(gone).unwrap();
    }
}

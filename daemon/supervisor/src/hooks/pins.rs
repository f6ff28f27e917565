//! Where links are pinned, so that hooks stay attached when custodyd dies.

use std::{
    fs, io,
    os::{
        fd::BorrowedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use agent_ebpf::Hook;
use custody_sys::bpf;
use nix::{
    mount::{MsFlags, mount},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};

use super::Group;

/// Where a bpf file system belongs (bpf(2), BPF_OBJ_PIN).
const BPFFS: &str = "/sys/fs/bpf";

/// Why pins cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// `/sys/fs/bpf` is no bpf file system and cannot be made one.
    #[error("cannot mount a bpf file system on `{BPFFS}`")]
    Mount(#[source] io::Error),
    /// A pin cannot be made, renamed or removed.
    #[error("cannot pin `{path}`")]
    Pin {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The folder of one installation's pins, root's alone.
#[derive(Debug)]
pub struct Pins(PathBuf);

impl Pins {
    /// The folder for the installation whose cgroups are under `cgroup`. Two installations on
    /// one host (a test beside the real one) never share a pin.
    ///
    /// # Errors
    /// When there is no bpf file system, or the folder cannot be made.
    pub fn open(cgroup: &Path) -> Result<Self, PinError> {
        mount_bpffs().map_err(PinError::Mount)?;
        let top = Path::new(BPFFS).join("custody");
        let folder = top.join(name_of(cgroup));
        for path in [&top, &folder] {
            let made = fs::DirBuilder::new().mode(0o700).create(path);
            match made {
                Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(PinError::Pin {
                        path: path.clone(),
                        source,
                    });
                }
                Ok(()) | Err(_) => {}
            }
            owned(path).map_err(|source| PinError::Pin {
                path: path.clone(),
                source,
            })?;
        }
        Ok(Self(folder))
    }

    /// Pins the link of `hook` at `group`. What was pinned there is let go afterwards: the old and the
    /// new are both attached for a moment, and the stricter counts; there is no open moment.
    ///
    /// # Errors
    /// When bpf(2) or rename(2) fails.
    pub fn replace(&self, group: Group, hook: Hook, link: BorrowedFd<'_>) -> Result<(), PinError> {
        self.put(&name(group, hook), link)
    }

    fn put(&self, name: &str, link: BorrowedFd<'_>) -> Result<(), PinError> {
        let path = self.0.join(name);
        let fresh = self.0.join(format!("{name}_new"));
        let result = remove_if_there(&fresh)
            .and_then(|()| bpf::pin(link, &fresh))
            .and_then(|()| fs::rename(&fresh, &path));
        result.map_err(|source| PinError::Pin { path, source })
    }

    /// Pins the link of an LSM hook, as [`Pins::replace`] does.
    ///
    /// # Errors
    /// When bpf(2) or rename(2) fails.
    pub fn replace_lsm(&self, hook: Hook, link: BorrowedFd<'_>) -> Result<(), PinError> {
        self.put(&lsm_name(hook), link)
    }

    /// Whether an LSM hook's pin is there.
    pub fn has_lsm(&self, hook: Hook) -> bool {
        self.0.join(lsm_name(hook)).symlink_metadata().is_ok()
    }

    /// The first of these hooks of `group` whose pin is not there.
    pub fn missing(&self, group: Group, mut hooks: impl Iterator<Item = Hook>) -> Option<PathBuf> {
        let path = |hook| self.0.join(name(group, hook));
        hooks
            .find(|hook| path(*hook).symlink_metadata().is_err())
            .map(path)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Removes every pin, and the folder. For the end of an installation whose cgroups are
    /// empty: this detaches the hooks.
    ///
    /// # Errors
    /// When a pin cannot be removed.
    pub fn remove(self) -> Result<(), PinError> {
        fs::remove_dir_all(&self.0).map_err(|source| PinError::Pin {
            path: self.0,
            source,
        })
    }
}

fn name(group: Group, hook: Hook) -> String {
    format!("{}_{}", group.name(), hook.name())
}

fn lsm_name(hook: Hook) -> String {
    format!("lsm_{}", hook.name())
}

/// Where a bpf file system is open to all (mode 1777 is its default), somebody else may have made
/// the folder, and could take the pins away.
fn owned(folder: &Path) -> io::Result<()> {
    let meta = folder.symlink_metadata()?;
    if meta.is_dir() && meta.uid() == 0 && meta.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "it is not root's alone (uid {}, mode {:o}); remove it",
            meta.uid(),
            meta.mode() & 0o7777
        )))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn mount_bpffs() -> io::Result<()> {
    if statfs(BPFFS)?.filesystem_type() == BPF_FS_MAGIC {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), BPFFS, Some("bpf"), flags, Some("mode=0700"))?;
    tracing::info!(path = BPFFS, "mounted a bpf file system");
    Ok(())
}

/// One name for one path: a bpf file system takes no dot in a name, and `/` ends one.
fn name_of(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut name = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(char::from(*byte)),
            b'/' => name.push('-'),
            other => name.push_str(&format!("_{other:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_paths_never_have_one_name_and_no_name_has_a_dot() {
        let names: Vec<_> = ["/a/b", "/a-b", "/a_2db", "/a.b", "/a/b.service"]
            .map(|path| name_of(Path::new(path)))
            .into();
        for (index, name) in names.iter().enumerate() {
            assert!(!name.contains(['.', '/']), "{name}");
            assert!(!names[..index].contains(name), "{name}");
        }
    }
}

//! The kernel has what confinement rests on.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use custody_sys::{cgroup::Cgroup, landlock, mountinfo};
use nix::libc;
use procfs::{ProcError, process::Process};

/// The oldest kernel: Landlock's scopes and PIDFD ioctls are in it, and every hook of ours.
const FLOOR: (u32, u32) = (6, 12);

/// The oldest Landlock: scopes for abstract sockets and signals (landlock(7)).
const LANDLOCK_FLOOR: i32 = 6;

/// Why this kernel does not do.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The cgroup folder of the configuration.
    #[error("`paths.cgroup`: `{path}` cannot be used")]
    Cgroup {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Landlock is older.
    #[error("Landlock has ABI {found}; {LANDLOCK_FLOOR} (Linux 6.12) or newer is needed")]
    LandlockOld {
        /// Its version.
        found: i32,
    },
    /// The kernel may have Landlock, and something around this process refuses it.
    #[error(
        "Landlock is refused to this process; a container's system call filter has to let its \
         three calls through"
    )]
    LandlockRefused(#[source] io::Error),
    /// No Landlock.
    #[error(
        "the kernel has no Landlock; build it in and name it in `lsm=` on the kernel's command line"
    )]
    NoLandlock(#[source] io::Error),
    /// No cgroup2.
    #[error("no cgroup2 file system is mounted; mount one: `mount -t cgroup2 none /sys/fs/cgroup`")]
    NoCgroup2,
    /// No seccomp filters.
    #[error("the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)")]
    NoSeccomp(#[source] io::Error),
    /// procfs does not say.
    #[error("cannot read /proc")]
    Proc(#[from] ProcError),
    /// An older kernel.
    #[error("the kernel is Linux {found}; {}.{} or newer is needed", FLOOR.0, FLOOR.1)]
    Version {
        /// Its release.
        found: String,
    },
}

/// Checks version, Landlock and seccomp.
///
/// # Errors
/// See [`KernelError`].
pub fn check() -> Result<(), KernelError> {
    let name = nix::sys::utsname::uname().map_err(|errno| ProcError::Io(errno.into(), None))?;
    let release = name.release().to_string_lossy();
    if version(&release).is_none_or(|version| version < FLOOR) {
        return Err(KernelError::Version {
            found: release.into(),
        });
    }
    // landlock(7): ENOSYS is not built in, EOPNOTSUPP not enabled at boot.
    let found = landlock::abi().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EOPNOTSUPP) => KernelError::NoLandlock(error),
        Some(_) | None => KernelError::LandlockRefused(error),
    })?;
    if found < LANDLOCK_FLOOR {
        return Err(KernelError::LandlockOld { found });
    }
    // seccomp(2), "/proc interfaces".
    fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .map(drop)
        .map_err(KernelError::NoSeccomp)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The folder under which our cgroups are made: the configured one; otherwise our own where a
/// service manager gave us one; otherwise the root of the hierarchy.
///
/// # Errors
/// When it is no cgroup2 folder.
pub fn cgroup_base(configured: Option<&Path>) -> Result<PathBuf, KernelError> {
    if let Some(path) = configured {
        // It is made at the start if its parent is there.
        let existing = match path.parent() {
            Some(parent) if !path.exists() => parent,
            Some(_) | None => path,
        };
        return match Cgroup::open(existing) {
            Ok(_) => Ok(path.into()),
            Err(source) => Err(KernelError::Cgroup {
                path: path.into(),
                source,
            }),
        };
    }
    let me = Process::myself()?;
    let root = mountinfo::own()
        .map_err(|error| ProcError::Io(error, None))?
        .into_iter()
        .filter(|mount| mount.fs_type == "cgroup2")
        // The whole hierarchy, where a part of it is bound elsewhere.
        .min_by_key(|mount| mount.root != Path::new("/"))
        .ok_or(KernelError::NoCgroup2)?
        .point;
    let own = me.cgroups()?.into_iter().find(|group| group.hierarchy == 0);
    let service = own.filter(|group| group.pathname.ends_with(".service"));
    Ok(match service {
        // With `Delegate=yes` (systemd.resource-control(5)) what is below is ours.
        Some(group) => root.join(group.pathname.trim_start_matches('/')),
        None => root,
    })
}

/// Whether a process traces us: then it sees every descriptor that passes.
///
/// # Errors
/// When procfs does not say.
pub fn tracer() -> Result<Option<i32>, KernelError> {
    let pid = Process::myself()?.status()?.tracerpid;
    Ok((pid != 0).then_some(pid))
}

/// Whether our mount namespace is another than pid 1's: then folders of callers cannot be mounted
/// (open_tree(2)), and a bpffs that we mount goes when we do.
/// Where pid 1 does not show its own, nothing is said.
pub fn has_own_mounts() -> bool {
    let namespace = |process: &str| fs::metadata(format!("/proc/{process}/ns/mnt"));
    match (namespace("self"), namespace("1")) {
        (Ok(ours), Ok(theirs)) => ours.ino() != theirs.ino(),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(version("6.18.44-fc-v857"), Some((6, 18)));
        assert_eq!(version("6.9-rc1"), Some((6, 9)));
        assert!(version("6.9.0").unwrap() < FLOOR);
        assert!(version("10.0.0").unwrap() > FLOOR);
        assert_eq!(version("linux"), None);
    }
}

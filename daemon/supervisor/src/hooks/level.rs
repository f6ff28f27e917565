//! How deep a cgroup lies in the whole hierarchy, as the kernel counts it.

use std::{io, os::unix::fs::MetadataExt as _, path::Path};

use custody_sys::mountinfo;

/// The inode of the first cgroup namespace (`PROC_CGROUP_INIT_INO`, include/linux/proc_ns.h).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFB;

/// The level of the cgroup2 folder `path`: 0 is the root's. None if it cannot be known: in a
/// cgroup namespace of one's own the upper part is not shown.
///
/// # Errors
/// When procfs does not say.
pub(super) fn of(path: &Path) -> io::Result<Option<i32>> {
    if std::fs::metadata("/proc/self/ns/cgroup")?.ino() != FIRST_NAMESPACE {
        return Ok(None);
    }
    let mount = mountinfo::own()?
        .into_iter()
        .filter(|mount| mount.fs_type == "cgroup2" && path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count());
    let Some(mount) = mount else {
        return Ok(None);
    };
    let below = path.strip_prefix(&mount.point).map_err(io::Error::other)?;
    let depth = |path: &Path| {
        let names = path
            .components()
            .filter(|part| matches!(part, std::path::Component::Normal(_)));
        names.count()
    };
    Ok(i32::try_from(depth(&mount.root).saturating_add(depth(below))).ok())
}

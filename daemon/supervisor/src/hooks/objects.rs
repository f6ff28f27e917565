//! What no session may touch, as the LSM programs know it: by inode and device.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::fs::MetadataExt as _,
    },
    path::Path,
};

use agent_ebpf::Object;
use custody_sys::mountinfo;
use custody_sys::path::open;
use nix::fcntl::OFlag;

/// The object behind `path`; none if there is nothing.
///
/// # Errors
/// When it is there and the kernel does not say what it is.
pub(super) fn find(path: &Path) -> io::Result<Option<Object>> {
    // A name of root's own that leads elsewhere (/var/run) is followed first.
    let found = path.canonicalize();
    let file = match found.and_then(|path| open(&path, OFlag::O_PATH)) {
        Ok(fd) => File::from(fd),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Object {
        ino: file.metadata()?.ino(),
        dev: device(&file)?,
        zero: 0,
    }))
}

/// What is no object any more, and what is one now.
pub(super) fn differ(before: &[Object], now: &[Object]) -> (Vec<Object>, Vec<Object>) {
    let only = |of: &[Object], other: &[Object]| {
        let mut only: Vec<Object> = Vec::new();
        for object in of {
            if !other.contains(object) && !only.contains(object) {
                only.push(*object);
            }
        }
        only
    };
    (only(before, now), only(now, before))
}

/// The device of the file system that `fd` is on, as the kernel itself has it: mountinfo shows
/// it, while stat(2) shows what the file system makes up (btrfs, overlay).
fn device(fd: impl AsFd) -> io::Result<u32> {
    let number = fd.as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let id: Option<i32> = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let mount = mountinfo::own()?
        .into_iter()
        .find(|mount| Some(mount.id) == id);
    let device = mount.map(|mount| (mount.device.0 << 20) | mount.device.1);
    device.ok_or_else(|| io::Error::other("its mount is not in /proc/self/mountinfo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_object_by_any_name_and_nothing_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let object = find(folder.path()).unwrap().unwrap();
        assert_eq!(find(&folder.path().join(".")).unwrap(), Some(object));
        assert!(object.ino > 0);
        assert_eq!(find(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn a_file_that_is_replaced_is_a_new_object_and_its_old_inode_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("token"), folder.path().join("old"));
        std::fs::write(&path, "fake").unwrap();
        let before = [find(folder.path()), find(&path)].map(|it| it.unwrap().unwrap());
        std::fs::rename(&path, &old).unwrap();
        std::fs::write(&path, "fake").unwrap();
        let now = [find(folder.path()), find(&path)].map(|it| it.unwrap().unwrap());
        assert_eq!(
            differ(&before, &now),
            (before[1..].to_vec(), now[1..].to_vec())
        );
        assert_eq!(differ(&now, &now), (Vec::new(), Vec::new()));
    }
}

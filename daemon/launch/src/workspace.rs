//! The workspace, written in place (`direct`, a named weakness): its owner appears as the session.
//!
//! The folder comes as a descriptor of the host's mount namespace, from which this namespace cannot
//! copy a mount (open_tree(2), EINVAL). It is opened again by its path, without symlinks, and
//! must be the same folder.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use custody_sys::{
    mount::{Attributes, Depth, Tree},
    mountinfo, path,
    user_namespace::{self, Pair},
};
use custody_wire::{launch::Workspace, layer::Layer};

use crate::{
    failure::{Failure, Step as _},
    protected,
    root::{Mounting as _, Root, check_place},
};

/// Shows the workspace at its own path and protects names in it. The answer names what had to be
/// made in it. `proc` is a writable procfs of this pid namespace.
pub(crate) fn show(
    root: &Root,
    proc: &Path,
    workspace: &Workspace,
    given: OwnedFd,
    (uid, gid): (u32, u32),
    mapped: bool,
) -> Result<Vec<PathBuf>, Failure> {
    let shown = workspace.path.as_path();
    let name = shown.display();
    check_place(shown, &[])?;
    let host = the_same_folder(workspace, given)?;
    no_nested_mounts(shown)?;

    let tree = Tree::copy_of(&host, Path::new(""), Depth::One)
        .mount(|| format!("open_tree(2) of the workspace `{name}`"))?;
    if mapped {
        let pair = |stored, shown| Pair { stored, shown };
        let namespace = user_namespace::with_maps(
            proc,
            pair(workspace.owner_uid, uid),
            pair(workspace.owner_gid, gid),
        )
        .of(Layer::IdMap, || {
            "making a user namespace for the map".into()
        })?;
        tree.map_ids(&namespace).of(Layer::IdMap, || {
            format!(
                "mount_setattr(2) MOUNT_ATTR_IDMAP on `{name}`, a file system of type {}",
                file_system(&host)
            )
        })?;
    }
    let attributes = Attributes::NO_SUID.and(Attributes::NO_DEVICES);
    tree.restrict(attributes, Depth::One)
        .mount(|| format!("mount_setattr(2) of `{name}`"))?;
    let target = root.target(shown, true)?;
    tree.attach(target, Path::new(""))
        .mount(|| format!("move_mount(2) of `{name}`"))?;

    // By the path again: now it leads to the mount.
    let inside = root.target(shown, true)?;
    if mapped {
        let owner = File::from(inside.try_clone().step(|| "fcntl(2)".into())?)
            .metadata()
            .of(Layer::IdMap, || format!("stat(2) of `{name}`"))?;
        if (owner.uid(), owner.gid()) != (uid, gid) {
            return Err(Failure::refused(
                Some(Layer::IdMap),
                format!("`{name}` appears as {}:{}", owner.uid(), owner.gid()),
            ));
        }
    }
    protected::protect(&host, &inside)
}

/// Opens the path again and compares. Refuses owners that a session must not act as.
fn the_same_folder(workspace: &Workspace, given: OwnedFd) -> Result<OwnedFd, Failure> {
    let name = workspace.path.display();
    let host = path::folder(&workspace.path)
        .step(|| format!("open(2) of the workspace `{name}` without symlinks"))?;
    let stat =
        |fd: &OwnedFd| -> io::Result<fs::Metadata> { File::from(fd.try_clone()?).metadata() };
    let there = stat(&host).step(|| format!("stat(2) of `{name}`"))?;
    let given = stat(&given).step(|| "stat(2) of the workspace's descriptor".into())?;
    let refused = |why: String| Err(Failure::refused(Some(Layer::IdMap), why));
    if (there.dev(), there.ino()) != (given.dev(), given.ino()) {
        return refused(format!("`{name}` is not the folder that was handed over"));
    }
    if there.uid() == 0 || workspace.owner_uid == 0 {
        return refused(format!(
            "the workspace `{name}` is owned by root; a session never writes as root"
        ));
    }
    if (there.uid(), there.gid()) != (workspace.owner_uid, workspace.owner_gid) {
        return refused(format!(
            "the workspace `{name}` is owned by {}:{}, not by {}:{}",
            there.uid(),
            there.gid(),
            workspace.owner_uid,
            workspace.owner_gid
        ));
    }
    Ok(host)
}

/// Mounts below the workspace would not be shown, and what is under them would.
fn no_nested_mounts(shown: &Path) -> Result<(), Failure> {
    let below = mountinfo::below(shown).step(|| "read(2) of `/proc/self/mountinfo`".into())?;
    match below.first() {
        None => Ok(()),
        Some(inner) => Err(Failure::refused(
            Some(Layer::MountNamespace),
            format!(
                "the workspace `{}` holds a mount at `{}`; unmount it or choose a folder without",
                shown.display(),
                inner.display()
            ),
        )),
    }
}

/// The file system's magic number, by name where it is a common one (statfs(2)).
fn file_system(fd: &OwnedFd) -> String {
    match nix::sys::statfs::fstatfs(fd) {
        Ok(found) => match found.filesystem_type().0 {
            0x6969 => "nfs".into(),
            0x794c_7630 => "overlay".into(),
            0x6573_5546 => "fuse".into(),
            0x0102_1997 => "9p".into(),
            other => format!("{other:#x}"),
        },
        Err(_unknown) => "unknown".into(),
    }
}

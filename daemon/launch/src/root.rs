//! The session's root: a small tmpfs with the system's own folders, read-only.
//!
//! | path | what | writable |
//! |---|---|---|
//! | `/usr`, and `/bin`, `/lib`, … as the host has them | the host's | no |
//! | `/etc` | constructed, and what [`etc`](crate::etc) lists | no |
//! | `/dev` | [six nodes](crate::dev), a devpts and a shm of its own | the nodes, shm |
//! | `/proc` | of the session's pid namespace | no |
//! | `/tmp` | tmpfs of its [share](crate::share), symlinks do not resolve | yes |
//! | `/home/agent` | tmpfs of its share | yes |
//! | `/run/custody` | the listener | no |
//! | `/run/custody/bin` | custody-init, custody-bridge | no |
//! | the policy's read-only folders, the workspace | the host's | the workspace |
//!
//! A mount costs 20 to 40 µs of every start, so small files are copied and device nodes made.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use custody_sys::{
    mount::{Attributes, Depth, Tree},
    path,
};
use custody_wire::{launch::PROGRAMS, layer::Layer};
use nix::{
    fcntl::OFlag,
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::Mode,
    unistd::{chdir, pivot_root},
};

use crate::{
    failure::{Failure, Step as _},
    session::HOME,
    share::Share,
};

/// Where the root grows before it is pivoted to: a folder that every host has, that holds nothing
/// a session may show, and that is in nobody else's mount namespace but ours.
const BASE: &str = "/sys";

/// Bind attributes of everything that comes from the host.
pub(crate) const READ_ONLY: Attributes = Attributes::READ_ONLY
    .and(Attributes::NO_SUID)
    .and(Attributes::NO_DEVICES);

/// Folders or symlinks beside `/usr`, as the host has them (hier(7)).
pub(crate) const NAMES: [&str; 6] = ["bin", "lib", "lib32", "lib64", "libx32", "sbin"];

/// MS_NOSYMFOLLOW (linux/mount.h, 5.10), unknown to nix.
const NO_SYMLINKS: MsFlags = MsFlags::from_bits_retain(256);

/// Places that are the session's own: nothing of the host is shown at, below or above them.
const OWN: [&str; 13] = [
    "/bin", "/boot", "/dev", HOME, "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/tmp", "/usr",
];

/// The part of [`OWN`] below which the operator, not a caller, may show folders.
const OPERATORS: [&str; 4] = [HOME, "/etc", "/run", "/usr"];

/// A root that is being built at [`BASE`], attached in this mount namespace.
#[derive(Debug)]
pub(crate) struct Root {
    base: &'static str,
    /// The root folder itself: paths of others resolve below it, and no symlink counts.
    at: std::os::fd::OwnedFd,
}

impl Root {
    /// Cuts propagation to the host and mounts the empty root.
    pub(crate) fn new() -> Result<Self, Failure> {
        detach()?;
        tmpfs(
            Path::new(BASE),
            "mode=0755,size=16m,nr_inodes=4096",
            MsFlags::empty(),
        )?;
        Self::at(BASE)
    }

    /// Cuts propagation to the host and stays in the host's root, for plans of the bypass suite.
    pub(crate) fn hosts() -> Result<Self, Failure> {
        detach()?;
        Self::at("/")
    }

    fn at(base: &'static str) -> Result<Self, Failure> {
        let at = path::folder(Path::new(base)).mount(|| format!("open(2) of `{base}`"))?;
        Ok(Self { base, at })
    }

    /// Where `path` of the session is for now.
    pub(crate) fn place(&self, path: &str) -> PathBuf {
        Path::new(self.base).join(path.trim_start_matches('/'))
    }

    pub(crate) fn folder(&self, path: &str, mode: u32) -> Result<PathBuf, Failure> {
        let place = self.place(path);
        fs::create_dir(&place).mount(|| format!("mkdir(2) of `{path}`"))?;
        if mode != 0o755 {
            fs::set_permissions(&place, fs::Permissions::from_mode(mode))
                .mount(|| format!("chmod(2) of `{path}`"))?;
        }
        Ok(place)
    }

    /// The folders of every session.
    pub(crate) fn system(&self, programs: &Path) -> Result<(), Failure> {
        let usr = self.folder("/usr", 0o755)?;
        self.show_tree("/usr", &usr)?;
        for name in NAMES {
            self.like_the_host(name)?;
        }
        for folder in ["/home", "/var"] {
            self.folder(folder, 0o755)?;
        }
        self.programs(programs)?;
        let tmp = self.folder("/tmp", 0o755)?;
        tmpfs(&tmp, &format!("mode=1777,{}", Share::NONE), NO_SYMLINKS)
    }

    /// The home, the user's own, of `share`.
    pub(crate) fn home(&self, uid: u32, gid: u32, share: Share) -> Result<(), Failure> {
        let home = self.folder(HOME, 0o755)?;
        let options = format!("mode=0700,{share},uid={uid},gid={gid}");
        tmpfs(&home, &options, MsFlags::empty())
    }

    /// Gives `/tmp` its share, which is known with the plan.
    pub(crate) fn grow_tmp(&self, share: Share) -> Result<(), Failure> {
        grow(&self.place("/tmp"), share, NO_SYMLINKS)
    }

    /// custody-init and custody-bridge, at a place that no host's file system has to have: where
    /// `/usr` had to be an overlay for it, each open(2) below `/usr` cost half as much again.
    fn programs(&self, programs: &Path) -> Result<(), Failure> {
        for folder in ["/run", "/run/custody", PROGRAMS] {
            self.folder(folder, 0o755)?;
        }
        let from = path::folder(programs)
            .mount(|| format!("open(2) of the programs' folder `{}`", programs.display()))?;
        let tree = Tree::copy_of(from, Path::new(""), Depth::One)
            .mount(|| format!("open_tree(2) of `{}`", programs.display()))?;
        tree.restrict(READ_ONLY, Depth::One)
            .mount(|| format!("mount_setattr(2) of `{PROGRAMS}`"))?;
        tree.attach(&self.at, relative(Path::new(PROGRAMS)))
            .mount(|| format!("move_mount(2) of `{PROGRAMS}`"))
    }

    fn show_tree(&self, host: &str, place: &Path) -> Result<(), Failure> {
        let tree = Tree::copy_of(nix::fcntl::AT_FDCWD, Path::new(host), Depth::Whole)
            .mount(|| format!("open_tree(2) of `{host}`"))?;
        tree.restrict(READ_ONLY, Depth::Whole)
            .mount(|| format!("mount_setattr(2) of `{host}`"))?;
        tree.attach(nix::fcntl::AT_FDCWD, place)
            .mount(|| format!("move_mount(2) of `{host}`"))
    }

    /// `/bin` and its like: a symlink where the host has one, a bind where it has a folder.
    fn like_the_host(&self, name: &str) -> Result<(), Failure> {
        let host = format!("/{name}");
        // readlink(2) says by its errno what is not a symlink.
        match fs::read_link(&host) {
            Ok(target) => symlink(target, &self.place(&host)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let place = self.folder(&host, 0o755)?;
                self.show_tree(&host, &place)
            }
            Err(error) => Err(error).mount(|| format!("readlink(2) of `{host}`")),
        }
    }

    /// A folder or file of the host, read-only at the same place, by the policy.
    pub(crate) fn show(&self, shown: &Path) -> Result<(), Failure> {
        let name = shown.display();
        check_place(shown, &OPERATORS)?;
        let from = path::open(shown, OFlag::O_PATH)
            .mount(|| format!("open(2) of the read-only `{name}` without symlinks"))?;
        let found = fs::metadata(shown).mount(|| format!("stat(2) of `{name}`"))?;
        let tree = Tree::copy_of(&from, Path::new(""), Depth::Whole)
            .mount(|| format!("open_tree(2) of `{name}`"))?;
        tree.restrict(READ_ONLY, Depth::Whole)
            .mount(|| format!("mount_setattr(2) of `{name}`"))?;
        let target = self.target(shown, found.is_dir())?;
        tree.attach(target, Path::new(""))
            .mount(|| format!("move_mount(2) of `{name}`"))
    }

    /// The place where `shown` is to be mounted, made if it is not there.
    pub(crate) fn target(
        &self,
        shown: &Path,
        folder: bool,
    ) -> Result<std::os::fd::OwnedFd, Failure> {
        let mut at = self.at.try_clone().mount(|| "fcntl(2)".into())?;
        let parts: Vec<_> = relative(shown).components().collect();
        for (index, part) in parts.iter().enumerate() {
            let part = Path::new(part.as_os_str());
            let is_folder = folder || index.saturating_add(1) < parts.len();
            at = match path::open_beneath(&at, part, OFlag::O_PATH, Mode::empty()) {
                Ok(next) => next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => make(&at, part, is_folder)
                    .mount(|| format!("making `{}` for a mount", shown.display()))?,
                Err(error) => {
                    return Err(error).mount(|| format!("open(2) of `{}`", shown.display()));
                }
            };
        }
        Ok(at)
    }

    /// `/var/tmp` leads to `/tmp`, unless something shown is there.
    pub(crate) fn var_tmp(&self) -> Result<(), Failure> {
        let place = self.place("/var/tmp");
        if fs::symlink_metadata(&place).is_ok() {
            return Ok(());
        }
        symlink("/tmp", &place)
    }

    /// Makes the root this process's root, and lets go of the host's.
    pub(crate) fn enter(self) -> Result<(), Failure> {
        let before = fs::metadata("/").mount(|| "stat(2) of `/`".into())?.dev();
        nix::unistd::fchdir(&self.at).mount(|| "fchdir(2) to the new root".into())?;
        // The old root lands on the new one and is taken off it (pivot_root(2), notes).
        pivot_root(".", ".").mount(|| "pivot_root(2)".into())?;
        umount2(".", MntFlags::MNT_DETACH).mount(|| "umount2(2) of the host's root".into())?;
        chdir("/").mount(|| "chdir(2) to `/`".into())?;
        let after = fs::metadata("/").mount(|| "stat(2) of `/`".into())?.dev();
        if before == after || Path::new("/sys").exists() {
            return Err(Failure::refused(
                Some(Layer::MountNamespace),
                "the host's root is still there".into(),
            ));
        }
        Ok(())
    }
}

/// Refuses a place that is, lies below or holds one of the session's own, except below `allowed`.
pub(crate) fn check_place(shown: &Path, allowed: &[&str]) -> Result<(), Failure> {
    let name = shown.display();
    let refused = |why: String| Err(Failure::refused(Some(Layer::MountNamespace), why));
    if !path::is_plain_absolute(shown) {
        return refused(format!("`{name}` is not a plain absolute path"));
    }
    for own in OWN {
        let own = Path::new(own);
        if own.starts_with(shown) {
            return refused(format!(
                "`{name}` would hide the session's own `{}`",
                own.display()
            ));
        }
        if shown.starts_with(own) && !allowed.iter().any(|place| own == Path::new(place)) {
            return refused(format!(
                "`{name}` lies below `{}`, which is the session's own",
                own.display()
            ));
        }
    }
    Ok(())
}

/// What is mounted here from now on stays here (mount_namespaces(7)).
fn detach() -> Result<(), Failure> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .mount(|| "mount(2) of `/` as private".into())
}

/// A tmpfs, nosuid and nodev always.
pub(crate) fn tmpfs(at: &Path, options: &str, more: MsFlags) -> Result<(), Failure> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | more;
    mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options))
        .mount(|| format!("mount(2) of a tmpfs for `{}`", at.display()))
}

/// Changes what a tmpfs may hold; `more` is as it was mounted.
pub(crate) fn grow(at: &Path, share: Share, more: MsFlags) -> Result<(), Failure> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | more;
    let none = None::<&str>;
    mount(none, at, none, flags, Some(share.to_string().as_str()))
        .mount(|| format!("mount(2) of the size of `{}`", at.display()))
}

pub(crate) fn symlink(target: impl AsRef<Path>, place: &Path) -> Result<(), Failure> {
    std::os::unix::fs::symlink(target, place)
        .mount(|| format!("symlink(2) of `{}`", place.display()))
}

/// Makes a folder or an empty file to be mounted over, and opens it as a place.
fn make(at: &std::os::fd::OwnedFd, name: &Path, folder: bool) -> io::Result<std::os::fd::OwnedFd> {
    if folder {
        let mode = Mode::from_bits_truncate(0o755);
        nix::sys::stat::mkdirat(at, name, mode)?;
    } else {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
        path::open_beneath(at, name, flags, Mode::from_bits_truncate(0o444))?;
    }
    path::open_beneath(at, name, OFlag::O_PATH, Mode::empty())
}

pub(crate) fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Whether a user who is neither owner nor of the group may do anything with it.
pub(crate) fn is_for_others(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.mode() & 0o007 != 0 && !found.file_type().is_char_device())
}

/// Steps of the mount namespace.
pub(crate) trait Mounting<T> {
    fn mount(self, step: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Mounting<T> for Result<T, E> {
    fn mount(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.of(Layer::MountNamespace, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workspace_covers_or_enters_what_is_the_sessions_own() {
        for good in [
            "/work",
            "/home/alice/project",
            "/root/x",
            "/opt/a",
            "/var/lib/x",
            "/homework",
        ] {
            check_place(Path::new(good), &[]).unwrap();
        }
        for bad in [
            "/",
            "/home",
            "/home/agent",
            "/home/agent/x",
            "/tmp",
            "/tmp/x",
            "/usr/src/x",
            "/etc/x",
            "/run/x",
            "/dev/shm/x",
            "/proc/1",
            "/sys",
            "/bin",
            "relative",
            "/a/../tmp",
            "/a/",
            "",
        ] {
            assert!(check_place(Path::new(bad), &[]).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_operator_may_show_more_but_not_everything() {
        for good in [
            "/usr/local/x",
            "/etc/x",
            "/home/agent/.tool",
            "/opt/node",
            "/root/.pyenv",
        ] {
            check_place(Path::new(good), &OPERATORS).unwrap();
        }
        for bad in [
            "/",
            "/home",
            "/etc",
            "/usr",
            "/tmp/x",
            "/dev/kvm",
            "/proc/sys",
            "/sys/x",
            "/home/agent",
        ] {
            assert!(check_place(Path::new(bad), &OPERATORS).is_err(), "{bad}");
        }
    }
}

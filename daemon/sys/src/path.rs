//! Opening what somebody else named: no symlink is followed, nothing is resolved twice.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

use nix::{
    fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::Mode,
};

/// Opens `path` from the root or the working directory; a symlink anywhere in it is ELOOP
/// (openat2(2), RESOLVE_NO_SYMLINKS). Close-on-exec.
///
/// # Errors
/// As openat2(2).
pub fn open(path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(AT_FDCWD, path, how)?)
}

/// Opens a folder as a place only (`O_PATH | O_DIRECTORY`), no symlink anywhere in `path`.
///
/// # Errors
/// As openat2(2).
pub fn folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY)
}

/// Opens `path` under `folder`: no symlink, no way out by `..` or an absolute path
/// (RESOLVE_BENEATH). `mode` counts when the flags create the file. Close-on-exec.
///
/// # Errors
/// As openat2(2); EXDEV for a way out.
pub fn open_beneath(
    folder: impl AsFd,
    path: &Path,
    flags: OFlag,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        );
    Ok(openat2(folder, path, how)?)
}

/// As [`open_beneath`], and into no mount below `folder` (RESOLVE_NO_XDEV): a file system that a
/// user mounted there is not asked anything.
///
/// # Errors
/// As openat2(2); EXDEV for a way out or a mount.
pub fn open_within(
    folder: impl AsFd,
    path: &Path,
    flags: OFlag,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS
                | ResolveFlag::RESOLVE_NO_XDEV,
        );
    Ok(openat2(folder, path, how)?)
}

/// Whether `path` is absolute and has no `..`, no `.`, no empty component and no NUL: the only
/// form in which a path crosses a border of ours.
pub fn is_plain_absolute(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;

    let bytes = path.as_os_str().as_bytes();
    let whole = !bytes.contains(&0)
        && !bytes.windows(2).any(|two| two == b"//")
        && !bytes.windows(3).any(|three| three == b"/./")
        && !bytes.ends_with(b"/.")
        && (bytes.len() == 1 || !bytes.ends_with(b"/"));
    whole
        && path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::RootDir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_symlink_anywhere_in_the_path_is_refused() {
        let folder_ = tempfile::tempdir().unwrap();
        let real = folder_.path().join("real");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "x").unwrap();
        symlink(&real, folder_.path().join("link")).unwrap();
        symlink(real.join("file"), real.join("last")).unwrap();

        open(&real.join("file"), OFlag::O_RDONLY).unwrap();
        folder(&real).unwrap();
        for bad in [folder_.path().join("link/file"), real.join("last")] {
            let error = open(&bad, OFlag::O_RDONLY).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{bad:?}");
        }
    }

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let inner = parent.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(parent.path().join("outside"), "x").unwrap();
        let at = folder(&inner).unwrap();
        for bad in ["../outside", "/etc/passwd", "a/../../outside"] {
            let opened = open_beneath(&at, Path::new(bad), OFlag::O_RDONLY, Mode::empty());
            assert!(opened.is_err(), "{bad}");
        }
        open_beneath(
            &at,
            Path::new("new"),
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY,
            Mode::S_IRUSR,
        )
        .unwrap();
        assert!(inner.join("new").exists());
    }

    #[test]
    fn only_plain_absolute_paths_are_plain() {
        for good in ["/", "/a", "/a/b.c", "/a/..b"] {
            assert!(is_plain_absolute(Path::new(good)), "{good}");
        }
        for bad in [
            "", "a", "./a", "/a/../b", "/a/./b", "//a", "/a//b", "/a/", "/a/.", "/..", "/a\0b",
        ] {
            assert!(!is_plain_absolute(Path::new(bad)), "{bad}");
        }
    }
}

//! A file that decides must be root's alone to write, and so must each folder above it.

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Why a path is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// A part of the path cannot be looked at.
    #[error("cannot look at `{path}`")]
    Look {
        /// Which part.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another user owns a part of it.
    #[error("`{path}` is owned by uid {uid}; chown it to root")]
    Owner {
        /// Which part.
        path: PathBuf,
        /// Whose.
        uid: u32,
    },
    /// A symbolic link: what it names may change.
    #[error("`{path}` is a symbolic link; name the file itself")]
    Link {
        /// Which part.
        path: PathBuf,
    },
    /// Group or others may write a part of it.
    #[error("`{path}` has mode {mode:04o}; remove write permission for group and others")]
    Writable {
        /// Which part.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// Checks that root owns `path` and every folder above it, that nobody else may write them, and
/// that none is a symbolic link. A folder with the sticky bit that root owns (`/tmp`) is taken:
/// others cannot replace what root put there (inode(7)).
///
/// # Errors
/// See [`Untrusted`].
pub fn root_owned(path: &Path) -> Result<(), Untrusted> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    for part in path.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        let meta = part.symlink_metadata().map_err(|source| Untrusted::Look {
            path: part.into(),
            source,
        })?;
        if meta.file_type().is_symlink() {
            return Err(Untrusted::Link { path: part.into() });
        }
        if meta.uid() != 0 {
            return Err(Untrusted::Owner {
                path: part.into(),
                uid: meta.uid(),
            });
        }
        let mode = meta.mode() & 0o7777;
        let sticky = meta.is_dir() && mode & STICKY != 0;
        if mode & OTHERS_WRITE != 0 && !sticky {
            return Err(Untrusted::Writable {
                path: part.into(),
                mode,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn a_file_that_others_may_write_or_a_link_is_not_trusted() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root, for a file that root owns");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        root_owned(&file).unwrap();

        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(matches!(root_owned(&file), Err(Untrusted::Writable { .. })));

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(matches!(root_owned(&link), Err(Untrusted::Link { .. })));
    }

    #[test]
    fn a_file_of_another_user_is_not_trusted() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root, to give a file away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::chown(&file, Some(1000), None).unwrap();
        assert!(matches!(
            root_owned(&file),
            Err(Untrusted::Owner { uid: 1000, .. })
        ));
    }
}

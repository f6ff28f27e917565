//! Where credentials lie. custodyd opens the files and hands the descriptors to the vault; it
//! never reads them.

use std::{
    env, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use custody_config::{CredentialSource, Untrusted, root_owned};
use custody_sys::path;
use gate::id::CredentialLabel;
use nix::{
    fcntl::OFlag,
    sys::stat::{SFlag, fstat},
};

/// The largest credential: what a vault keeps in locked memory.
const SIZE_MAX: i64 = 64 << 10;

/// Why a credential's file is not taken.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// No `$CREDENTIALS_DIRECTORY`.
    #[error(
        "credential `{label}`: `{name}` is to come from systemd, and $CREDENTIALS_DIRECTORY is \
         not set; add `LoadCredential={name}:…` to the unit"
    )]
    NoDirectory {
        /// Whose.
        label: CredentialLabel,
        /// The name in the directory.
        name: String,
    },
    /// A name that is a path.
    #[error("credential `{label}`: systemd's name `{name}` must be a plain file name")]
    NotAName {
        /// Whose.
        label: CredentialLabel,
        /// The name.
        name: String,
    },
    /// Not a regular file.
    #[error("credential `{label}`: `{path}` is not a regular file")]
    NotRegular {
        /// Whose.
        label: CredentialLabel,
        /// Its path.
        path: PathBuf,
    },
    /// It cannot be opened.
    #[error("credential `{label}`: cannot open `{path}`")]
    Open {
        /// Whose.
        label: CredentialLabel,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read it.
    #[error(
        "credential `{label}`: `{path}` has mode {mode:04o}; others than root may use it: \
         `chmod 0600 {path}`"
    )]
    Readable {
        /// Whose.
        label: CredentialLabel,
        /// Its path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Empty, or too large.
    #[error("credential `{label}`: `{path}` has {size} bytes; 1 to {SIZE_MAX} are allowed")]
    Size {
        /// Whose.
        label: CredentialLabel,
        /// Its path.
        path: PathBuf,
        /// Its size.
        size: i64,
    },
    /// Others may change it.
    #[error("credential `{label}`: `{path}` is not trusted")]
    Untrusted {
        /// Whose.
        label: CredentialLabel,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: Untrusted,
    },
}

/// Opens the file of `label`, read-only, and checks what was opened.
///
/// # Errors
/// See [`CredentialError`].
pub fn open(
    label: &CredentialLabel,
    source: &CredentialSource,
) -> Result<OwnedFd, CredentialError> {
    let at = place(
        label,
        source,
        env::var_os("CREDENTIALS_DIRECTORY")
            .as_deref()
            .map(Path::new),
    )?;
    root_owned(&at).map_err(|source| match source {
        // A file that is not there is said in the plain words of open(2).
        Untrusted::Look { source, .. } => CredentialError::Open {
            label: label.clone(),
            path: at.clone(),
            source,
        },
        source
        @ (Untrusted::Link { .. } | Untrusted::Owner { .. } | Untrusted::Writable { .. }) => {
            CredentialError::Untrusted {
                label: label.clone(),
                path: at.clone(),
                source,
            }
        }
    })?;
    let failed = |source| CredentialError::Open {
        label: label.clone(),
        path: at.clone(),
        source,
    };
    // NONBLOCK: a fifo in its place must not hold us up.
    let fd =
        path::open(&at, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).map_err(failed)?;
    let stat = fstat(&fd).map_err(|errno| failed(errno.into()))?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    let mode = stat.st_mode & 0o7777;
    if kind != SFlag::S_IFREG {
        return Err(CredentialError::NotRegular {
            label: label.clone(),
            path: at,
        });
    }
    if stat.st_uid != 0 || mode & 0o077 != 0 {
        return Err(CredentialError::Readable {
            label: label.clone(),
            path: at,
            mode,
        });
    }
    if !(1..=SIZE_MAX).contains(&stat.st_size) {
        return Err(CredentialError::Size {
            label: label.clone(),
            path: at,
            size: stat.st_size,
        });
    }
    Ok(fd)
}

fn place(
    label: &CredentialLabel,
    source: &CredentialSource,
    directory: Option<&Path>,
) -> Result<PathBuf, CredentialError> {
    match source {
        CredentialSource::File(path) => Ok(path.clone()),
        CredentialSource::Systemd(name) => {
            let plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
            if !plain {
                return Err(CredentialError::NotAName {
                    label: label.clone(),
                    name: name.clone(),
                });
            }
            let directory = directory.ok_or_else(|| CredentialError::NoDirectory {
                label: label.clone(),
                name: name.clone(),
            })?;
            Ok(directory.join(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    fn label() -> CredentialLabel {
        CredentialLabel::parse("mail").unwrap()
    }

    fn opened(path: &Path) -> Result<OwnedFd, CredentialError> {
        open(&label(), &CredentialSource::File(path.into()))
    }

    #[test]
    fn a_file_that_others_may_read_an_empty_a_huge_a_link_or_a_fifo_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let write = |len: usize, mode: u32| {
            fs::write(&file, "x".repeat(len)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        write(10, 0o600);
        opened(&file).unwrap();
        write(10, 0o400);
        opened(&file).unwrap();
        for mode in [0o640, 0o604, 0o601] {
            write(10, mode);
            assert!(
                matches!(opened(&file), Err(CredentialError::Readable { .. })),
                "{mode:o}"
            );
        }
        write(10, 0o620);
        assert!(matches!(
            opened(&file),
            Err(CredentialError::Untrusted { .. })
        ));
        write(0, 0o600);
        assert!(matches!(
            opened(&file),
            Err(CredentialError::Size { size: 0, .. })
        ));
        write((64 << 10) + 1, 0o600);
        assert!(matches!(opened(&file), Err(CredentialError::Size { .. })));

        write(10, 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(matches!(
            opened(&link),
            Err(CredentialError::Untrusted { .. })
        ));
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(
            opened(&fifo),
            Err(CredentialError::NotRegular { .. })
        ));
        assert!(matches!(
            opened(&folder.path().join("none")),
            Err(CredentialError::Open { .. })
        ));
    }

    #[test]
    fn a_credential_of_systemd_is_a_name_in_its_directory() {
        let at = |name: &str, directory: Option<&Path>| {
            place(&label(), &CredentialSource::Systemd(name.into()), directory)
        };
        let directory = Path::new("/run/credentials/custodyd.service");
        assert_eq!(
            at("token", Some(directory)).unwrap(),
            directory.join("token")
        );
        assert!(matches!(
            at("token", None),
            Err(CredentialError::NoDirectory { .. })
        ));
        for bad in ["", ".", "..", "../x", "/etc/shadow"] {
            assert!(
                matches!(
                    at(bad, Some(directory)),
                    Err(CredentialError::NotAName { .. })
                ),
                "{bad}"
            );
        }
    }
}

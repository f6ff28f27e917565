//! Where reviewers' public keys lie. custodyd opens the files and hands the descriptors to the vault; it
//! never reads them.

use std::{fs, io, os::fd::OwnedFd, path::Path};

use custody_config::{Untrusted, root_owned};
use custody_sys::path;
use nix::{
    fcntl::OFlag,
    sys::stat::{SFlag, fstat},
};

/// The largest file; the vault reads no more.
const SIZE_MAX: i64 = 64 << 10;

/// The most reviewers.
const REVIEWERS_MAX: usize = 256;

/// The list of keys that count no longer.
const REVOKED: &str = "revoked";

/// What is handed to the vault.
#[derive(Debug, Default)]
pub struct Reviewers {
    /// Each reviewer's file, by its name without `.pub`.
    pub keys: Vec<(String, OwnedFd)>,
    /// The list of keys that count no longer, if there is one.
    pub revoked: Option<OwnedFd>,
}

/// Why the reviewers' folder is not used. Then nobody's signature counts.
#[derive(Debug, thiserror::Error)]
pub enum ReviewersError {
    /// It cannot be listed.
    #[error("cannot list the reviewers in `{folder}`")]
    List {
        /// The folder.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// A file is not a regular one of a size that is read, or cannot be opened.
    #[error("reviewer's file `{file}`: {why}")]
    File {
        /// Which.
        file: String,
        /// Why.
        why: String,
    },
    /// More than anybody oversees.
    #[error("`{folder}` has more than {REVIEWERS_MAX} reviewers")]
    Many {
        /// The folder.
        folder: String,
    },
    /// Others may change it.
    #[error("reviewer's file `{file}` is not trusted")]
    Untrusted {
        /// Which.
        file: String,
        /// Why.
        source: Untrusted,
    },
}

/// Opens every reviewer's file in `folder`. A folder that is not there has none.
///
/// # Errors
/// When one cannot be trusted: then none is, since it may be the one that says who counts no longer.
pub fn open(folder: &Path) -> Result<Reviewers, ReviewersError> {
    let shown = || folder.display().to_string();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reviewers::default()),
        Err(source) => {
            return Err(ReviewersError::List {
                folder: shown(),
                source,
            });
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| ReviewersError::List {
            folder: shown(),
            source,
        })?;
        // Editors leave files of other names behind; a name that is no text is none of ours.
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    let mut reviewers = Reviewers::default();
    for name in names {
        if name == REVOKED {
            reviewers.revoked = Some(file(&folder.join(&name))?);
        } else if let Some(reviewer) = name.strip_suffix(".pub").filter(|it| is_plain(it)) {
            if reviewers.keys.len() == REVIEWERS_MAX {
                return Err(ReviewersError::Many { folder: shown() });
            }
            let fd = file(&folder.join(&name))?;
            reviewers.keys.push((reviewer.into(), fd));
        }
    }
    Ok(reviewers)
}

/// What a log line shows as it is.
fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@'))
}

fn file(at: &Path) -> Result<OwnedFd, ReviewersError> {
    let shown = at.display().to_string();
    let failed = |why: String| ReviewersError::File {
        file: shown.clone(),
        why,
    };
    root_owned(at).map_err(|source| ReviewersError::Untrusted {
        file: shown.clone(),
        source,
    })?;
    // NONBLOCK: a fifo in its place must not hold us up.
    let fd = path::open(at, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .map_err(|error| failed(error.to_string()))?;
    let stat = fstat(&fd).map_err(|errno| failed(errno.to_string()))?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(failed("it is not a regular file".into()));
    }
    if stat.st_size > SIZE_MAX {
        return Err(failed(format!("it has more than {SIZE_MAX} bytes")));
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_that_is_not_there_has_no_reviewers() {
        let none = open(Path::new("/no/such/folder")).unwrap();
        assert!(none.keys.is_empty() && none.revoked.is_none());
    }

    #[test]
    fn each_file_is_a_reviewers_and_one_that_others_may_write_makes_all_of_them_none() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32| {
            let at = folder.path().join(name);
            fs::write(&at, "x\n").unwrap();
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("bob.pub", 0o644);
        write("alice.pub", 0o600);
        write("revoked", 0o644);
        write("alice.pub~", 0o666);
        write("a b.pub", 0o666);
        let found = open(folder.path()).unwrap();
        let names: Vec<&str> = found.keys.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["alice", "bob"]);
        assert!(found.revoked.is_some());
        write("mallory.pub", 0o666);
        assert!(matches!(
            open(folder.path()),
            Err(ReviewersError::Untrusted { .. })
        ));
        fs::remove_file(folder.path().join("mallory.pub")).unwrap();
        let link = folder.path().join("link.pub");
        std::os::unix::fs::symlink(folder.path().join("bob.pub"), &link).unwrap();
        assert!(matches!(
            open(folder.path()),
            Err(ReviewersError::Untrusted { .. })
        ));
    }
}

//! What lies in the workspace: sockets, FIFOs, credentials.
//!
//! The folder is a user's and may be hostile: no symlink is followed, no mount is entered, at most
//! [`ENTRIES_MAX`] entries are listed, the nearest first, and only regular files are opened. Its file
//! system is one of the kernel's own by then (`crate::workspace`), so nothing blocks.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Read as _},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::FileTypeExt as _,
    },
    path::{Path, PathBuf},
};

use custody_sys::path;
use custody_wire::refused::Refused;
use nix::{
    fcntl::OFlag,
    sys::stat::{Mode, SFlag, fstat},
};

use super::{
    Finding,
    credentials::{self, Holds},
    sockets,
};

/// The most entries that are listed. 8,192 take some milliseconds; the loop has other sessions.
const ENTRIES_MAX: usize = 8_192;

/// The deepest folder.
const DEPTH_MAX: usize = 16;

/// The most findings: the first few are enough to act on.
const FOUND_MAX: usize = 16;

/// What is read of a file that may be a credential.
const READ_MAX: u64 = 16 << 10;

/// The most files that are opened.
const OPENED_MAX: usize = 256;

/// Looks through `folder`.
pub fn look(folder: impl AsFd) -> Vec<Finding> {
    let mut walk = Walk::default();
    let mut waiting = VecDeque::from([(PathBuf::new(), 0_usize)]);
    while let Some((below, depth)) = waiting.pop_front() {
        if walk.incomplete {
            break;
        }
        match walk.list(folder.as_fd(), &below) {
            Ok(folders) if depth < DEPTH_MAX => {
                waiting.extend(folders.into_iter().map(|it| (it, depth.saturating_add(1))));
            }
            Ok(folders) => walk.incomplete |= !folders.is_empty(),
            Err(error) => walk.unseen(&below, &error),
        }
    }
    if walk.incomplete {
        walk.findings.push(Finding::rest(
            Refused::WorkspaceCredential,
            format!(
                "it holds more than is looked at ({ENTRIES_MAX} entries, folders {DEPTH_MAX} deep, \
                 {OPENED_MAX} files with a credential's name); use a smaller folder"
            ),
        ));
    }
    walk.findings
}

#[derive(Default)]
struct Walk {
    findings: Vec<Finding>,
    /// Whether there is more than was looked at.
    incomplete: bool,
    entries: usize,
    opened: usize,
}

impl Walk {
    /// Looks at the entries of one folder, and returns its folders.
    fn list(&mut self, root: impl AsFd + Copy, below: &Path) -> io::Result<Vec<PathBuf>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
        let at = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        let opened = path::open_within(root, at, flags, Mode::empty())?;
        let mut folders = Vec::new();
        for entry in fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))? {
            let entry = entry?;
            self.entries = self.entries.saturating_add(1);
            if self.entries > ENTRIES_MAX || self.findings.len() >= FOUND_MAX {
                self.incomplete = true;
                break;
            }
            // By the folder's own table where that says it (readdir(3), d_type).
            let kind = entry.file_type()?;
            let name = entry.file_name();
            let place = below.join(&name);
            if kind.is_dir() {
                folders.push(place);
            } else if kind.is_fifo() {
                self.find(Refused::WorkspaceFifo, &place);
            } else if kind.is_socket() {
                let whose = sockets::whose(&place, Refused::WorkspaceSocket);
                self.find(whose, &place);
            } else if kind.is_file() {
                let folder = below.file_name().unwrap_or_default().to_string_lossy();
                if let Some(holds) = credentials::holds(&folder, &name.to_string_lossy()) {
                    self.open(root, &place, holds);
                }
            }
        }
        Ok(folders)
    }

    fn open(&mut self, root: impl AsFd, place: &Path, holds: Holds) {
        if self.opened >= OPENED_MAX {
            self.incomplete = true;
            return;
        }
        self.opened = self.opened.saturating_add(1);
        match beginning(root, place) {
            Ok(bytes) if holds.is_in(&bytes) => {
                self.find(Refused::WorkspaceCredential, place);
            }
            Ok(_) => {}
            Err(error) => self.unseen(place, &error),
        }
    }

    fn find(&mut self, which: Refused, place: &Path) {
        let name = format!("`{}` in it", place.display());
        self.findings.push(Finding::new(which, name));
    }

    /// What is there and cannot be opened may be anything; what was removed meanwhile is nothing.
    fn unseen(&mut self, place: &Path, error: &io::Error) {
        let is_own = place.as_os_str().is_empty();
        if error.kind() == io::ErrorKind::NotFound && !is_own {
            return;
        }
        if self.findings.len() >= FOUND_MAX {
            self.incomplete = true;
            return;
        }
        let what = if is_own {
            "the workspace".to_owned()
        } else {
            format!("`{}` in it", place.display())
        };
        self.findings
            .push(Finding::unseen(Refused::WorkspaceCredential, &what, error));
    }
}

/// The first bytes of a regular file. NONBLOCK: a FIFO that took its place must not hold us up.
fn beginning(root: impl AsFd, place: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened: OwnedFd = path::open_within(root, place, flags, Mode::empty())?;
    let kind = SFlag::from_bits_truncate(fstat(&opened)?.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    fs::File::from(opened)
        .take(READ_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(folder: &Path) -> Vec<Finding> {
        look(path::folder(folder).unwrap())
    }

    #[test]
    fn sockets_fifos_and_credentials_are_found_however_deep_and_links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join(".netrc"), "password fake").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        assert!(seen(folder.path()).is_empty());
        std::os::unix::fs::symlink(outside.path(), at("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join(".netrc"), at(".netrc")).unwrap();
        assert!(seen(folder.path()).is_empty());

        nix::unistd::mkfifo(&at("a/b/fifo"), Mode::S_IRWXU).unwrap();
        nix::unistd::mkfifo(&at(".env"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("a/docker.sock")).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(at("a/app")).unwrap();
        fs::write(at("a/b/.env"), "DB_PASSWORD=fake-for-tests\n").unwrap();
        let found = seen(folder.path());
        let mut found: Vec<_> = found
            .iter()
            .map(|it| (it.which, it.found.as_str()))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                (Refused::ContainerSocket, "`a/docker.sock` in it"),
                (Refused::WorkspaceCredential, "`a/b/.env` in it"),
                (Refused::WorkspaceFifo, "`.env` in it"),
                (Refused::WorkspaceFifo, "`a/b/fifo` in it"),
                (Refused::WorkspaceSocket, "`a/app` in it"),
            ]
        );
    }

    #[test]
    fn what_is_there_and_cannot_be_opened_counts_as_found() {
        let folder = tempfile::tempdir().unwrap();
        // The path of what lies in the deepest folder is longer than a path may be.
        let mut at = path::folder(folder.path()).unwrap();
        for _ in 0..DEPTH_MAX {
            let below = format!("/proc/self/fd/{}/{}", at.as_raw_fd(), "a".repeat(255));
            fs::create_dir(&below).unwrap();
            at = fs::File::open(&below).unwrap().into();
        }
        assert!(seen(folder.path()).is_empty());
        let hidden = format!("/proc/self/fd/{}/.netrc", at.as_raw_fd());
        fs::write(hidden, "password fake").unwrap();
        let seen = seen(folder.path());
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].which == Refused::WorkspaceCredential && !seen[0].is_rest);
    }

    #[test]
    fn a_folder_with_more_than_can_be_listed_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=ENTRIES_MAX {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        let seen = seen(folder.path());
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].which == Refused::WorkspaceCredential && seen[0].is_rest);
    }
}

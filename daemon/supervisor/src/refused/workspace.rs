//! What lies in the workspace: sockets, FIFOs, credentials.
//!
//! The folder is a user's and may be hostile or huge: no symlink is followed, no mount is entered, at
//! most [`ENTRIES_MAX`] entries are listed, the nearest first, for at most [`TIME_MAX`], and only
//! regular files are opened. Its file system is one of the kernel's own by then (`crate::workspace`), so
//! nothing blocks but a disk.
//!
//! What lies beyond these bounds is not known. `hardened` starts only where everything was looked at,
//! and says which bound it was; the others start, and say the same.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Read as _},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::FileTypeExt as _,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
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

/// The most entries that are listed: a large repository with what was built in it. From memory they
/// take some tens of milliseconds.
const ENTRIES_MAX: usize = 65_536;

/// How long it may take: from a cold disk some thousand entries take longer, and whoever ordered the
/// session waits, and with him his next.
const TIME_MAX: Duration = Duration::from_millis(300);

/// Entries between two looks at the clock.
const CLOCK_EVERY: usize = 64;

/// The deepest folder. Dependencies of dependencies lie deep.
const DEPTH_MAX: usize = 64;

/// The most findings: the first few are enough to act on.
const FOUND_MAX: usize = 16;

/// What is read of a file that may be a credential.
const READ_MAX: u64 = 16 << 10;

/// The most files that are opened.
const OPENED_MAX: usize = 256;

/// Looks through `folder`.
pub fn look(folder: impl AsFd) -> Vec<Finding> {
    look_until(folder, Instant::now() + TIME_MAX)
}

fn look_until(folder: impl AsFd, end: Instant) -> Vec<Finding> {
    let mut walk = Walk {
        end,
        findings: Vec::new(),
        beyond: None,
        entries: 0,
        opened: 0,
    };
    let mut waiting = VecDeque::from([(PathBuf::new(), 0_usize)]);
    while let Some((below, depth)) = waiting.pop_front() {
        if walk.beyond.is_some() {
            break;
        }
        match walk.list(folder.as_fd(), &below) {
            Ok(folders) if depth < DEPTH_MAX => {
                waiting.extend(folders.into_iter().map(|it| (it, depth.saturating_add(1))));
            }
            Ok(folders) if folders.is_empty() => {}
            Ok(_) => walk.leave(Bound::Depth),
            Err(error) => walk.unseen(&below, &error),
        }
    }
    if let Some(bound) = walk.beyond {
        let found = format!("it was not looked through: {}", bound.words());
        let rest = Finding::rest(Refused::WorkspaceCredential, found);
        walk.findings.push(rest);
    }
    walk.findings
}

/// What ended a look before its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Bound {
    Depth,
    Entries,
    Found,
    Opened,
    Time,
}

impl Bound {
    /// What it is, and what to do.
    fn words(self) -> String {
        let smaller = "use a smaller folder, without what was built and downloaded";
        match self {
            Self::Depth => format!("its folders are more than {DEPTH_MAX} deep; {smaller}"),
            Self::Entries => format!("it holds more than {ENTRIES_MAX} entries; {smaller}"),
            Self::Found => format!("it holds {FOUND_MAX} things that were found, and more"),
            Self::Opened => format!(
                "more than {OPENED_MAX} files in it are named as credentials are; {smaller}"
            ),
            Self::Time => format!(
                "that takes longer than {} ms; try again, for what was read once is read faster, or \
                 {smaller}",
                TIME_MAX.as_millis()
            ),
        }
    }
}

struct Walk {
    end: Instant,
    findings: Vec<Finding>,
    /// Why there is more than was looked at.
    beyond: Option<Bound>,
    entries: usize,
    opened: usize,
}

impl Walk {
    /// The first bound counts.
    fn leave(&mut self, bound: Bound) {
        self.beyond.get_or_insert(bound);
    }

    /// Whether one entry more is looked at.
    fn goes_on(&mut self) -> bool {
        self.entries = self.entries.saturating_add(1);
        if self.entries > ENTRIES_MAX {
            self.leave(Bound::Entries);
        } else if self.findings.len() >= FOUND_MAX {
            self.leave(Bound::Found);
        } else if self.entries.is_multiple_of(CLOCK_EVERY) {
            self.look_at_the_clock();
        }
        self.beyond.is_none()
    }

    fn look_at_the_clock(&mut self) {
        if Instant::now() >= self.end {
            self.leave(Bound::Time);
        }
    }

    /// Looks at the entries of one folder, and returns its folders.
    fn list(&mut self, root: impl AsFd + Copy, below: &Path) -> io::Result<Vec<PathBuf>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
        let at = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        self.look_at_the_clock();
        let opened = path::open_within(root, at, flags, Mode::empty())?;
        let mut folders = Vec::new();
        for entry in fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))? {
            let entry = entry?;
            if !self.goes_on() {
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
            self.leave(Bound::Opened);
            return;
        }
        self.look_at_the_clock();
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

    /// What is there and cannot be opened may be anything. What was removed meanwhile is nothing, and
    /// so is what became a link: no link is followed here, nor would the session come out of its own
    /// root by one.
    fn unseen(&mut self, place: &Path, error: &io::Error) {
        let is_own = place.as_os_str().is_empty();
        let is_gone = error.kind() == io::ErrorKind::NotFound
            || error.raw_os_error() == Some(nix::libc::ELOOP);
        if is_gone && !is_own {
            return;
        }
        if self.findings.len() >= FOUND_MAX {
            self.leave(Bound::Found);
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
    fn a_folder_that_became_a_link_meanwhile_is_a_link() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("was-a-folder")).unwrap();
        let root = path::folder(folder.path()).unwrap();
        let mut walk = Walk {
            end: Instant::now() + Duration::from_secs(600),
            findings: Vec::new(),
            beyond: None,
            entries: 0,
            opened: 0,
        };
        let place = Path::new("was-a-folder");
        let error = walk.list(root.as_fd(), place).unwrap_err();
        walk.unseen(place, &error);
        assert_eq!(walk.findings, []);
        walk.unseen(Path::new(""), &error);
        assert_eq!(walk.findings.len(), 1);
    }

    #[test]
    fn what_is_there_and_cannot_be_opened_counts_as_found() {
        let folder = tempfile::tempdir().unwrap();
        // The path of what lies in the deepest folder is longer than a path may be.
        let mut at = path::folder(folder.path()).unwrap();
        for _ in 0..16 {
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

    /// That it was not looked through, and why.
    fn rest(seen: &[Finding]) -> &str {
        let [only] = seen else {
            panic!("{seen:?}");
        };
        assert!(only.which == Refused::WorkspaceCredential && only.is_rest);
        &only.found
    }

    #[test]
    fn a_folder_with_more_than_can_be_listed_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let end = Instant::now() + Duration::from_secs(600);
        let looked = || look_until(path::folder(folder.path()).unwrap(), end);
        for number in 0..ENTRIES_MAX {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(looked(), []);
        fs::write(folder.path().join("one more"), "").unwrap();
        assert!(rest(&looked()).contains("more than 65536 entries"));
    }

    #[test]
    fn a_folder_that_takes_too_long_says_so_and_keeps_nobody_longer() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".netrc"), "password fake").unwrap();
        let late = Instant::now();
        let seen = look_until(path::folder(folder.path()).unwrap(), late);
        assert!(rest(&seen).contains("longer than 300 ms"), "{seen:?}");
    }

    #[test]
    fn folders_deeper_than_any_that_is_looked_at_say_so() {
        let folder = tempfile::tempdir().unwrap();
        let deepest: PathBuf = (0..DEPTH_MAX).map(|_| "d").collect();
        fs::create_dir_all(folder.path().join(&deepest)).unwrap();
        assert_eq!(seen(folder.path()), []);
        fs::create_dir_all(folder.path().join(&deepest).join("d")).unwrap();
        assert!(rest(&seen(folder.path())).contains("more than 64 deep"));
    }
}

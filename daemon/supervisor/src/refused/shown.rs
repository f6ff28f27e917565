//! What the session's root shows of the host: sockets that somebody outside listens at, and the
//! credentials' files. Through /proc/PID/root, which is the root of the very process.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use custody_wire::{launch::LISTENER, refused::Refused};
use nix::{
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::{SFlag, fstat},
};

use super::{Finding, sockets};

/// What must not be in it.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// The folders of the host that it shows besides the system's: the policy's and the workspace.
    pub places: &'a [PathBuf],
    /// The credentials' files, and Custody's own folders.
    pub secret: &'a [PathBuf],
}

/// The most sockets that are named.
const FOUND_MAX: usize = 16;

/// Looks into the root of process `pid`.
pub fn look(pid: i32, looked: Looked<'_>) -> Vec<Finding> {
    let root = match nix::fcntl::open(
        format!("/proc/{pid}/root").as_str(),
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        nix::sys::stat::Mode::empty(),
    ) {
        Ok(root) => root,
        Err(error) => {
            return vec![Finding::unseen(
                Refused::CredentialShown,
                "its root",
                &error,
            )];
        }
    };
    let mut findings = secrets(&root, looked.secret);
    match bound() {
        Ok(paths) => findings.extend(reachable(&root, &paths, looked.places)),
        Err(error) => findings.push(Finding::unseen(
            Refused::SystemdSocket,
            "/proc/net/unix",
            &error,
        )),
    }
    findings
}

/// The same file, by device and inode, under the same name: a file of the session's own is another.
/// What is on neither side is not shown; what cannot be looked at counts as shown.
fn secrets(root: impl AsFd + Copy, secret: &[PathBuf]) -> Vec<Finding> {
    secret
        .iter()
        .filter_map(|path| {
            let name = format!("`{}`", path.display());
            let outside = nix::sys::stat::lstat(path.as_path()).map_err(io::Error::from);
            let inside = inside(root, path).and_then(|fd| Ok(fstat(&fd)?));
            match (outside, inside) {
                (Ok(outside), Ok(inside)) => ((outside.st_dev, outside.st_ino)
                    == (inside.st_dev, inside.st_ino))
                    .then(|| Finding::new(Refused::CredentialShown, name)),
                (Err(error), _) | (_, Err(error)) if is_nothing(&error) => None,
                (Err(error), _) | (_, Err(error)) => {
                    Some(Finding::unseen(Refused::CredentialShown, &name, &error))
                }
            }
        })
        .collect()
}

/// Whether nothing has that name.
fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotADirectory | io::ErrorKind::NotFound
    )
}

/// Every path that a socket of the host's network namespace is bound to (`unix_seq_show` in
/// net/unix/af_unix.c; the path is the eighth field, and may hold spaces).
fn bound() -> io::Result<BTreeSet<PathBuf>> {
    let table = fs::read("/proc/net/unix")?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.windows(2).position(|two| two == b" /")?;
            let path = line.get(at.saturating_add(1)..)?;
            Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
        })
        .collect())
}

fn reachable(
    root: impl AsFd + Copy,
    paths: &BTreeSet<PathBuf>,
    places: &[PathBuf],
) -> Vec<Finding> {
    paths
        .iter()
        // Only there: a path of anybody's must not lead us anywhere else, and the session's own
        // folders hold nothing of the host.
        .filter(|path| places.iter().any(|place| path.starts_with(place)))
        .filter(|path| path.as_path() != Path::new(LISTENER))
        .filter(|path| {
            inside(root, path)
                .and_then(|fd| Ok(fstat(&fd)?))
                .is_ok_and(|stat| {
                    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK
                })
        })
        .take(FOUND_MAX)
        .map(|path| {
            let whose = sockets::whose(path, Refused::WorkspaceSocket);
            Finding::new(whose, format!("`{}`", path.display()))
        })
        .collect()
}

/// Opens `path` as a place in `root`; no symlink leads out of it, and nothing is opened in earnest.
fn inside(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(root, path, how)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_socket_under_a_shown_folder_and_a_credential_are_found_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let named = place.join("a b.sock");
        let _socket = std::os::unix::net::UnixListener::bind(&named).unwrap();
        let token = place.join("token");
        fs::write(&token, "fake").unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let found = |places: &[PathBuf], secret: &[PathBuf]| look(own, Looked { places, secret });
        let sockets = found(std::slice::from_ref(&place), &[]);
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        assert_eq!(sockets[0].which, Refused::WorkspaceSocket);
        assert!(found(&[place.join("other")], &[]).is_empty());
        let shown = found(
            &[],
            &[token.clone(), place.join("none"), token.join("none")],
        );
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].which, Refused::CredentialShown);
        // Such a name cannot be looked up: what has it may be shown.
        let unseen = found(&[], &[place.join("a".repeat(300))]);
        assert_eq!(unseen.len(), 1);
        assert!(
            unseen[0].found.contains("cannot be looked at"),
            "{unseen:?}"
        );
    }
}

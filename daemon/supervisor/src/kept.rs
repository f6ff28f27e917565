//! The operators' listener outlives custodyd: the service manager keeps it (sd_notify(3), FDSTORE=1)
//! and gives it back at the next start (sd_listen_fds(3)). Whoever connects in between waits in its
//! queue. Sessions are not kept: they end with custodyd.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::AsFd as _,
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::Path,
};

use custody_sys::{channel, fd};
use nix::sys::socket::{getsockopt, sockopt::AcceptConn};

/// Its name at the service manager.
const NAME: &str = "control";

/// The listener that an earlier run left, if there is one. To be called at the start of `main`,
/// before anything is opened.
pub fn take() -> Option<UnixListener> {
    let kept = sd_notify::listen_fds_with_names()
        .inspect_err(|error| tracing::warn!(%error, "what the service manager kept"))
        .ok()?;
    let mut listener = None;
    for (number, name) in kept {
        match fd::take(number) {
            Ok(fd) if name == NAME => listener = Some(UnixListener::from(fd)),
            // Nothing else was given to it: closed.
            Ok(_other) => tracing::warn!(number, name, "a descriptor that is not known"),
            Err(error) => tracing::warn!(number, %error, "a descriptor that was kept"),
        }
    }
    listener
}

/// Whether `listener` still is the one at `path`: the very socket, and it listens.
pub fn is_at(listener: &UnixListener, path: &Path) -> bool {
    let bound = listener
        .local_addr()
        .is_ok_and(|at| at.as_pathname() == Some(path));
    let listens = getsockopt(&listener.as_fd(), AcceptConn).unwrap_or(false);
    bound && listens && path.symlink_metadata().is_ok()
}

/// Gives a copy to the service manager. Without one, or one that keeps nothing, nothing happens.
pub fn give(listener: &UnixListener) {
    let Some(manager) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    // One that is no longer at its path would take the only place.
    let removed = format!("FDSTOREREMOVE=1\nFDNAME={NAME}\n");
    let state = format!("FDSTORE=1\nFDNAME={NAME}\n");
    let given = connect(&manager).and_then(|manager| {
        channel::send(&manager, removed.as_bytes(), &[])?;
        channel::send(&manager, state.as_bytes(), &[listener.as_fd()])
    });
    if let Err(error) = given {
        tracing::warn!(%error, "the operators' listener is not kept");
    }
}

/// A path, or the name of an abstract socket behind `@` (sd_notify(3)).
fn connect(manager: &OsStr) -> io::Result<UnixDatagram> {
    let at = match manager.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(manager)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&at)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_taken_up_again_only_where_it_still_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(is_at(&listener, &path));
        assert!(!is_at(&listener, &folder.path().join("other")));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&listener, &path), "nobody could connect to it");
    }
}

//! Whose order it is. custody-control passes on the operator's own connection, and the kernel says
//! who is at its other end: a control that was taken over can name no user who did not connect to
//! it, so it gives nobody else's folder to a session.

use std::{
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::net::UnixListener,
    },
};

use custody_sys::peer;
use custody_wire::supervise::StartRefusal;
use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{UnixAddr, getsockname, getsockopt, sockopt::AcceptConn},
};

use super::{Custodyd, closing};

/// Why an order is nobody's.
#[derive(Debug, thiserror::Error)]
enum CallerError {
    /// It was accepted at another socket, or is the end that connected.
    #[error("it was not accepted at the operators' socket")]
    Elsewhere,
    /// Its other end is closed.
    #[error("whoever made it has gone")]
    Gone,
    /// The listener itself, whose "peer" is its maker: root.
    #[error("it is a listener")]
    Listener,
    /// The kernel does not say.
    #[error("it cannot be looked at: {0}")]
    Look(#[from] io::Error),
    /// None came.
    #[error("none came")]
    None,
    /// Control says another.
    #[error("it is of uid {found}, and the order says {said}")]
    Other {
        /// Who connected.
        found: u32,
        /// Whom the order names.
        said: u32,
    },
}

impl Custodyd {
    /// The uid that made `connection`, which must be the one that control says.
    pub(super) fn caller_of(
        &self,
        connection: Option<OwnedFd>,
        said: u32,
    ) -> Result<u32, StartRefusal> {
        let found = caller_of(&self.listener, connection.as_ref(), said);
        if let Some(connection) = connection {
            closing::connection(connection);
        }
        found.map_err(|error| {
            tracing::error!(%error, said, "an order without the operator's own connection");
            StartRefusal::Order {
                why: format!("the order came without the operator's own connection: {error}"),
            }
        })
    }
}

fn caller_of(
    listener: &UnixListener,
    connection: Option<&OwnedFd>,
    said: u32,
) -> Result<u32, CallerError> {
    let connection = connection.ok_or(CallerError::None)?;
    let at: UnixAddr = getsockname(connection.as_raw_fd()).map_err(io::Error::from)?;
    // An accepted socket has its listener's address, the end that connected has none (unix(7)).
    match (at.path(), listener.local_addr()?.as_pathname()) {
        (Some(at), Some(ours)) if at == ours => {}
        (Some(_) | None, _) => return Err(CallerError::Elsewhere),
    }
    if getsockopt(&connection.as_fd(), AcceptConn).map_err(io::Error::from)? {
        return Err(CallerError::Listener);
    }
    // A control that was taken over could keep those of users who have long left.
    let half = PollFlags::from_bits_retain(libc::POLLRDHUP);
    let over = PollFlags::POLLHUP | half;
    let mut ends = [PollFd::new(connection.as_fd(), half)];
    poll(&mut ends, PollTimeout::ZERO).map_err(io::Error::from)?;
    let [end] = &ends;
    // None: with bits that nix does not name.
    if end.revents().is_none_or(|found| found.intersects(over)) {
        return Err(CallerError::Gone);
    }
    let found = peer::credentials(connection)?.uid;
    if found == said {
        Ok(found)
    } else {
        Err(CallerError::Other { found, said })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    struct Ends {
        listener: UnixListener,
        here: UnixStream,
        there: UnixStream,
        _folder: tempfile::TempDir,
    }

    fn connected() -> Ends {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let there = UnixStream::connect(&path).unwrap();
        let (here, _) = listener.accept().unwrap();
        Ends {
            listener,
            here,
            there,
            _folder: folder,
        }
    }

    fn of(ends: &Ends, fd: impl Into<OwnedFd>, said: u32) -> Result<u32, CallerError> {
        caller_of(&ends.listener, Some(&fd.into()), said)
    }

    #[test]
    fn an_order_is_of_whoever_made_the_connection_and_of_nobody_else() {
        let own = nix::unistd::geteuid().as_raw();
        let ends = connected();
        let here = || ends.here.try_clone().unwrap();
        assert_eq!(of(&ends, here(), own).unwrap(), own);
        let refused = of(&ends, here(), own + 1).unwrap_err();
        assert!(
            matches!(refused, CallerError::Other { found, said } if found == own && said == own + 1)
        );
    }

    #[test]
    fn a_connection_whose_maker_has_left_is_nobodys() {
        let own = nix::unistd::geteuid().as_raw();
        let ends = connected();
        let here = ends.here.try_clone().unwrap();
        drop(ends.there);
        let gone = caller_of(&ends.listener, Some(&here.into()), own).unwrap_err();
        assert!(matches!(gone, CallerError::Gone), "{gone}");
    }

    #[test]
    fn what_control_could_make_itself_is_no_operators_connection() {
        let own = nix::unistd::geteuid().as_raw();
        let ends = connected();
        let none = caller_of(&ends.listener, None, own).unwrap_err();
        assert!(matches!(none, CallerError::None));
        // The listener, which it holds: SO_PEERCRED of it is its maker, root.
        let listener = of(&ends, ends.listener.try_clone().unwrap(), own).unwrap_err();
        assert!(matches!(listener, CallerError::Listener), "{listener}");
        // The end of a connection that it made itself: the peer is who listens, root.
        let there = of(&ends, ends.there.try_clone().unwrap(), own).unwrap_err();
        assert!(matches!(there, CallerError::Elsewhere), "{there}");
        let (pair, _other) = UnixStream::pair().unwrap();
        let pair = of(&ends, pair, own).unwrap_err();
        assert!(matches!(pair, CallerError::Elsewhere), "{pair}");
        let other = connected();
        let elsewhere = of(&ends, other.here.try_clone().unwrap(), own).unwrap_err();
        assert!(matches!(elsewhere, CallerError::Elsewhere), "{elsewhere}");
        let file = std::fs::File::open("/dev/null").unwrap();
        let file = of(&ends, file, own).unwrap_err();
        assert!(matches!(file, CallerError::Look(_)), "{file}");
    }
}

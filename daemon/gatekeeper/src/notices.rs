//! The channel to custodyd: notices in, with descriptors beside them; heads out.

use std::{io, os::fd::OwnedFd};

use custody_sys::channel;
use custody_wire::{
    Message as _,
    frame::{self, FrameError},
    supervise::{GateNotice, Head},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Why the channel is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// custodyd is gone.
    #[error("custodyd closed the channel")]
    Closed,
    /// recvmsg(2) or the reactor failed.
    #[error("the channel to custodyd failed")]
    Io(#[source] io::Error),
    /// Not a notice.
    #[error("custodyd sent what is not a notice")]
    Parse(#[source] FrameError),
    /// A notice that goes with a descriptor came without, or the other way round.
    #[error("custodyd sent {found} descriptors with a notice that has {expected}")]
    Descriptors {
        /// How many it has.
        expected: usize,
        /// How many came.
        found: usize,
    },
}

/// The channel.
#[derive(Debug)]
pub(crate) struct Notices {
    fd: AsyncFd<OwnedFd>,
}

/// A notice with its descriptor.
#[derive(Debug)]
pub(crate) enum Notice {
    Certified(Box<gate::chain::keys::Certificate>),
    Control(OwnedFd),
    Ended(gate::id::SessionId),
    Front(gate::id::SessionId, gate::id::PolicyName, OwnedFd),
    Vault(OwnedFd),
}

impl Notices {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        custody_sys::fd::close_on_exec(&fd)?;
        nonblocking(&fd)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe for types that change their descriptor; OwnedFd \
                      keeps its own"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// The next notice. Cancellation safe.
    pub(crate) async fn next(&self) -> Result<Notice, NoticeError> {
        let mut buffer = [0_u8; GateNotice::CAP];
        let (len, fds) = self
            .fd
            .async_io(Interest::READABLE, |fd| channel::recv(fd, &mut buffer, 1))
            .await
            .map_err(|error| {
                // A unix socket whose other end closed with a message unread, a head of ours.
                if error.kind() == io::ErrorKind::ConnectionReset {
                    NoticeError::Closed
                } else {
                    NoticeError::Io(error)
                }
            })?;
        let bytes = buffer.get(..len).unwrap_or_default();
        if bytes.is_empty() {
            return Err(NoticeError::Closed);
        }
        pair(frame::parse(bytes).map_err(NoticeError::Parse)?, fds)
    }

    /// Tells custodyd the newest line on disk. A full channel loses it: the next one says more.
    pub(crate) fn head(&self, head: Head) {
        let sent = frame::datagram(&head)
            .map_err(io::Error::other)
            .and_then(|bytes| channel::send(self.fd.get_ref(), &bytes, &[]));
        if let Err(error) = sent {
            tracing::debug!(%error, "the head was not sent");
        }
    }
}

fn pair(notice: GateNotice, fds: Vec<OwnedFd>) -> Result<Notice, NoticeError> {
    let found = fds.len();
    let mut fds = fds.into_iter();
    let notice = match (notice, fds.next()) {
        (GateNotice::Certified(certificate), None) => Notice::Certified(certificate),
        (GateNotice::Control, Some(fd)) => Notice::Control(fd),
        (GateNotice::Vault, Some(fd)) => Notice::Vault(fd),
        (GateNotice::Front { session, policy }, Some(fd)) => Notice::Front(session, policy, fd),
        (GateNotice::Ended { session }, None) => Notice::Ended(session),
        (GateNotice::Control | GateNotice::Vault | GateNotice::Front { .. }, None) => {
            return Err(NoticeError::Descriptors { expected: 1, found });
        }
        (GateNotice::Certified(_) | GateNotice::Ended { .. }, Some(_)) => {
            return Err(NoticeError::Descriptors { expected: 0, found });
        }
    };
    Ok(notice)
}

/// A stream of tokio from a descriptor that custodyd handed over.
pub(crate) fn stream(fd: OwnedFd) -> io::Result<tokio::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}

fn nonblocking(fd: &OwnedFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    let _was = fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

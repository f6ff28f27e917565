//! The channel to custodyd: notices in, with descriptors beside them; orders out.

use std::{cell::Cell, io, os::fd::OwnedFd};

use custody_sys::channel;
use custody_wire::{
    Message as _,
    frame::{self, FrameError},
    revoke::Revoked,
    supervise::{VaultNotice, VaultOrder},
};
use gate::{
    chain::keys::Certificate,
    id::{CredentialLabel, PolicyName, SessionId, ToolName},
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::{Interest, unix::AsyncFd};

/// Why the channel is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// custodyd is gone.
    #[error("custodyd closed the channel")]
    Closed,
    /// A notice that goes with descriptors came with another number of them.
    #[error("custodyd sent {found} descriptors with a notice that has {expected}")]
    Descriptors {
        /// How many it has.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// recvmsg(2) or the reactor failed.
    #[error("the channel to custodyd failed")]
    Io(#[source] io::Error),
    /// Not a notice.
    #[error("custodyd sent what is not a notice")]
    Parse(#[source] FrameError),
}

/// A notice with its descriptors.
#[derive(Debug)]
pub(crate) enum Notice {
    Certified(Box<Certificate>),
    Credential(CredentialLabel, OwnedFd),
    Ended(SessionId),
    Gate(OwnedFd),
    Locked(PolicyName, ToolName),
    Opened(SessionId, PolicyName),
    Ready,
    Resolver(OwnedFd),
    Reviewer(String, OwnedFd),
    Reviewers,
    RevokedKeys(OwnedFd),
    Revoked(Revoked),
    Unlocked(ToolName),
    Worker {
        order: u64,
        channel: OwnedFd,
        pid: OwnedFd,
    },
    WorkerRefused {
        order: u64,
        why: String,
    },
}

/// The channel.
#[derive(Debug)]
pub(crate) struct Custodyd {
    fd: AsyncFd<OwnedFd>,
    next_order: Cell<u64>,
}

impl Custodyd {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
        let _was = fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe for types that change their descriptor; OwnedFd \
                      keeps its own"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self {
            fd,
            next_order: Cell::new(1),
        })
    }

    /// The next notice. Cancellation safe.
    pub(crate) async fn next(&self) -> Result<Notice, NoticeError> {
        let read = self.fd.async_io(Interest::READABLE, receive).await;
        read.map_err(NoticeError::Io)?
    }

    /// A notice that is here already.
    pub(crate) fn at_hand(&self) -> Option<Result<Notice, NoticeError>> {
        match receive(self.fd.get_ref()) {
            Ok(notice) => Some(notice),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(NoticeError::Io(error))),
        }
    }

    /// A number for the next order.
    pub(crate) fn number(&self) -> u64 {
        let number = self.next_order.get();
        self.next_order.set(number.saturating_add(1));
        number
    }

    /// Sends an order.
    pub(crate) async fn order(&self, order: &VaultOrder) -> io::Result<()> {
        let bytes = frame::datagram(order).map_err(io::Error::other)?;
        self.fd
            .async_io(Interest::WRITABLE, |fd| channel::send(fd, &bytes, &[]))
            .await
    }

    /// Sends an order without waiting. A full channel loses it, so only what does no harm when
    /// lost goes this way.
    pub(crate) fn order_or_lose(&self, order: &VaultOrder) {
        let sent = frame::datagram(order)
            .map_err(io::Error::other)
            .and_then(|bytes| channel::send(self.fd.get_ref(), &bytes, &[]));
        if let Err(error) = sent {
            tracing::debug!(%error, "an order was lost");
        }
    }
}

/// One datagram. The outer error is the kernel's, and may be that nothing is there.
fn receive(fd: &OwnedFd) -> io::Result<Result<Notice, NoticeError>> {
    let mut buffer = [0_u8; VaultNotice::CAP];
    let (len, fds) = match channel::recv(fd, &mut buffer, 2) {
        // It closed with orders of ours unread (net/unix/af_unix.c, unix_release_sock).
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            return Ok(Err(NoticeError::Closed));
        }
        received => received?,
    };
    let bytes = buffer.get(..len).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(Err(NoticeError::Closed));
    }
    Ok(frame::parse(bytes)
        .map_err(NoticeError::Parse)
        .and_then(|notice| pair(notice, fds)))
}

fn pair(notice: VaultNotice, fds: Vec<OwnedFd>) -> Result<Notice, NoticeError> {
    let found = fds.len();
    let wrong = |expected| NoticeError::Descriptors { expected, found };
    let mut fds = fds.into_iter();
    let paired = match (notice, fds.next(), fds.next()) {
        (VaultNotice::Credential { label }, Some(fd), None) => Notice::Credential(label, fd),
        (VaultNotice::Gate, Some(fd), None) => Notice::Gate(fd),
        (VaultNotice::Resolver, Some(fd), None) => Notice::Resolver(fd),
        (VaultNotice::Ended { session }, None, None) => Notice::Ended(session),
        (VaultNotice::Opened { session, policy }, None, None) => Notice::Opened(session, policy),
        (VaultNotice::Ready, None, None) => Notice::Ready,
        (VaultNotice::Reviewer { name }, Some(fd), None) => Notice::Reviewer(name, fd),
        (VaultNotice::Reviewers, None, None) => Notice::Reviewers,
        (VaultNotice::RevokedKeys, Some(fd), None) => Notice::RevokedKeys(fd),
        (VaultNotice::Locked { policy, tool }, None, None) => Notice::Locked(policy, tool),
        (VaultNotice::Revoked(what), None, None) => Notice::Revoked(what),
        (VaultNotice::Certified(certificate), None, None) => Notice::Certified(certificate),
        (VaultNotice::Unlocked { tool }, None, None) => Notice::Unlocked(tool),
        (VaultNotice::WorkerRefused { order, why }, None, None) => {
            Notice::WorkerRefused { order, why }
        }
        (VaultNotice::Worker { order }, Some(channel), Some(pid)) => Notice::Worker {
            order,
            channel,
            pid,
        },
        (VaultNotice::Worker { .. }, _, _) => return Err(wrong(2)),
        (
            VaultNotice::Credential { .. }
            | VaultNotice::Gate
            | VaultNotice::Resolver
            | VaultNotice::Reviewer { .. }
            | VaultNotice::RevokedKeys,
            _,
            _,
        ) => {
            return Err(wrong(1));
        }
        (
            VaultNotice::Ended { .. }
            | VaultNotice::Opened { .. }
            | VaultNotice::Locked { .. }
            | VaultNotice::Ready
            | VaultNotice::Reviewers
            | VaultNotice::Revoked(_)
            | VaultNotice::Certified(_)
            | VaultNotice::Unlocked { .. }
            | VaultNotice::WorkerRefused { .. },
            _,
            _,
        ) => return Err(wrong(0)),
    };
    Ok(paired)
}

/// A stream of tokio from a descriptor that custodyd handed over.
pub(crate) fn stream(fd: OwnedFd) -> io::Result<tokio::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}

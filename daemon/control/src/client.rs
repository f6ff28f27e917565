//! One connection: frames with descriptors beside them, bounded in size and time.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use custody_sys::channel;
use custody_wire::{
    frame::{self, FrameError, body_len},
    operator::{Answer, Request},
};
use tokio::{
    io::{AsyncWriteExt as _, Interest},
    net::UnixStream,
    time::{Instant, timeout, timeout_at},
};

/// The most descriptors beside one request: the command and the workspace.
const FDS_MAX: usize = 2;

/// How long a request that has begun may take to arrive, and an answer to be taken.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may be idle that runs no session.
pub const IDLE: Duration = Duration::from_secs(60);

/// Bytes that are asked of the socket at once: a client that announces a large frame and sends
/// nothing costs no more.
const STEP: usize = 16 << 10;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The frame is none of ours, or the other end is gone.
    #[error("the client's frame")]
    Frame(#[source] FrameError),
    /// The socket failed, or what came beside the frame was too much.
    #[error("the client's socket")]
    Io(#[source] io::Error),
    /// The client stalls.
    #[error("the client took longer than {} s", .0.as_secs())]
    Slow(Duration),
}

impl ClientError {
    /// Whether the client left in an orderly way.
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Frame(FrameError::Closed))
    }
}

/// One connection of the operators' socket.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
    begun: Option<Instant>,
}

/// Whether a client may stay silent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Silence {
    /// He runs a session: as long as that lasts.
    Allowed,
    /// For [`IDLE`].
    Bounded,
}

impl Client {
    /// Over `stream`, as accepted.
    pub const fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            fds: Vec::new(),
            begun: None,
        }
    }

    /// The next request and what came beside it. Cancellation safe: what was read stays in `self`.
    ///
    /// # Errors
    /// When the connection is to end.
    pub async fn next(&mut self, silence: Silence) -> Result<(Request, Vec<OwnedFd>), ClientError> {
        let idle_since = Instant::now();
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                let bytes = std::mem::take(&mut self.bytes);
                let fds = std::mem::take(&mut self.fds);
                self.begun = None;
                let request = frame::parse(bytes.get(HEAD..).unwrap_or_default())
                    .map_err(ClientError::Frame)?;
                return Ok((request, fds));
            }
            let read = read_some(&self.stream, missing);
            let (part, fds) = match (self.begun, silence) {
                (Some(begun), _) => timeout_at(begun + PATIENCE, read)
                    .await
                    .map_err(|_elapsed| ClientError::Slow(PATIENCE))?,
                (None, Silence::Bounded) => timeout_at(idle_since + IDLE, read)
                    .await
                    .map_err(|_elapsed| ClientError::Slow(IDLE))?,
                (None, Silence::Allowed) => read.await,
            }
            .map_err(ClientError::Io)?;
            if part.is_empty() {
                return Err(ClientError::Frame(FrameError::Closed));
            }
            self.begun.get_or_insert_with(Instant::now);
            self.bytes.extend_from_slice(&part);
            self.fds.extend(fds);
            if self.fds.len() > FDS_MAX {
                return Err(ClientError::Io(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("a request brought more than {FDS_MAX} descriptors"),
                )));
            }
        }
    }

    /// How many bytes of the frame are still to come.
    fn missing(&self) -> Result<usize, ClientError> {
        match self.bytes.first_chunk::<HEAD>() {
            None => Ok(HEAD.saturating_sub(self.bytes.len())),
            Some(head) => {
                let whole = body_len::<Request>(*head)
                    .map_err(ClientError::Frame)?
                    .saturating_add(HEAD);
                Ok(whole.saturating_sub(self.bytes.len()))
            }
        }
    }

    /// Sends an answer and what goes beside it.
    ///
    /// # Errors
    /// When the client is gone or does not read.
    pub async fn send(&mut self, answer: &Answer, fds: &[OwnedFd]) -> Result<(), ClientError> {
        let bytes = frame::frame(answer).map_err(ClientError::Frame)?;
        match timeout(PATIENCE, write_all(&mut self.stream, &bytes, fds)).await {
            Ok(written) => written.map_err(ClientError::Io),
            Err(_elapsed) => Err(ClientError::Slow(PATIENCE)),
        }
    }
}

/// The frame's length field.
const HEAD: usize = 4;

async fn read_some(stream: &UnixStream, most: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    stream
        .async_io(Interest::READABLE, || {
            let mut part = vec![0; most.min(STEP)];
            let (len, fds) = channel::recv(stream.as_fd(), &mut part, FDS_MAX)?;
            part.truncate(len);
            Ok((part, fds))
        })
        .await
}

async fn write_all(stream: &mut UnixStream, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
    // The descriptors go beside the first bytes, few enough that the socket takes all or none.
    let (head, rest) = bytes.split_at_checked(HEAD).unwrap_or((bytes, &[]));
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
    stream
        .async_io(Interest::WRITABLE, || {
            channel::send(stream.as_fd(), head, &fds)
        })
        .await?;
    stream.write_all(rest).await
}

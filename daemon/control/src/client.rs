//! One connection: frames, bounded in size and time, and the descriptors that come after some.
//!
//! **Invariant:** no descriptor is taken but by [`Client::beside`], which is called when the caller
//! may do what he asks for; what comes anywhere else the kernel throws away (read(2) takes no
//! control data). close(2) of a received file asks its file system (FUSE_FLUSH), which may be the
//! caller's own and never answer: descriptors are received and closed on threads of their own,
//! never by the one thread that serves everybody.

use std::{
    io, mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use custody_sys::channel;
use custody_wire::{
    frame::{self, FrameError, body_len},
    operator::{Answer, BESIDE, Request},
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::UnixStream,
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

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
            begun: None,
        }
    }

    /// The next request. Cancellation safe: what was read stays in `self`.
    ///
    /// # Errors
    /// When the connection is to end.
    pub async fn next(&mut self, silence: Silence) -> Result<Request, ClientError> {
        let idle_since = Instant::now();
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                let bytes = mem::take(&mut self.bytes);
                self.begun = None;
                return frame::parse(bytes.get(HEAD..).unwrap_or_default())
                    .map_err(ClientError::Frame);
            }
            let mut part = vec![0; missing.min(STEP)];
            let read = self.stream.read(&mut part);
            let len = match (self.begun, silence) {
                (Some(begun), _) => timeout_at(begun + PATIENCE, read)
                    .await
                    .map_err(|_elapsed| ClientError::Slow(PATIENCE))?,
                (None, Silence::Bounded) => timeout_at(idle_since + IDLE, read)
                    .await
                    .map_err(|_elapsed| ClientError::Slow(IDLE))?,
                (None, Silence::Allowed) => read.await,
            }
            .map_err(ClientError::Io)?;
            if len == 0 {
                return Err(ClientError::Frame(FrameError::Closed));
            }
            self.begun.get_or_insert_with(Instant::now);
            self.bytes
                .extend_from_slice(part.get(..len).unwrap_or_default());
        }
    }

    /// The descriptors that come after the request that was read last. `for_as_long` is kept until
    /// they are closed.
    ///
    /// # Errors
    /// When none come, or too many, or the client stalls; the connection is to end.
    pub async fn beside<T: Clone + Send + 'static>(
        &mut self,
        for_as_long: T,
    ) -> Result<Given<T>, ClientError> {
        let taken = async {
            loop {
                self.stream.readable().await?;
                let stream = self.stream.as_fd().try_clone_to_owned()?;
                // Where they are not taken, the thread that received them closes them: it has the
                // place until it has done so, whether or not anybody waits for it still.
                let kept = for_as_long.clone();
                let taken = spawn_blocking(move || {
                    let taken = take(&stream);
                    drop(kept);
                    taken
                })
                .await?;
                match taken {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        // Tokio is to wait for the next edge; not if the bytes came meanwhile,
                        // for then that edge is over.
                        drop(
                            self.stream
                                .try_io(Interest::READABLE, || readable(&self.stream)),
                        );
                    }
                    taken => return taken,
                }
            }
        };
        let fds = timeout(PATIENCE, taken)
            .await
            .map_err(|_elapsed| ClientError::Slow(PATIENCE))?
            .map_err(ClientError::Io)?;
        Ok(Given {
            fds,
            _for_as_long: Some(for_as_long),
        })
    }

    /// Passes over what comes after the request that was read last, and takes no descriptor.
    ///
    /// # Errors
    /// When the client stalls or is gone.
    pub async fn pass_over(&mut self) -> Result<(), ClientError> {
        let mut byte = [0];
        match timeout(PATIENCE, self.stream.read(&mut byte)).await {
            Ok(Ok(0)) => Err(ClientError::Frame(FrameError::Closed)),
            Ok(Ok(_)) if byte == [BESIDE] => Ok(()),
            Ok(Ok(_)) => Err(ClientError::Io(unannounced())),
            Ok(Err(error)) => Err(ClientError::Io(error)),
            Err(_elapsed) => Err(ClientError::Slow(PATIENCE)),
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

/// The connection itself, as it was accepted: custodyd asks the kernel who is at its other end.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Descriptors of a client. Dropped, they are closed by a thread that may wait for it.
#[derive(Debug)]
pub struct Given<T: Send + 'static> {
    fds: Vec<OwnedFd>,
    _for_as_long: Option<T>,
}

impl<T: Send + 'static> Given<T> {
    /// Them.
    pub fn fds(&self) -> &[OwnedFd] {
        &self.fds
    }
}

impl<T: Send + 'static> Drop for Given<T> {
    fn drop(&mut self) {
        let closing = (mem::take(&mut self.fds), self._for_as_long.take());
        match Handle::try_current() {
            // Nobody waits for it: that is the point.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(closing))),
            Err(_no_runtime) => drop(closing),
        }
    }
}

/// Whether something has come; nothing is taken.
fn readable(stream: impl AsFd) -> io::Result<()> {
    let mut polled = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::ZERO)? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

fn take(stream: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0];
    let (len, fds) = channel::recv(stream, &mut byte, channel::MAX_FDS)?;
    match len {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ if byte == [BESIDE] => Ok(fds),
        _ => Err(unannounced()),
    }
}

fn unannounced() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "another byte than the one that descriptors go beside",
    )
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

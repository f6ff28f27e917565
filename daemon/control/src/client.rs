//! One connection: frames, bounded in size and time, and the descriptors that come after some.
//!
//! **Invariant:** the one thread that serves everybody neither reads a connection nor closes one. A client may
//! send descriptors with every byte where the kernel lets him (before 6.16, see
//! [`custody_sys::channel::set_rights`]), and whoever drops the last copy of one waits for what it leads
//! to: a socket that lingers (SO_LINGER, socket(7)), a file whose file system is the client's own (FUSE).
//! That is done by threads that may wait, one for each connection at a time ([`Turn`]), and the
//! connection keeps its place for as long.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use custody_sys::channel::{self, Rights};
use custody_wire::{
    frame::{self, FrameError, body_len},
    operator::{Answer, BESIDE, Request},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, send},
};
use tokio::{
    io::Interest,
    net::UnixStream,
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::{JoinHandle, spawn_blocking},
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

/// A connection's right to one thread that may wait.
type Turn = Option<OwnedSemaphorePermit>;

/// One connection of the operators' socket.
#[derive(Debug)]
pub struct Client {
    socket: Arc<UnixStream>,
    /// The longest request that he may make.
    cap: usize,
    bytes: Vec<u8>,
    begun: Option<Instant>,
    /// A read that a thread makes: what it brings is not lost when nobody waits for it.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    turns: Arc<Semaphore>,
    /// Dropped after the socket: then whoever closes it has the last copy.
    _here: oneshot::Sender<()>,
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
    /// Over `socket`, as accepted, for requests of at most `cap` bytes. `place` is kept until it is
    /// closed.
    pub fn new<T: Send + 'static>(socket: UnixStream, cap: usize, place: T) -> Self {
        let socket = Arc::new(socket);
        let turns = Arc::new(Semaphore::new(1));
        let (here, gone) = oneshot::channel();
        let (last, last_turn) = (Arc::clone(&socket), Arc::clone(&turns));
        drop(tokio::spawn(async move {
            let _gone: Result<(), _> = gone.await;
            // What a thread of it still does has its own copy.
            let turn = last_turn.acquire_owned().await.ok();
            drop(spawn_blocking(move || {
                drop(last);
                drop((turn, place));
            }));
        }));
        Self {
            socket,
            cap,
            bytes: Vec::new(),
            begun: None,
            reading: None,
            turns,
            _here: here,
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
            let begun = self.begun;
            let read = self.read(missing.min(STEP));
            let part = match (begun, silence) {
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
        }
    }

    /// At most `most` bytes; none at the end. read(2) takes no control data: descriptors that came
    /// with them the kernel throws away, and the thread waits for that.
    async fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        loop {
            let reading = match &mut self.reading {
                Some(reading) => reading,
                none => {
                    self.socket
                        .async_io(Interest::READABLE, || readable(&self.socket))
                        .await?;
                    let turn = turn(&self.turns).await;
                    let socket = Arc::clone(&self.socket);
                    none.insert(spawn_blocking(move || {
                        let mut bytes = vec![0; most];
                        let read = nix::unistd::read(&socket, &mut bytes);
                        drop((socket, turn));
                        bytes.truncate(read?);
                        Ok(bytes)
                    }))
                }
            };
            let read = reading.await;
            self.reading = None;
            match read? {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// The descriptors that come after the request that was read last. They are asked for.
    ///
    /// # Errors
    /// When none come, or too many, or the client stalls; the connection is to end.
    pub async fn beside(&mut self) -> Result<Given, ClientError> {
        let slow = |_elapsed| ClientError::Slow(PATIENCE);
        // Until what an earlier request brought is closed.
        let turn = timeout(PATIENCE, turn(&self.turns)).await.map_err(slow)?;
        self.set_rights(Rights::Taken)?;
        self.send(&Answer::Give, &[]).await?;
        let comes = self
            .socket
            .async_io(Interest::READABLE, || readable(&self.socket));
        timeout(PATIENCE, comes)
            .await
            .map_err(slow)?
            .map_err(ClientError::Io)?;
        let socket = Arc::clone(&self.socket);
        let taken = spawn_blocking(move || {
            // What is not taken is closed here.
            let fds = take(&socket);
            drop(socket);
            Ok(Given { fds: fds?, turn })
        });
        let given = taken.await.map_err(io::Error::from).flatten();
        self.set_rights(Rights::Refused)?;
        given.map_err(ClientError::Io)
    }

    /// Where the kernel does not know the option, what else is sent is thrown away as ever.
    fn set_rights(&self, rights: Rights) -> Result<(), ClientError> {
        match channel::set_rights(self.as_fd(), rights) {
            Ok(_known) => Ok(()),
            Err(error) => Err(ClientError::Io(error)),
        }
    }

    /// How many bytes of the frame are still to come.
    fn missing(&self) -> Result<usize, ClientError> {
        match self.bytes.first_chunk::<HEAD>() {
            None => Ok(HEAD.saturating_sub(self.bytes.len())),
            Some(head) => {
                let len = body_len::<Request>(*head).map_err(ClientError::Frame)?;
                if len > self.cap {
                    let cap = self.cap;
                    return Err(ClientError::Frame(FrameError::TooLong { len, cap }));
                }
                let whole = len.saturating_add(HEAD);
                Ok(whole.saturating_sub(self.bytes.len()))
            }
        }
    }

    /// Sends an answer and what goes beside it.
    ///
    /// # Errors
    /// When the client is gone or does not read.
    pub async fn send(&self, answer: &Answer, fds: &[OwnedFd]) -> Result<(), ClientError> {
        let bytes = frame::frame(answer).map_err(ClientError::Frame)?;
        match timeout(PATIENCE, self.write_all(&bytes, fds)).await {
            Ok(written) => written.map_err(ClientError::Io),
            Err(_elapsed) => Err(ClientError::Slow(PATIENCE)),
        }
    }

    async fn write_all(&self, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
        // The descriptors go beside the first bytes, few enough that the socket takes all or none.
        let (head, mut rest) = bytes.split_at_checked(HEAD).unwrap_or((bytes, &[]));
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.socket
            .async_io(Interest::WRITABLE, || {
                channel::send(&self.socket, head, &fds)
            })
            .await?;
        while !rest.is_empty() {
            let written = self
                .socket
                .async_io(Interest::WRITABLE, || {
                    let socket = self.socket.as_raw_fd();
                    Ok(send(socket, rest, MsgFlags::MSG_NOSIGNAL)?)
                })
                .await?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }
}

/// The frame's length field.
const HEAD: usize = 4;

/// The connection itself, as it was accepted: custodyd asks the kernel who is at its other end.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Descriptors of a client. Dropped, they are closed by a thread that may wait for it: close(2) of a
/// file asks its file system (FUSE_FLUSH).
#[derive(Debug)]
pub struct Given {
    fds: Vec<OwnedFd>,
    turn: Turn,
}

impl Given {
    /// Them.
    pub fn fds(&self) -> &[OwnedFd] {
        &self.fds
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let (fds, turn) = (mem::take(&mut self.fds), self.turn.take());
        let closing = move || {
            drop(fds);
            drop(turn);
        };
        match Handle::try_current() {
            // Nobody waits for it: that is the point.
            Ok(runtime) => drop(runtime.spawn_blocking(closing)),
            Err(_no_runtime) => closing(),
        }
    }
}

async fn turn(turns: &Arc<Semaphore>) -> Turn {
    // It is never closed.
    Arc::clone(turns).acquire_owned().await.ok()
}

/// Whether something has come; nothing is taken.
fn readable(stream: impl AsFd) -> io::Result<()> {
    let mut polled = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::ZERO)? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

fn take(stream: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0];
    let (len, fds) = channel::recv(stream, &mut byte, channel::MAX_FDS)?;
    match len {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ if byte == [BESIDE] => Ok(fds),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "another byte than the one that descriptors go beside",
        )),
    }
}

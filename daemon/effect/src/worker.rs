//! The worker's side of the channel: one credential, then requests until the vault closes it.

use std::{os::fd::OwnedFd, sync::Arc};

use custody_sys::channel;
use custody_wire::{
    Message as _,
    frame::{self, FrameError},
    perform::{Answer, Request},
};
use tokio::{
    net::UnixStream,
    sync::{Mutex, Semaphore},
};

use crate::{
    credential::{Credential, CredentialError},
    http::Connector,
};

/// How many requests are performed at the same time. The vault asks for fewer.
pub const AT_ONCE: usize = 64;

/// Why a worker ended otherwise than by its channel's end.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The first message is not what it must be.
    #[error("the channel does not begin with one credential: {why}")]
    Begin {
        /// What is wrong.
        why: &'static str,
    },
    /// The channel failed.
    #[error("the channel to the vault failed")]
    Channel(#[source] FrameError),
    /// The credential cannot be used.
    #[error("the credential cannot be used")]
    Credential(#[source] CredentialError),
}

/// Takes the credential, says that it is ready, and performs until the vault closes the channel.
///
/// # Errors
/// When the vault does not keep to the protocol, or its credential cannot be used.
pub async fn serve(fd: OwnedFd) -> Result<(), WorkerError> {
    let credential = begin(&fd)?;
    tracing::info!(credential = %credential.label(), "ready");
    let socket = std::os::unix::net::UnixStream::from(fd);
    let channel = |error| WorkerError::Channel(FrameError::Io(error));
    socket.set_nonblocking(true).map_err(channel)?;
    let (mut from, to) = UnixStream::from_std(socket).map_err(channel)?.into_split();
    let to = Arc::new(Mutex::new(to));
    let connector = Arc::new(Connector::new(credential));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    answer(&to, &Answer::Ready).await;
    loop {
        let (number, request) = match frame::read_async(&mut from).await {
            Ok(Request::Http { number, request }) => (number, request),
            Ok(Request::Hello { .. }) => {
                return Err(WorkerError::Begin {
                    why: "a second credential came",
                });
            }
            Err(FrameError::Closed) => return Ok(()),
            Err(error) => return Err(WorkerError::Channel(error)),
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let full = Answer::Failed {
                number,
                why: format!("{AT_ONCE} requests are on their way; try again"),
                sent: false,
            };
            answer(&to, &full).await;
            continue;
        };
        let (to, connector) = (Arc::clone(&to), Arc::clone(&connector));
        drop(tokio::spawn(async move {
            let outcome = connector.perform(number, &request).await;
            answer(&to, &outcome).await;
            drop(place);
        }));
    }
}

async fn answer(to: &Mutex<tokio::net::unix::OwnedWriteHalf>, answer: &Answer) {
    // A vault that is gone needs no answer; the reader ends the worker.
    if let Err(error) = frame::write_async(&mut *to.lock().await, answer).await {
        tracing::debug!(%error, "no answer to the vault");
    }
}

/// Reads the first frame, blocking: there is nothing else to do before it is here.
fn begin(fd: &OwnedFd) -> Result<Credential, WorkerError> {
    let channel = |error| WorkerError::Channel(FrameError::Io(error));
    let mut buffer = vec![0; HELLO_CAP];
    let (mut len, mut fds) = channel::recv(fd, &mut buffer, 1).map_err(channel)?;
    loop {
        let so_far = buffer.get(..len).unwrap_or_default();
        let wanted = match so_far.first_chunk::<4>() {
            Some(head) => frame::body_len::<Request>(*head)
                .map_err(WorkerError::Channel)?
                .saturating_add(4),
            None => 4,
        };
        if wanted > HELLO_CAP || len > wanted {
            return Err(WorkerError::Begin {
                why: "the first message is too long",
            });
        }
        if len == wanted && len > 4 {
            break;
        }
        let rest = buffer.get_mut(len..wanted).unwrap_or_default();
        let (more, late) = channel::recv(fd, rest, 1).map_err(channel)?;
        if more == 0 {
            return Err(WorkerError::Channel(FrameError::Closed));
        }
        len = len.saturating_add(more);
        fds.extend(late);
    }
    let body = buffer.get(4..len).unwrap_or_default();
    let hello = frame::parse(body).map_err(WorkerError::Channel)?;
    let Request::Hello {
        label, placement, ..
    } = hello
    else {
        return Err(WorkerError::Begin {
            why: "a request came first",
        });
    };
    let one = fds.pop().filter(|_| fds.is_empty());
    let from = one.ok_or(WorkerError::Begin {
        why: "there is not exactly one descriptor beside it",
    })?;
    Credential::read(from, label, &placement).map_err(WorkerError::Credential)
}

/// The most bytes of the first frame: names and a prefix.
const HELLO_CAP: usize = 4 << 10;

const _: () = assert!(HELLO_CAP <= Request::CAP);

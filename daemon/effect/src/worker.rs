//! The worker's side of the channel: one credential, then requests until the vault closes it.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{Arc, PoisonError},
};

use custody_service::beside::Incoming;
use custody_sys::channel;
use custody_wire::{
    Message as _,
    frame::{self, FrameError},
    perform::{Answer, Request},
};
use tokio::{
    net::UnixStream,
    sync::{Mutex, Notify, Semaphore},
};

use crate::{
    credential::{Credential, CredentialError},
    http::Connector,
    stream::{Lease, Tell},
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
    let (from, to) = UnixStream::from_std(socket).map_err(channel)?.into_split();
    let mut from = Incoming::new(from);
    let to = Arc::new(Vault(Mutex::new(to)));
    let streams = Streams::default();
    let connector = Arc::new(Connector::new(credential));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    to.tell(Answer::Ready).await;
    loop {
        let (number, request, stream) = match frame::read_async(&mut from).await {
            Ok(Request::Cut { number }) => {
                streams.cut(number);
                continue;
            }
            Ok(Request::Http { number, request }) => (number, request, None),
            Ok(Request::Stream { number, request }) => {
                let fd = from.descriptor().ok_or(WorkerError::Begin {
                    why: "a stream came without its descriptor",
                })?;
                let stream = std::os::unix::net::UnixStream::from(fd);
                stream.set_nonblocking(true).map_err(channel)?;
                let stream = UnixStream::from_std(stream).map_err(channel)?;
                (number, request, Some(stream))
            }
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
            to.tell(full).await;
            continue;
        };
        let (to, connector) = (Arc::clone(&to), Arc::clone(&connector));
        match stream {
            None => drop(tokio::spawn(async move {
                let outcome = connector.perform(number, &request).await;
                to.tell(outcome).await;
                drop(place);
            })),
            Some(stream) => {
                let (streams, cut) = (streams.clone(), streams.begin(number));
                drop(tokio::spawn(async move {
                    let lease = Lease {
                        number,
                        http: &request,
                        cut: &cut,
                    };
                    connector.stream(lease, stream, &*to).await;
                    streams.end(number);
                    drop(place);
                }));
            }
        }
    }
}

/// The writing end of the channel.
struct Vault(Mutex<tokio::net::unix::OwnedWriteHalf>);

impl Tell for Vault {
    async fn tell(&self, answer: Answer) {
        // A vault that is gone needs no answer; the reader ends the worker.
        if let Err(error) = frame::write_async(&mut *self.0.lock().await, &answer).await {
            tracing::debug!(%error, "no answer to the vault");
        }
    }
}

/// The streams that are on their way, each with what cuts it.
#[derive(Clone, Default)]
struct Streams(Arc<std::sync::Mutex<HashMap<u64, Arc<Notify>>>>);

impl Streams {
    fn begin(&self, number: u64) -> Arc<Notify> {
        let cut = Arc::new(Notify::new());
        drop(self.all().insert(number, Arc::clone(&cut)));
        cut
    }

    fn cut(&self, number: u64) {
        if let Some(cut) = self.all().get(&number) {
            cut.notify_one();
        }
    }

    fn end(&self, number: u64) {
        drop(self.all().remove(&number));
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Notify>>> {
        // A map is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

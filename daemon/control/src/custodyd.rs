//! Orders to custodyd, and its notices to whoever waits for them.

use std::{
    collections::HashMap,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net,
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use custody_sys::channel;
use custody_wire::{
    Message as _,
    frame::{self, FrameError},
    layer,
    profile::Profile,
    supervise::{ControlNotice, ControlOrder, Counts, End, StartRefusal},
};
use gate::id::SessionId;
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::{Notify, mpsc, oneshot},
};

/// The most descriptors beside a notice: stdin, stdout and stderr.
const FDS_MAX: usize = 3;

/// What custodyd says of one session.
#[derive(Debug)]
pub enum Notice {
    /// What its hooks did up to now.
    Counted(Counts),
    /// It is over, and everything of it is gone.
    Ended(End),
    /// It did not start.
    Refused(StartRefusal),
    /// It runs.
    Started {
        /// Its uid.
        uid: u32,
        /// The profile that it runs under.
        profile: Profile,
        /// What each layer said.
        layers: Vec<layer::Report>,
        /// What is open that a stricter profile closes.
        weaknesses: Vec<String>,
        /// The pty's master, or stdin, stdout and stderr.
        fds: Vec<OwnedFd>,
    },
}

/// Why an order is not given.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// It does not fit.
    #[error("the order to custodyd")]
    Frame(#[source] FrameError),
    /// custodyd is gone.
    #[error("the channel to custodyd")]
    Io(#[source] io::Error),
}

/// Whoever waits for what came of an order.
type Heeds = oneshot::Sender<Result<(), String>>;

/// The way to custodyd.
#[derive(Clone, Debug)]
pub struct Custodyd {
    // Only what polls the socket: it is a SOCK_SEQPACKET, and send and recv are our own.
    channel: Arc<UnixStream>,
    waiting: Arc<Mutex<HashMap<SessionId, mpsc::UnboundedSender<Notice>>>>,
    serve: Arc<Notify>,
    heeded: Arc<Mutex<HashMap<u64, Heeds>>>,
    pages: mpsc::UnboundedSender<OwnedFd>,
    next: Arc<AtomicU64>,
}

impl Custodyd {
    /// Over `channel`, one of a SOCK_SEQPACKET pair; and the channel of each page that is started.
    ///
    /// # Errors
    /// When it cannot be made non-blocking and polled.
    pub fn new(channel: OwnedFd) -> io::Result<(Self, mpsc::UnboundedReceiver<OwnedFd>)> {
        let channel = net::UnixStream::from(channel);
        channel.set_nonblocking(true)?;
        // custodyd starts a page every few seconds at most.
        let (pages, started) = mpsc::unbounded_channel();
        let custodyd = Self {
            channel: Arc::new(UnixStream::from_std(channel)?),
            waiting: Arc::default(),
            serve: Arc::default(),
            heeded: Arc::default(),
            pages,
            next: Arc::new(AtomicU64::new(1)),
        };
        Ok((custodyd, started))
    }

    /// Gives an order, with what goes beside it.
    ///
    /// # Errors
    /// When custodyd is gone.
    pub async fn order(
        &self,
        order: &ControlOrder,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), OrderError> {
        let bytes = frame::datagram(order).map_err(OrderError::Frame)?;
        self.channel
            .async_io(Interest::WRITABLE, || {
                channel::send(self.channel.as_fd(), &bytes, fds)
            })
            .await
            .map_err(OrderError::Io)
    }

    /// Gives an order that is answered, and waits for the answer.
    ///
    /// # Errors
    /// When custodyd is gone, or says why not.
    pub async fn ask(&self, order: impl FnOnce(u64) -> ControlOrder) -> Result<(), String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (told, tells) = oneshot::channel();
        lock(&self.heeded).insert(number, told);
        let given = self.order(&order(number), &[]).await;
        if let Err(error) = given {
            lock(&self.heeded).remove(&number);
            tracing::error!(%error, "an order was not given");
            return Err("custodyd does not take orders; is the service stopping?".into());
        }
        tells
            .await
            .unwrap_or_else(|_dropped| Err("custodyd ended before it answered".into()))
    }

    /// Ready when custodyd has said that every service serves. To be awaited once.
    pub async fn serves(&self) {
        self.serve.notified().await;
    }

    /// Everything that custodyd says of `session` from now on. The last is [`Notice::Ended`] or
    /// [`Notice::Refused`].
    pub fn listen(&self, session: SessionId) -> mpsc::UnboundedReceiver<Notice> {
        // Unbounded is two notices, and counts every few seconds.
        let (tell, told) = mpsc::unbounded_channel();
        self.waiting().insert(session, tell);
        told
    }

    /// Forgets `session`: no notice will come.
    pub fn forget(&self, session: SessionId) {
        self.waiting().remove(&session);
    }

    /// Hands out notices until custodyd is gone, and says why it is.
    pub async fn carry(&self) -> FrameError {
        loop {
            let received = self
                .channel
                .async_io(Interest::READABLE, || {
                    let mut bytes = vec![0; ControlNotice::CAP];
                    let (len, fds) = channel::recv(self.channel.as_fd(), &mut bytes, FDS_MAX)?;
                    bytes.truncate(len);
                    Ok((bytes, fds))
                })
                .await;
            let (bytes, fds) = match received {
                Ok((bytes, _)) if bytes.is_empty() => return FrameError::Closed,
                Ok(received) => received,
                Err(error) => return FrameError::Io(error),
            };
            match frame::parse(&bytes) {
                Ok(notice) => self.hand_out(notice, fds),
                Err(error) => return error,
            }
        }
    }

    fn hand_out(&self, notice: ControlNotice, fds: Vec<OwnedFd>) {
        let (session, notice, last) = match notice {
            ControlNotice::Counted(all) => {
                let waiting = self.waiting();
                for (session, counts) in all {
                    // One that is gone is told of its end.
                    let _told = waiting
                        .get(&session)
                        .map(|tell| tell.send(Notice::Counted(counts)));
                }
                return;
            }
            ControlNotice::Heeded { number, outcome } => {
                let waits = lock(&self.heeded).remove(&number);
                // Whoever asked may be gone; it is heeded all the same.
                drop(waits.map(|told| told.send(outcome)));
                return;
            }
            ControlNotice::Ended { session, end } => (session, Notice::Ended(end), true),
            ControlNotice::Page => {
                for fd in fds {
                    // Without anybody who serves it this program ends.
                    drop(self.pages.send(fd));
                }
                return;
            }
            ControlNotice::Refused { session, refusal } => {
                (session, Notice::Refused(refusal), true)
            }
            ControlNotice::Serve => {
                // Kept for whoever awaits it later.
                self.serve.notify_one();
                return;
            }
            ControlNotice::Started {
                session,
                uid,
                profile,
                layers,
                weaknesses,
            } => {
                let started = Notice::Started {
                    uid,
                    profile,
                    layers,
                    weaknesses,
                    fds,
                };
                (session, started, false)
            }
        };
        let mut waiting = self.waiting();
        let told = waiting
            .get(&session)
            .is_some_and(|tell| tell.send(notice).is_ok());
        if !told {
            tracing::warn!(%session, "custodyd speaks of a session that nobody waits for");
        }
        if last || !told {
            waiting.remove(&session);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<SessionId, mpsc::UnboundedSender<Notice>>> {
        // A map of senders is whole after any panic.
        lock(&self.waiting)
    }
}

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

//! One effect worker: one credential, one session, the addresses that it may connect to.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
    rc::{Rc, Weak},
    time::Duration,
};

use custody_service::{beside, reason};
use custody_sys::channel;
use custody_wire::{
    agent::RESULT_CAP,
    frame::{self, FrameError},
    perform::{Answer, Http, Placement, Request},
};
use gate::{
    freshness::entity_tag,
    id::{CredentialLabel, SessionId},
    origin::Origin,
};
use tokio::{
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

use crate::{
    receipts::Cleared,
    stream::{Heard, Open, Stream},
};

/// How long a worker may take to say that it is ready.
const READY: Duration = Duration::from_secs(5);

/// How much longer than the request's own timeout the vault waits: the worker says why itself.
const GRACE: Duration = Duration::from_secs(2);

/// The longest media type that is passed on.
const MEDIA_TYPE_MAX: usize = 255;

/// What a worker answered, or that it did not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Performed {
    /// The server answered.
    Done {
        status: u16,
        media_type: Option<String>,
        body: Vec<u8>,
        scrubbed: u32,
        etag: Option<String>,
        /// When the request was given to its connection, and when the answer was whole.
        span: (u64, u64),
    },
    /// Nothing was sent.
    NotSent { why: String },
    /// The effect may have happened.
    InDoubt { why: String },
}

/// A worker that said that it is ready.
#[derive(Debug)]
pub(crate) struct Worker {
    order: u64,
    addresses: BTreeMap<Origin, Vec<SocketAddr>>,
    queue: mpsc::Sender<Handed>,
    streams: RefCell<HashMap<u64, Rc<Heard>>>,
    waiting: RefCell<HashMap<u64, oneshot::Sender<Performed>>>,
    next: Cell<u64>,
    born: Instant,
    used: Cell<Instant>,
    dead: Cell<bool>,
    /// Held so that the worker's pid is not another process's as long as we speak of it.
    _pid: OwnedFd,
}

/// A request on its way to the worker, and what goes beside it.
#[derive(Debug)]
struct Handed {
    request: Request,
    descriptor: Option<OwnedFd>,
}

/// What a worker starts with.
pub(crate) struct Start<'a> {
    pub(crate) order: u64,
    pub(crate) session: SessionId,
    pub(crate) label: &'a CredentialLabel,
    pub(crate) placement: Placement,
    pub(crate) credential: OwnedFd,
    pub(crate) addresses: BTreeMap<Origin, Vec<SocketAddr>>,
}

impl Worker {
    /// Hands the credential over, once, and waits until the worker has read it.
    pub(crate) async fn begin(
        start: Start<'_>,
        channel: OwnedFd,
        pid: OwnedFd,
    ) -> Result<Rc<Self>, String> {
        let hello = Request::Hello {
            session: start.session,
            label: start.label.clone(),
            placement: start.placement,
        };
        let bytes = frame::frame(&hello).map_err(|error| error.to_string())?;
        // A few hundred bytes on a socket that is empty: it does not block.
        channel::send(&channel, &bytes, &[start.credential.as_fd()])
            .map_err(|error| format!("the credential was not taken: {error}"))?;
        drop(start.credential);
        let stream = crate::custodyd::stream(channel).map_err(|error| error.to_string())?;
        let (mut from, to) = stream.into_split();
        match timeout(READY, frame::read_async::<Answer>(&mut from)).await {
            Ok(Ok(Answer::Ready)) => {}
            Ok(Ok(
                Answer::Done { .. }
                | Answer::Failed { .. }
                | Answer::Opened { .. }
                | Answer::Streamed { .. }
                | Answer::Streaming { .. },
            )) => {
                return Err("the worker answered before it was asked".into());
            }
            Ok(Err(error)) => return Err(format!("the worker ended before it was ready: {error}")),
            Err(_late) => return Err("the worker did not become ready".into()),
        }
        let (queue, requests) = mpsc::channel(crate::SESSION_CALLS);
        let worker = Rc::new(Self {
            order: start.order,
            addresses: start.addresses,
            queue,
            streams: RefCell::default(),
            waiting: RefCell::default(),
            next: Cell::new(1),
            born: Instant::now(),
            used: Cell::new(Instant::now()),
            dead: Cell::new(false),
            _pid: pid,
        });
        // Both end with the worker's process; the writer also with the last user of the queue.
        let reading = Rc::downgrade(&worker);
        drop(tokio::task::spawn_local(async move {
            let why = read(from, &reading).await;
            if let Some(worker) = reading.upgrade() {
                worker.die(&why);
            }
        }));
        let writing = Rc::downgrade(&worker);
        drop(tokio::task::spawn_local(async move {
            if let Err(why) = write(to, requests, &writing).await
                && let Some(worker) = writing.upgrade()
            {
                worker.die(&why);
            }
        }));
        Ok(worker)
    }

    /// The number of the order that started it.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// The checked addresses of `origin`, if it may go there.
    pub(crate) fn addresses(&self, origin: &Origin) -> Option<&[SocketAddr]> {
        self.addresses.get(origin).map(Vec::as_slice)
    }

    /// Whether it takes requests.
    pub(crate) fn lives(&self) -> bool {
        !self.dead.get()
    }

    /// Whether it performs something.
    pub(crate) fn performs(&self) -> bool {
        !self.waiting.borrow().is_empty() || !self.streams.borrow().is_empty()
    }

    /// How long ago a call took it, or was over.
    pub(crate) fn idle(&self) -> Duration {
        self.used.get().elapsed()
    }

    /// A call takes it.
    pub(crate) fn taken(&self) {
        self.used.set(Instant::now());
    }

    /// How long ago it was started, and with it its names resolved.
    pub(crate) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// It is gone: everything that it was asked is in doubt.
    pub(crate) fn die(&self, why: &str) {
        if !self.dead.replace(true) {
            tracing::info!(order = self.order, why, "worker ended");
        }
        for (_number, answered) in self.waiting.borrow_mut().drain() {
            let why = format!("the worker ended in mid-call: {}", reason::plain(why));
            // Whoever waits may have given up.
            drop(answered.send(Performed::InDoubt { why }));
        }
        for (_number, heard) in self.streams.borrow_mut().drain() {
            heard.cut(why);
        }
    }

    fn heard(&self, number: u64, tell: impl FnOnce(&Heard)) {
        // Whoever waits may have given up.
        let heard = self.streams.borrow().get(&number).map(Rc::clone);
        if let Some(heard) = heard {
            tell(&heard);
        }
    }

    fn answered(&self, number: u64, performed: Performed) {
        let waiting = self.waiting.borrow_mut().remove(&number);
        if let Some(answered) = waiting {
            // Whoever waits may have given up.
            drop(answered.send(performed));
        }
    }

    /// A number and a place for one more request: reserved first, so that what waits is what was handed over.
    fn reserve(&self) -> Result<(u64, mpsc::Permit<'_, Handed>), Performed> {
        let number = self.next.get();
        self.next.set(number.saturating_add(1));
        self.taken();
        match self.queue.try_reserve() {
            Ok(place) if self.lives() => Ok((number, place)),
            Ok(_) | Err(_) => Err(Performed::NotSent {
                why: "the worker takes no request; try again".into(),
            }),
        }
    }

    /// Performs one request, which was checked and is cleared.
    pub(crate) async fn perform(&self, request: Http, cleared: Cleared) -> Performed {
        let patience = patience(&request);
        let (number, place) = match self.reserve() {
            Ok(reserved) => reserved,
            Err(performed) => return performed,
        };
        let (order, intent) = (self.order, cleared.intent());
        tracing::debug!(order, number, intent, "handed over");
        let (answered, answer) = oneshot::channel();
        drop(self.waiting.borrow_mut().insert(number, answered));
        place.send(Handed {
            request: Request::Http { number, request },
            descriptor: None,
        });
        let waiting = Waiting {
            worker: self,
            number,
        };
        let outcome = timeout(patience, answer).await;
        drop(waiting);
        match outcome {
            Ok(Ok(performed)) => performed,
            Ok(Err(_dropped)) => Performed::InDoubt {
                why: "the worker ended in mid-call".into(),
            },
            Err(_late) => {
                // It does not even keep its own time: no more of it.
                self.die("it did not answer in time");
                Performed::InDoubt {
                    why: "the worker did not answer in time".into(),
                }
            }
        }
    }
}

impl Worker {
    /// Opens a stream by a request that was checked and whose intent is in the chain; its body goes to `to`.
    pub(crate) async fn stream(
        self: &Rc<Self>,
        request: Http,
        to: OwnedFd,
    ) -> Result<Open, Performed> {
        let patience = patience(&request);
        let (number, place) = self.reserve()?;
        tracing::debug!(order = self.order, number, "a lease was handed over");
        let heard = Rc::new(Heard::default());
        drop(self.streams.borrow_mut().insert(number, Rc::clone(&heard)));
        place.send(Handed {
            request: Request::Stream { number, request },
            descriptor: Some(to),
        });
        Stream::new(Rc::clone(self), number, heard, patience)
            .opened()
            .await
    }

    /// No more of a stream.
    pub(crate) fn cut(&self, number: u64) {
        let cut = self.queue.try_send(Handed {
            request: Request::Cut { number },
            descriptor: None,
        });
        if cut.is_err() {
            // It does not read: then it has no more of anything.
            self.die("it does not take the end of a stream");
        }
    }

    /// Nobody waits for the stream any more.
    pub(crate) fn forget(&self, number: u64) {
        self.taken();
        drop(self.streams.borrow_mut().remove(&number));
    }
}

/// How long the worker may take: it says itself why a request takes longer than its own time.
fn patience(request: &Http) -> Duration {
    Duration::from_millis(request.timeout_ms.into()).saturating_add(GRACE)
}

/// A request that is waited for; one that nobody waits for any more is forgotten.
struct Waiting<'a> {
    worker: &'a Worker,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.worker.taken();
        drop(self.worker.waiting.borrow_mut().remove(&self.number));
    }
}

/// Writes requests until nobody is left who makes one; says why if the worker stops reading first.
async fn write(
    mut to: OwnedWriteHalf,
    mut requests: mpsc::Receiver<Handed>,
    worker: &Weak<Worker>,
) -> Result<(), String> {
    while let Some(Handed {
        request,
        descriptor,
    }) = requests.recv().await
    {
        match beside::write(&mut to, &request, descriptor.as_ref()).await {
            Ok(()) => {}
            Err(error @ (FrameError::Closed | FrameError::Io(_))) => {
                return Err(format!("it does not read: {}", reason::chain_of(&error)));
            }
            // Nothing of it was written: this request alone fails.
            Err(error) => {
                let why = error.to_string();
                match (&request, worker.upgrade()) {
                    (Request::Http { number, .. }, Some(worker)) => {
                        worker.answered(*number, Performed::NotSent { why });
                    }
                    (Request::Stream { number, .. }, Some(worker)) => {
                        worker.heard(*number, |it| it.failed(Performed::NotSent { why }));
                    }
                    (Request::Cut { .. } | Request::Hello { .. }, _) | (_, None) => {}
                }
            }
        }
    }
    Ok(())
}

/// Reads answers until the worker ends or breaks the protocol; says which.
async fn read(mut from: OwnedReadHalf, worker: &Weak<Worker>) -> String {
    loop {
        let answer = match frame::read_async(&mut from).await {
            Ok(answer) => answer,
            Err(error) => return error.to_string(),
        };
        let Some(worker) = worker.upgrade() else {
            return "nobody needs it".into();
        };
        let (number, performed) = match answer {
            Answer::Ready => return "it said twice that it is ready".into(),
            Answer::Opened { number, status } => {
                worker.heard(number, |it| it.opened(status));
                continue;
            }
            Answer::Streaming { number, passed } => {
                worker.heard(number, |it| it.passed(passed));
                continue;
            }
            Answer::Streamed {
                number,
                passed,
                ended,
            } => {
                worker.heard(number, |it| it.ended(passed, ended));
                continue;
            }
            Answer::Done {
                number,
                status,
                media_type,
                body,
                scrubbed,
                etag,
                span,
            } => {
                if body.len() > RESULT_CAP {
                    return "it answered more than any answer may have".into();
                }
                let performed = Performed::Done {
                    status,
                    media_type: media_type.filter(|it| is_media_type(it)),
                    body,
                    scrubbed,
                    // Its word is the server's: only what has the form of one goes on.
                    etag: etag.filter(|it| entity_tag(it).as_ref() == Some(it)),
                    span,
                };
                (number, performed)
            }
            Answer::Failed { number, why, sent } => {
                let why = reason::plain(&why);
                let performed = if sent {
                    Performed::InDoubt { why }
                } else {
                    Performed::NotSent { why }
                };
                (number, performed)
            }
        };
        if worker.streams.borrow().contains_key(&number) {
            worker.heard(number, |it| it.failed(performed));
        } else {
            worker.answered(number, performed);
        }
    }
}

fn is_media_type(text: &str) -> bool {
    text.len() <= MEDIA_TYPE_MAX && text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_sys::memfd;
    use custody_wire::Message as _;
    use std::os::unix::net::UnixStream;

    fn request(body: Vec<u8>) -> Http {
        Http {
            method: "POST".into(),
            tls: false,
            host: "api.example.test".into(),
            port: 80,
            addresses: Vec::new(),
            target: "/".into(),
            headers: Vec::new(),
            body,
            timeout_ms: 5_000,
            answer_cap: 1_000,
        }
    }

    /// A worker, and its end of the channel after it said that it is ready.
    async fn worker() -> (Rc<Worker>, UnixStream) {
        let (ours, theirs) = channel::pair_stream().unwrap();
        let mut end = UnixStream::from(theirs.try_clone().unwrap());
        frame::write(&mut end, &Answer::Ready).unwrap();
        let label = CredentialLabel::parse("api").unwrap();
        let start = Start {
            order: 1,
            session: SessionId(7),
            label: &label,
            placement: Placement::Header {
                name: "authorization".into(),
                prefix: "Bearer ".into(),
            },
            credential: memfd::sealed(c"test", b"fake-token-for-tests").unwrap(),
            addresses: BTreeMap::new(),
        };
        let pid = memfd::sealed(c"test", b"").unwrap();
        let worker = Worker::begin(start, ours, pid).await.unwrap();
        let mut hello = vec![0; Request::CAP];
        let (_read, fds) = channel::recv(&theirs, &mut hello, 1).unwrap();
        assert_eq!(fds.len(), 1);
        (worker, end)
    }

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn a_request_over_the_cap_fails_alone() {
        run(async {
            let (worker, mut end) = worker().await;
            let server = std::thread::spawn(move || {
                let Request::Http { number, .. } = frame::read(&mut end).unwrap() else {
                    panic!()
                };
                let done = Answer::Done {
                    number,
                    status: 200,
                    media_type: None,
                    body: Vec::new(),
                    scrubbed: 0,
                    etag: None,
                    span: (0, 0),
                };
                frame::write(&mut end, &done).unwrap();
                end
            });
            let too_long = worker.perform(request(vec![0; Request::CAP]), Cleared::Idempotent);
            let next = worker.perform(request(Vec::new()), Cleared::Idempotent);
            let (too_long, next) = tokio::join!(too_long, next);
            assert!(
                matches!(&too_long, Performed::NotSent { why } if why.contains("at most")),
                "{too_long:?}"
            );
            assert!(matches!(next, Performed::Done { .. }), "{next:?}");
            assert!(worker.lives());
            drop(server.join().unwrap());
        });
    }

    #[test]
    fn a_worker_that_no_longer_reads_is_dead_at_once() {
        run(async {
            let (worker, end) = worker().await;
            // It still holds its other direction open, so that the reader sees no end.
            end.shutdown(std::net::Shutdown::Read).unwrap();
            let before = Instant::now();
            let outcome = worker.perform(request(b"x".to_vec()), Cleared::Idempotent);
            let outcome = outcome.await;
            assert!(
                matches!(&outcome, Performed::InDoubt { why } if why.contains("does not read")),
                "{outcome:?}"
            );
            assert!(!worker.lives() && before.elapsed() < Duration::from_secs(3));
            drop(end);
        });
    }
}

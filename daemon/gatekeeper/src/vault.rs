//! The vault as the gate sees it: one channel at a time, and what is on its way over it.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    os::fd::OwnedFd,
    rc::Rc,
    time::Duration,
};

use custody_service::beside::Incoming;
use custody_wire::{
    frame::{self, FrameError},
    permit::{Answer, Request},
    session::Signed,
};
use gate::digest::Digest;
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc},
    time::timeout,
};

/// Requests that wait for the channel. More is refused, not kept: a vault that does not read is
/// no reason to fill memory.
const QUEUE: usize = 64;

/// How long the opening of a session waits for a vault that is on its way: a service that has
/// just started answers its first call. Longer than a vault's start takes on a busy host.
const ARRIVAL: Duration = Duration::from_secs(2);

/// Where permits go.
#[derive(Debug, Default)]
pub(crate) struct Vault {
    arrived: Notify,
    /// The same, kept for whoever asks later.
    came: Notify,
    link: RefCell<Option<Rc<Link>>>,
}

/// The channel to one run of the vault.
#[derive(Debug)]
pub(crate) struct Link {
    audience: Digest,
    epoch: [u8; 16],
    queue: mpsc::Sender<Request>,
    waiting: RefCell<HashMap<u64, mpsc::Sender<Answered>>>,
    next: Cell<u64>,
}

/// What the vault answers, and what came beside it.
type Answered = (Answer, Option<OwnedFd>);

/// The most answers to one request: that a lease is opened, and what came over it.
const ANSWERS: usize = 2;

/// A request that is on its way.
#[derive(Debug)]
pub(crate) struct Performing {
    queue: mpsc::Sender<Request>,
    answers: mpsc::Receiver<Answered>,
}

/// The request was not handed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the vault takes no more at the moment, and nothing was done; try again")]
pub(crate) struct NotSent;

/// The vault went away after the request was handed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Gone;

impl Vault {
    /// The channel to the vault, if there is one that has said hello.
    pub(crate) fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }

    /// Waits for a vault that is on its way, but not for long: without one a session opens all
    /// the same, and its calls are refused with the reason.
    pub(crate) async fn arrival(&self) {
        let arrived = self.arrived.notified();
        if self.link().is_none() && timeout(ARRIVAL, arrived).await.is_err() {
            tracing::warn!("a session opens without a vault");
        }
    }

    /// Ready when another vault is there than the last time. Cancellation safe.
    pub(crate) async fn came(&self) {
        self.came.notified().await;
    }

    /// Lets the earlier channel go and everything that is on its way over it.
    pub(crate) fn forget(&self) {
        if let Some(link) = self.link.take() {
            link.waiting.borrow_mut().clear();
        }
    }

    /// Serves a channel to its end.
    pub(crate) async fn serve(&self, stream: UnixStream, permit_key: [u8; 32]) -> FrameError {
        let (mut from, mut to) = stream.into_split();
        let (audience, epoch) = match meet(&mut from, &mut to, permit_key).await {
            Ok(hello) => hello,
            Err(why) => return why,
        };
        let (queue, requests) = mpsc::channel(QUEUE);
        let link = Rc::new(Link {
            audience,
            epoch,
            queue,
            waiting: RefCell::default(),
            next: Cell::new(1),
        });
        self.forget();
        *self.link.borrow_mut() = Some(Rc::clone(&link));
        self.arrived.notify_waiters();
        self.came.notify_one();
        tracing::info!(vault = %audience, "the vault is there");

        let why = tokio::select! {
            why = write_all(to, requests) => why,
            why = read_all(from, &link) => why,
        };
        // In this order: nobody may begin to wait after the others were let go.
        let current = self
            .link
            .borrow()
            .as_ref()
            .is_some_and(|l| Rc::ptr_eq(l, &link));
        if current {
            drop(self.link.take());
        }
        link.waiting.borrow_mut().clear();
        why
    }
}

impl Link {
    /// Whom permits must name.
    pub(crate) const fn audience(&self) -> Digest {
        self.audience
    }

    /// The run of the vault that permits must name.
    pub(crate) const fn epoch(&self) -> [u8; 16] {
        self.epoch
    }

    /// Hands over a permit with its call, and the statement that a reviewer signed, if the vault is to
    /// see one.
    pub(crate) fn perform(
        &self,
        permit: Vec<u8>,
        call: Vec<u8>,
        approval: Option<Signed>,
    ) -> Result<Performing, NotSent> {
        let number = self.next.get();
        self.next.set(number.saturating_add(1));
        let (answered, answers) = mpsc::channel(ANSWERS);
        // Reserved first: what waits is what was sent.
        let place = self
            .queue
            .try_reserve()
            .map_err(|_full_or_closed| NotSent)?;
        drop(self.waiting.borrow_mut().insert(number, answered));
        place.send(Request::Perform {
            number,
            permit,
            call,
            approval,
        });
        Ok(Performing {
            queue: self.queue.clone(),
            answers,
        })
    }
}

impl Performing {
    /// The way to this run of the vault.
    pub(crate) fn queue(&self) -> mpsc::Sender<Request> {
        self.queue.clone()
    }

    /// What came of it, and what came beside that. A lease that is opened has a second answer.
    pub(crate) async fn answer(&mut self) -> Result<Answered, Gone> {
        self.answers.recv().await.ok_or(Gone)
    }
}

/// Says hello and waits for the vault's. Without a limit: custodyd makes the channel when it starts
/// a vault, which reads its receipts before it speaks, for as long as they are many. One that ends
/// meanwhile closes the channel, and until it speaks calls are refused.
async fn meet(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    permit_key: [u8; 32],
) -> Result<(Digest, [u8; 16]), FrameError> {
    frame::write_async(to, &Request::Hello { permit_key }).await?;
    match frame::read_async(from).await? {
        Answer::Hello { audience, epoch } => Ok((audience, epoch)),
        other @ (Answer::Done { .. }
        | Answer::Failed { .. }
        | Answer::Opened { .. }
        | Answer::Refused { .. }
        | Answer::Streamed { .. }) => Err(unexpected(&other)),
    }
}

/// Says that the decision records up to `position` are on disk. Nothing happens if that run of the
/// vault is gone: so is its permit.
pub(crate) async fn tell_durable(queue: mpsc::Sender<Request>, position: u64) {
    drop(queue.send(Request::Durable { position }).await);
}

async fn write_all(mut to: OwnedWriteHalf, mut requests: mpsc::Receiver<Request>) -> FrameError {
    while let Some(request) = requests.recv().await {
        if let Err(error) = frame::write_async(&mut to, &request).await {
            return error;
        }
    }
    FrameError::Closed
}

async fn read_all(from: OwnedReadHalf, link: &Link) -> FrameError {
    let mut from = Incoming::new(from);
    loop {
        let answer: Answer = match frame::read_async(&mut from).await {
            Ok(answer) => answer,
            Err(error) => return error,
        };
        let number = match &answer {
            Answer::Done { number, .. }
            | Answer::Failed { number, .. }
            | Answer::Opened { number, .. }
            | Answer::Refused { number, .. }
            | Answer::Streamed { number, .. } => *number,
            Answer::Hello { .. } => return unexpected(&answer),
        };
        let descriptor = from.descriptor();
        let waiting = match &answer {
            // What comes over it follows.
            Answer::Opened { .. } => link.waiting.borrow().get(&number).cloned(),
            Answer::Done { .. }
            | Answer::Failed { .. }
            | Answer::Hello { .. }
            | Answer::Refused { .. }
            | Answer::Streamed { .. } => link.waiting.borrow_mut().remove(&number),
        };
        match waiting {
            // The session may have ended; its task records the result all the same.
            Some(answered) => drop(answered.try_send((answer, descriptor))),
            None => tracing::warn!(number, "the vault answered what nobody asked"),
        }
    }
}

fn unexpected(answer: &Answer) -> FrameError {
    let what = match answer {
        Answer::Hello { .. } => "the vault said hello twice",
        Answer::Done { .. }
        | Answer::Failed { .. }
        | Answer::Opened { .. }
        | Answer::Refused { .. }
        | Answer::Streamed { .. } => "the vault answered before it said hello",
    };
    FrameError::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::digest::Domain;

    #[test]
    fn a_vault_that_reads_many_receipts_before_it_speaks_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let vault = Vault::default();
            let slow = async {
                let (mut from, mut to) = theirs.into_split();
                tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
                let hello = Answer::Hello {
                    audience: Digest::of(Domain::Key, b"a vault"),
                    epoch: [1; 16],
                };
                assert!(vault.link().is_none());
                frame::write_async(&mut to, &hello).await.unwrap();
                let _key: Request = frame::read_async(&mut from).await.unwrap();
                vault.arrival().await;
                assert!(vault.link().is_some());
                // It goes away, and with it the link.
            };
            let (why, ()) = tokio::join!(vault.serve(ours, [7; 32]), slow);
            assert!(matches!(why, FrameError::Closed), "{why}");
            assert!(vault.link().is_none());
        });
    }
}

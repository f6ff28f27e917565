//! The channel to one run of the gate, and the one key whose permits count while it lasts.

use std::{cell::Cell, os::fd::OwnedFd, rc::Rc, time::Duration};

use custody_service::beside;
use custody_wire::{
    frame::{self, FrameError},
    permit::{Answer, Request},
};
use ed25519_dalek::VerifyingKey;
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc, watch},
    time::timeout,
};

use crate::{perform, vault::Vault};

/// Answers that wait for the channel.
const QUEUE: usize = crate::ALL_CALLS;

/// One run of the gate.
#[derive(Debug)]
pub(crate) struct Link {
    key: VerifyingKey,
    queue: mpsc::Sender<(Answer, Option<OwnedFd>)>,
    durable: watch::Sender<Durable>,
    current: Cell<bool>,
    over: Notify,
}

/// What the gate said of its records, and whether it can still say more.
#[derive(Clone, Copy, Debug, Default)]
struct Durable {
    position: u64,
    over: bool,
}

/// Why a gate's channel ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the channel to the gate ended")]
    Channel(#[source] FrameError),
    #[error("the gate did not keep to the protocol: {why}")]
    Protocol { why: &'static str },
    #[error("another gate took its place")]
    Replaced,
}

impl Link {
    /// Whether this is still the gate that counts.
    pub(crate) fn is_current(&self) -> bool {
        self.current.get()
    }

    /// The key of its permits.
    pub(crate) fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// From now on its permits are void and its answers are dropped.
    pub(crate) fn end(&self) {
        self.current.set(false);
        self.durable.send_modify(|durable| durable.over = true);
        self.over.notify_one();
    }

    /// Waits until the gate says that its records up to `position` are on disk. False if it goes
    /// away or takes longer than `patience`.
    pub(crate) async fn is_durable(&self, position: u64, patience: Duration) -> bool {
        let mut durable = self.durable.subscribe();
        let wait = timeout(
            patience,
            durable.wait_for(|it| it.over || it.position >= position),
        );
        // Bound, so that the borrow of the channel ends here.
        let waited = matches!(wait.await, Ok(Ok(_)));
        waited && self.is_current()
    }

    /// Ready when this is no longer the gate that counts.
    pub(crate) async fn ended(&self) {
        let mut durable = self.durable.subscribe();
        // A sender that is gone is a gate that is gone.
        let _over = durable.wait_for(|it| it.over).await.is_ok();
    }

    /// Sends an answer, unless nobody is there to read it.
    pub(crate) async fn answer(&self, answer: Answer) {
        self.answer_with(answer, None).await;
    }

    /// The same with a descriptor beside it.
    pub(crate) async fn answer_with(&self, answer: Answer, descriptor: Option<OwnedFd>) {
        if self.is_current() && self.queue.send((answer, descriptor)).await.is_err() {
            tracing::debug!("the gate that asked is gone");
        }
    }
}

/// Serves a gate's channel to its end.
pub(crate) async fn serve(vault: Rc<Vault>, turn: u64, stream: UnixStream) -> LinkError {
    let (mut from, mut to) = stream.into_split();
    let key = match meet(&mut from, &mut to, &vault.hello()).await {
        Ok(key) => key,
        Err(why) => return why,
    };
    let (queue, answers) = mpsc::channel(QUEUE);
    let link = Rc::new(Link {
        key,
        queue,
        durable: watch::Sender::new(Durable::default()),
        current: Cell::new(true),
        over: Notify::new(),
    });
    if !vault.set_gate(turn, &link) {
        return LinkError::Replaced;
    }
    tracing::info!("the gate is there");
    let why = tokio::select! {
        why = read(from, &vault, &link) => why,
        why = write(to, answers) => why,
        () = link.over.notified() => LinkError::Replaced,
    };
    link.end();
    vault.forget_gate(&link);
    why
}

/// Says hello and waits for the gate's. Without a limit: custodyd makes the channel when it starts a
/// gate, which reads its records before it speaks, for as long as they are many. One that ends
/// meanwhile closes the channel.
async fn meet(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    hello: &Answer,
) -> Result<VerifyingKey, LinkError> {
    frame::write_async(to, hello)
        .await
        .map_err(LinkError::Channel)?;
    match frame::read_async(from).await.map_err(LinkError::Channel)? {
        Request::Hello { permit_key } => {
            VerifyingKey::from_bytes(&permit_key).map_err(|_bad| LinkError::Protocol {
                why: "its permit key is none",
            })
        }
        Request::Durable { .. } | Request::Perform { .. } => Err(LinkError::Protocol {
            why: "it did not begin with its permit key",
        }),
    }
}

async fn read(mut from: OwnedReadHalf, vault: &Rc<Vault>, link: &Rc<Link>) -> LinkError {
    loop {
        match frame::read_async(&mut from).await {
            Ok(Request::Perform {
                number,
                permit,
                call,
                approval,
            }) => {
                let (vault, link) = (Rc::clone(vault), Rc::clone(link));
                match vault.calls.enter() {
                    Some(place) => drop(tokio::task::spawn_local(async move {
                        let answer = perform::perform(
                            &vault,
                            &link,
                            number,
                            &permit,
                            &call,
                            approval.as_ref(),
                        )
                        .await;
                        if let Some(answer) = answer {
                            link.answer(answer).await;
                        }
                        // Held until here: a gate that does not read fills no memory.
                        drop(place);
                    })),
                    None => {
                        let why = format!("{} calls are on their way; try again", crate::ALL_CALLS);
                        link.answer(Answer::Refused { number, why }).await;
                    }
                }
            }
            Ok(Request::Durable { position }) => {
                // Never back: a position that was on disk stays there.
                link.durable
                    .send_modify(|durable| durable.position = durable.position.max(position));
            }
            Ok(Request::Hello { .. }) => {
                return LinkError::Protocol {
                    why: "it said hello twice",
                };
            }
            Err(error) => return LinkError::Channel(error),
        }
    }
}

async fn write(
    mut to: OwnedWriteHalf,
    mut answers: mpsc::Receiver<(Answer, Option<OwnedFd>)>,
) -> LinkError {
    while let Some((answer, descriptor)) = answers.recv().await {
        if let Err(error) = beside::write(&mut to, &answer, descriptor.as_ref()).await {
            return LinkError::Channel(error);
        }
    }
    LinkError::Channel(FrameError::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::SigningKey;
    use gate::digest::{Digest, Domain};

    fn paused(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(test);
    }

    fn hello() -> Answer {
        Answer::Hello {
            audience: Digest::of(Domain::Key, b"a vault"),
            epoch: [1; 16],
        }
    }

    #[test]
    fn a_gate_that_reads_many_records_before_it_speaks_is_waited_for() {
        paused(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut from, mut to) = ours.into_split();
            let key = SigningKey::from_bytes(&[7; 32]).verifying_key();
            let slow = async move {
                let (mut from, mut to) = theirs.into_split();
                tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
                let permit_key = key.to_bytes();
                frame::write_async(&mut to, &Request::Hello { permit_key })
                    .await
                    .unwrap();
                frame::read_async::<Answer>(&mut from).await.unwrap()
            };
            let hello = hello();
            let (met, heard) = tokio::join!(meet(&mut from, &mut to, &hello), slow);
            assert_eq!(met.unwrap(), key);
            assert!(matches!(heard, Answer::Hello { .. }));
        });
    }

    #[test]
    fn a_gate_that_ends_before_it_speaks_is_not_waited_for() {
        paused(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut from, mut to) = ours.into_split();
            drop(theirs);
            let met = meet(&mut from, &mut to, &hello()).await;
            assert!(matches!(met, Err(LinkError::Channel(_))));
        });
    }
}

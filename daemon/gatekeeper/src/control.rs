//! The channel to control: sessions are opened and closed, answers to calls that wait come in, and what waits
//! is said.

use std::{collections::VecDeque, rc::Rc};

use custody_wire::{
    frame::{self, FrameError},
    session::{Answer, Over, Request, Waits},
};
use gate::{approval::Needs, record::Why};
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};

use crate::{
    keeper::{Closer, Keeper},
    opening,
    outbox::{Item, Stuck},
    pending::For,
    review, tell,
};

/// Answers that wait for control to read.
const ANSWERS: usize = 1;

/// Serves control to the end of its channel. What waits for a person is said first: control may be new.
pub(crate) async fn serve(keeper: &Rc<Keeper>, stream: UnixStream) -> FrameError {
    let (from, to) = stream.into_split();
    let (answers, queue) = mpsc::channel(ANSWERS);
    keeper.outbox.renew(everything(keeper));
    tokio::select! {
        why = read_all(keeper, from, answers) => why,
        why = write_all(keeper, to, queue) => why,
    }
}

/// Every call that waits, after what became of those that did: whoever answers one of these late is told
/// by control already.
fn everything(keeper: &Keeper) -> VecDeque<Item> {
    let mut items = VecDeque::new();
    for session in keeper.sessions.all() {
        let pending = session.pending.borrow();
        items.extend(pending.outcomes().map(|(pending, outcome)| {
            Item::Over(Over {
                session: session.id,
                pending,
                outcome,
            })
        }));
        let waiting = pending
            .waiting()
            .iter()
            .filter(|it| matches!(it.waits_for, For::Person(_)))
            .map(|it| Item::Waits(session.id, it.decision.position));
        items.extend(waiting);
    }
    items.push_back(Item::Current);
    items
}

/// A vault is there: what a statement must name has changed for every call that is signed for.
pub(crate) fn announce_signed(keeper: &Keeper) {
    for session in keeper.sessions.all() {
        for waiting in session.pending.borrow().waiting() {
            if let For::Person(shown) = &waiting.waits_for
                && shown.needs() == Needs::Signature
            {
                keeper
                    .outbox
                    .push(Item::Waits(session.id, waiting.decision.position));
            }
        }
    }
}

async fn write_all(
    keeper: &Keeper,
    mut to: OwnedWriteHalf,
    mut answers: mpsc::Receiver<Answer>,
) -> FrameError {
    loop {
        // What an answer rests on is said before it: whoever is told that his call waits anew finds it.
        let said = tokio::select! {
            biased;
            item = keeper.outbox.next() => match item {
                Ok(item) => match unasked(keeper, item) {
                    Some(bytes) => bytes,
                    None => continue,
                },
                Err(Stuck) => {
                    keeper.outbox.detach();
                    return FrameError::Io(std::io::ErrorKind::WouldBlock.into());
                }
            },
            answer = answers.recv() => match answer {
                Some(answer) => frame::frame(&answer),
                None => return FrameError::Closed,
            },
        };
        let written = match said {
            Ok(bytes) => to.write_all(&bytes).await.map_err(FrameError::Io),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            return error;
        }
    }
}

/// What is sent; nothing if the call waits no longer.
fn unasked(keeper: &Keeper, item: Item) -> Option<Result<Vec<u8>, FrameError>> {
    let answer = match item {
        Item::Current => Answer::Current,
        Item::Over(over) => Answer::Over(over),
        Item::Waits(session, position) => {
            let session = keeper.sessions.of(session)?;
            let pending = session.pending.borrow();
            let For::Person(shown) = &pending.at(position)?.waits_for else {
                return None;
            };
            let facts = session.facts.borrow();
            let link = keeper.vault.link();
            let waits = shown.waits(facts.task(), link.as_deref());
            return match frame::frame(&Answer::Waits(Box::new(waits.clone()))) {
                // The call itself always fits; without the words around it nobody could judge it less.
                Err(FrameError::TooLong { .. }) => {
                    let waits = Waits {
                        task: None,
                        values: Vec::new(),
                        ..waits
                    };
                    Some(frame::frame(&Answer::Waits(Box::new(waits))))
                }
                framed => Some(framed),
            };
        }
    };
    Some(frame::frame(&answer))
}

async fn read_all(
    keeper: &Rc<Keeper>,
    mut from: OwnedReadHalf,
    answers: mpsc::Sender<Answer>,
) -> FrameError {
    loop {
        let request: Request = match frame::read_async(&mut from).await {
            Ok(request) => request,
            Err(error) => return error,
        };
        let answer = match request {
            Request::Open(open) => {
                keeper.vault.arrival().await;
                opening::answer(keeper, open)
            }
            Request::Close { session } => {
                keeper.close(session, Closer::Control);
                Answer::Done
            }
            Request::Answer(answered) => match review::answer(keeper, answered) {
                Ok(()) => Answer::Done,
                Err(error) => Answer::NotAnswered {
                    why: Why::from(error.to_string()).as_str().into(),
                    outcome: error.outcome(),
                },
            },
            Request::Tell { session, told } => tell::tell(keeper, session, told),
        };
        if answers.send(answer).await.is_err() {
            return FrameError::Closed;
        }
    }
}

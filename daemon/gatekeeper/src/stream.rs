//! A call whose answer streams: recorded and labelled before its first byte, and when it is over.
//!
//! The bytes never come here. What comes is the descriptor over which they go, and it is handed to the front
//! when the record that opens the lease is on disk and the session's facts have its label: until then no byte
//! can reach the agent, for nobody else has that end.

use std::{os::fd::OwnedFd, rc::Rc};

use custody_service::reason;
use custody_wire::{agent::Answer, permit};
use gate::{
    chain::Place,
    decide::Allowed,
    record::{Decision, Ended, Verification},
};
use tokio::task;

use crate::{
    call::{self, Ending, Lost},
    keeper::Keeper,
    session::{Session, StreamPlace},
    vault::{Gone, Performing},
};

/// A lease on its way.
#[derive(Debug)]
pub(crate) struct Leasing {
    pub(crate) keeper: Rc<Keeper>,
    pub(crate) session: Rc<Session>,
    pub(crate) number: u64,
    pub(crate) allowed: Allowed,
    pub(crate) decision: Place,
    pub(crate) request: Performing,
    pub(crate) place: StreamPlace,
}

impl Leasing {
    /// Waits for the server's head and for the record's way to disk, beside each other, and hands the stream
    /// to the session's front.
    pub(crate) async fn open(mut self) -> Answer {
        let on_disk = self.keeper.book.durable(self.decision);
        let (told, on_disk) = tokio::join!(self.request.answer(), on_disk);
        let (status, descriptor) = match told {
            Ok((permit::Answer::Opened { status, .. }, Some(descriptor))) => (status, descriptor),
            Ok((other, _)) => return self.fail(call::ending_of(other)),
            Err(Gone) => return self.fail(Lost::Vault.ending(true)),
        };
        if let Err(error) = on_disk {
            tracing::error!(
                error = reason::chain_of(&error),
                "the opening of a lease is not on disk"
            );
            // Both ends close, and its receipt says so.
            drop(descriptor);
            return self.fail(Ending {
                receipt: None,
                in_doubt: true,
                verification: Verification::UNSUPPORTED,
                why: "the stream's opening could not be written to disk, and nothing of it is released; \
                      the operator finds the cause in the log of custody-gate"
                    .into(),
            });
        }
        self.release(status, descriptor).await
    }

    async fn release(self, status: u16, descriptor: OwnedFd) -> Answer {
        let (session, number) = (Rc::clone(&self.session), self.number);
        let (call, stream) = (self.allowed.digest(), self.decision.position);
        let Some(opening) = self.allowed.opens().cloned() else {
            // `begin` found a lease in it, and an `Allowed` does not change.
            return self.fail(Lost::Vault.ending(true));
        };
        let label = session
            .facts
            .borrow_mut()
            .record_stream(self.allowed.tool(), &opening);
        tracing::info!(
            session = %session.id,
            tool = %self.allowed.tool(),
            status,
            label = ?label,
            record = stream,
            "lease opened"
        );
        drop(task::spawn_local(self.follow()));
        let handed = match session.answers().filter(|_| session.is_open()) {
            Some(front) => {
                let sent = front.send((Answer::Stream { stream }, Some(descriptor)));
                sent.await.is_ok()
            }
            // Dropped: nobody reads it, which ends it.
            None => false,
        };
        if !handed {
            let why = "nobody reads the stream";
            return call::failed(number, why, true, Verification::UNSUPPORTED);
        }
        Answer::Leased {
            number,
            call,
            stream,
            status,
            ms: opening.lease.ms,
        }
    }

    /// Waits for the end, records it, and tells the front, which lets nothing more through of what was cut.
    async fn follow(mut self) {
        let told = self.request.answer().await;
        let stream = self.decision.position;
        let session = Rc::clone(&self.session);
        let ended = match told {
            Ok((
                permit::Answer::Streamed {
                    receipt, stream, ..
                },
                _,
            )) => {
                let record = Decision::Streamed {
                    at: self.keeper.book.now(),
                    call: self.allowed.digest(),
                    decision: self.decision,
                    receipt,
                    session: session.id,
                    stream: stream.clone(),
                    tool: self.allowed.tool().clone(),
                };
                let recorded = self.keeper.book.record(&record).is_ok();
                tracing::info!(
                    session = %session.id,
                    tool = %self.allowed.tool(),
                    bytes = stream.bytes,
                    ended = stream.ended.in_words(),
                    recorded,
                    "lease over"
                );
                stream.ended
            }
            other => {
                let ending = match other {
                    Ok((other, _)) => call::ending_of(other),
                    Err(Gone) => Lost::Vault.ending(true),
                };
                let why = ending.why.as_str().into();
                let _told = self.fail(ending);
                Ended::Cut { why }
            }
        };
        let front = session.answers();
        if let Some(front) = front {
            // A front that is gone has cut it already.
            drop(front.send((Answer::Over { stream, ended }, None)).await);
        }
    }

    /// Gives its place back, too.
    fn fail(self, ending: Ending) -> Answer {
        let Self {
            keeper,
            session,
            number,
            allowed,
            decision,
            place,
            ..
        } = self;
        drop(place);
        call::fail(&keeper, &session, number, &allowed, decision, ending)
    }
}

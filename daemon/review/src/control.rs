//! Asks custody-control, with a reviewer's ticket, on the one channel that custodyd made: one question after
//! the other, answered in order.

use std::time::Duration;

use custody_wire::{
    frame::{self, FrameError},
    operator::{Answer, OfPage, Request, Ticket},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    sync::{mpsc, oneshot},
    time::timeout,
};

/// How long control may take: an approval is two writes to its disk, and others may be before it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most questions that wait for their turn.
const QUEUE: usize = 64;

type Asked = (Vec<u8>, oneshot::Sender<Answer>);

/// The way to control.
#[derive(Clone, Debug)]
pub struct Control(mpsc::Sender<Asked>);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It does not answer as it should.
    #[error("the service does not answer; try again, and look at its log if it stays so")]
    Frame(#[source] FrameError),
    /// It is not there.
    #[error("the service is being started again; reload the page in a moment")]
    Gone,
    /// It says no.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// It took too long.
    #[error("the service takes too long; try again")]
    Slow,
}

impl Control {
    /// Over `stream`. The future ends when control is gone, with the reason.
    pub fn connect(stream: UnixStream) -> (Self, impl Future<Output = FrameError> + Send) {
        let (ask, asked) = mpsc::channel(QUEUE);
        (Self(ask), carry(stream, asked))
    }

    /// Takes a login link's token for a ticket.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub async fn enter(&self, token: Ticket) -> Result<Ticket, ControlError> {
        let Answer::Entered { ticket } = self.exchange(&Request::Enter { token }).await? else {
            return Err(unexpected());
        };
        Ok(ticket)
    }

    /// Asks what the reviewer of `ticket` asks.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub async fn ask(&self, ticket: Ticket, what: OfPage) -> Result<Answer, ControlError> {
        let what = Box::new(what);
        self.exchange(&Request::Page { ticket, what }).await
    }

    async fn exchange(&self, request: &Request) -> Result<Answer, ControlError> {
        let bytes = frame::frame(request).map_err(ControlError::Frame)?;
        let (answered, answer) = oneshot::channel();
        let talk = async {
            self.0
                .send((bytes, answered))
                .await
                .map_err(|_closed| ControlError::Gone)?;
            answer.await.map_err(|_gone| ControlError::Gone)
        };
        match timeout(PATIENCE, talk).await {
            Ok(Ok(Answer::Refused { why })) => Err(ControlError::Refused { why }),
            Ok(answer) => answer,
            Err(_elapsed) => Err(ControlError::Slow),
        }
    }
}

/// Whoever asked may be gone: his answer is read all the same, so that the next one gets his own.
async fn carry(stream: UnixStream, mut asked: mpsc::Receiver<Asked>) -> FrameError {
    let (mut from, mut to) = stream.into_split();
    let (tell, mut told) = mpsc::channel(1);
    let reading = async move {
        loop {
            match frame::read_async::<Answer>(&mut from).await {
                Ok(answer) => {
                    if tell.send(answer).await.is_err() {
                        return FrameError::Closed;
                    }
                }
                Err(error) => return error,
            }
        }
    };
    let asking = async move {
        loop {
            // Between two questions control says nothing.
            let (bytes, answered) = tokio::select! {
                next = asked.recv() => match next {
                    Some(next) => next,
                    None => return FrameError::Closed,
                },
                _unasked = told.recv() => return FrameError::Closed,
            };
            if let Err(error) = to.write_all(&bytes).await {
                return FrameError::Io(error);
            }
            match told.recv().await {
                Some(answer) => drop(answered.send(answer)),
                None => return FrameError::Closed,
            }
        }
    };
    tokio::select! {
        why = reading => why,
        why = asking => why,
    }
}

/// What another answer than the expected one is.
pub fn unexpected() -> ControlError {
    tracing::error!("control answers something else; is it of another version?");
    ControlError::Frame(FrameError::Closed)
}

//! The gate: opening and closing a session. One request at a time, answered in order.

use custody_wire::{
    frame::{self, FrameError},
    session::{Answer, Answered, Open, Outcome, Request, Told, Unasked},
};
use gate::id::SessionId;
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    sync::{mpsc, oneshot},
};

/// The most requests that wait for their turn.
const QUEUE: usize = 64;

/// Why a session is not opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The gate is gone.
    #[error("the gate is gone; the service restarts it: try again")]
    Gone,
    /// What a reviewer said does not count.
    #[error("{why}")]
    NotAnswered {
        /// Why.
        why: String,
        /// What became of the call; none where it waits as before.
        outcome: Option<Outcome>,
    },
    /// The gate refuses it.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// The values do not fit.
    #[error("the values, owned sets and task of a session do not fit: {why}")]
    TooLong {
        /// By how much.
        why: String,
    },
}

/// The way to the gate.
#[derive(Clone, Debug)]
pub struct Gate(mpsc::Sender<Asked>);

type Asked = (Vec<u8>, oneshot::Sender<Answer>);

impl Gate {
    /// Speaks to the gate over `stream`, and hands on what it says unasked. The future ends when the
    /// gate is gone, with the reason.
    pub fn connect(
        stream: UnixStream,
    ) -> (
        Self,
        mpsc::UnboundedReceiver<Unasked>,
        impl Future<Output = FrameError> + Send,
    ) {
        let (ask, asked) = mpsc::channel(QUEUE);
        // Not bounded: whoever hears may wait for an answer that comes behind what he has not heard. The
        // gate bounds how many calls of a session wait.
        let (unasked, heard) = mpsc::unbounded_channel();
        (Self(ask), heard, carry(stream, asked, unasked))
    }

    /// Opens a session, before it is launched.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(&self, open: Open) -> Result<(), OpenError> {
        self.ask(&Request::Open(open)).await
    }

    /// Closes a session that did not start or is over.
    ///
    /// # Errors
    /// When the gate is gone, and every session with it.
    pub async fn close(&self, session: SessionId) -> Result<(), OpenError> {
        self.ask(&Request::Close { session }).await
    }

    /// Says something to a session.
    ///
    /// # Errors
    /// When the gate is gone, or takes it for none.
    pub async fn tell(&self, session: SessionId, told: Told) -> Result<(), OpenError> {
        self.ask(&Request::Tell { session, told }).await
    }

    /// A reviewer says something to a call that waits.
    ///
    /// # Errors
    /// When the gate is gone, or the call does not wait.
    pub async fn answer(&self, answered: Answered) -> Result<(), OpenError> {
        self.ask(&Request::Answer(answered)).await
    }

    async fn ask(&self, request: &Request) -> Result<(), OpenError> {
        // Framed here: what does not fit is this request's fault, and no other's.
        let bytes = frame::frame(request).map_err(|error| OpenError::TooLong {
            why: error.to_string(),
        })?;
        let (answered, answer) = oneshot::channel();
        self.0
            .send((bytes, answered))
            .await
            .map_err(|_closed| OpenError::Gone)?;
        match answer.await {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::NotAnswered { why, outcome }) => {
                Err(OpenError::NotAnswered { why, outcome })
            }
            Ok(Answer::Refused { why }) => Err(OpenError::Refused { why }),
            // These are never handed on as answers.
            Ok(Answer::Current | Answer::Over(_) | Answer::Waits(_)) | Err(_) => {
                Err(OpenError::Gone)
            }
        }
    }
}

async fn carry(
    stream: UnixStream,
    mut asked: mpsc::Receiver<Asked>,
    unasked: mpsc::UnboundedSender<Unasked>,
) -> FrameError {
    let (mut read, mut write) = stream.into_split();
    let (tell, mut told) = mpsc::channel(1);
    let reading = async move {
        loop {
            match frame::read_async::<Answer>(&mut read).await {
                // Without anybody who hears it this program ends.
                Ok(Answer::Over(over)) => drop(unasked.send(Unasked::Over(over))),
                Ok(Answer::Waits(waits)) => drop(unasked.send(Unasked::Waits(waits))),
                Ok(Answer::Current) => drop(unasked.send(Unasked::Current)),
                Ok(
                    answer @ (Answer::Done | Answer::NotAnswered { .. } | Answer::Refused { .. }),
                ) => {
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
            // Between two questions the gate says nothing.
            let (bytes, answered) = tokio::select! {
                next = asked.recv() => match next {
                    Some(next) => next,
                    None => return FrameError::Closed,
                },
                _unasked = told.recv() => {
                    return FrameError::Io(std::io::ErrorKind::InvalidData.into());
                }
            };
            if let Err(error) = write.write_all(&bytes).await {
                return FrameError::Io(error);
            }
            match told.recv().await {
                // Whoever asked may be gone.
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

//! Asks custody-control, with a reviewer's ticket. A connection for each question: control bounds them.

use std::{path::PathBuf, time::Duration};

use custody_wire::{
    frame::{self, FrameError},
    operator::{Answer, OfPage, Request, Ticket},
};
use tokio::{net::UnixStream, time::timeout};

/// How long control may take: an approval is two writes to its disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// The way to control.
#[derive(Clone, Debug)]
pub struct Control {
    socket: PathBuf,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It does not answer as it should.
    #[error("the service does not answer; try again, and look at its log if it stays so")]
    Frame(#[source] FrameError),
    /// It is not there.
    #[error("the service does not run")]
    Gone(#[source] std::io::Error),
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
    /// At this socket.
    pub const fn new(socket: PathBuf) -> Self {
        Self { socket }
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
        let talk = async {
            let mut stream = UnixStream::connect(&self.socket)
                .await
                .map_err(ControlError::Gone)?;
            frame::write_async(&mut stream, request)
                .await
                .map_err(ControlError::Frame)?;
            frame::read_async::<Answer>(&mut stream)
                .await
                .map_err(ControlError::Frame)
        };
        match timeout(PATIENCE, talk).await {
            Ok(Ok(Answer::Refused { why })) => Err(ControlError::Refused { why }),
            Ok(answer) => answer,
            Err(_elapsed) => Err(ControlError::Slow),
        }
    }
}

/// What another answer than the expected one is.
pub fn unexpected() -> ControlError {
    tracing::error!("control answers something else; is it of another version?");
    ControlError::Frame(FrameError::Closed)
}

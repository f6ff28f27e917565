//! The gate: one typed call, one answer. Many in flight, told apart by number.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use custody_service::beside::Incoming;
use custody_wire::{
    agent::{Answer, Request, ToolView},
    frame::{self, FrameError},
};
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, mpsc, oneshot},
};

use crate::stream::Streams;

/// The most calls of one session that are with the gate at once. A further one waits here.
pub const IN_FLIGHT_MAX: usize = 64;

/// Why there is no answer: the gate is gone, and the session ends with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Gone {
    /// It was gone before it was asked.
    #[error("the gate is gone and was not asked; nothing was performed; this session ends")]
    BeforeAsking,
    /// It was asked, and then it was gone.
    #[error(
        "the gate is gone and did not answer; the call may or may not have been performed; \
         this session ends"
    )]
    Unanswered,
    /// It answered another question.
    #[error("the gate did not answer what was asked")]
    Wrong,
}

/// The way to the gate. A clone asks over the same channel.
#[derive(Clone, Debug)]
pub struct Gate {
    send: mpsc::Sender<Request>,
    waiting: Arc<Mutex<Waiting>>,
    next: Arc<AtomicU64>,
    in_flight: Arc<Semaphore>,
    streams: Streams,
}

type Waiting = HashMap<u64, oneshot::Sender<Answer>>;

impl Gate {
    /// Speaks to the gate over `stream`. The future ends when the gate is gone, with the reason;
    /// every question that waits is then answered by [`Gone`].
    pub fn connect(stream: UnixStream) -> (Self, impl Future<Output = FrameError> + Send) {
        let (read, write) = stream.into_split();
        let (send, requests) = mpsc::channel(IN_FLIGHT_MAX);
        let waiting = Arc::new(Mutex::new(Waiting::new()));
        let gate = Self {
            send,
            waiting: Arc::clone(&waiting),
            next: Arc::new(AtomicU64::new(1)),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            streams: Streams::default(),
        };
        let streams = gate.streams.clone();
        let in_flight = Arc::clone(&gate.in_flight);
        let carried = async move {
            let why = tokio::select! {
                why = write_all(write, requests) => why,
                why = read_all(read, &waiting, &streams) => why,
            };
            streams.cut_all();
            // In this order: nobody may begin to wait after the others were let go.
            in_flight.close();
            lock(&waiting).clear();
            why
        };
        (gate, carried)
    }

    /// The session's streams.
    pub const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Asks for a call: its tool's name as sent, its arguments in RFC 8785 form.
    ///
    /// # Errors
    /// When the gate is gone.
    pub async fn call(&self, tool: String, arguments: Vec<u8>) -> Result<Answer, Gone> {
        self.ask(|number| Request::Call {
            number,
            tool,
            arguments,
        })
        .await
    }

    /// Asks for the session's tools.
    ///
    /// # Errors
    /// When the gate is gone, or answers with something else.
    pub async fn tools(&self) -> Result<Vec<ToolView>, Gone> {
        match self.ask(|number| Request::Tools { number }).await? {
            Answer::Tools { tools, .. } => Ok(tools),
            Answer::Done { .. }
            | Answer::Failed { .. }
            | Answer::Held { .. }
            | Answer::Leased { .. }
            | Answer::Over { .. }
            | Answer::Refused { .. }
            | Answer::Stream { .. } => Err(Gone::Wrong),
        }
    }

    async fn ask(&self, request: impl FnOnce(u64) -> Request) -> Result<Answer, Gone> {
        let _permit = self
            .in_flight
            .acquire()
            .await
            .map_err(|_closed| Gone::BeforeAsking)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if self.in_flight.is_closed() {
                return Err(Gone::BeforeAsking);
            }
            waiting.insert(number, answered);
        }
        self.send
            .send(request(number))
            .await
            .map_err(|_closed| Gone::BeforeAsking)?;
        answer.await.map_err(|_dropped| Gone::Unanswered)
    }
}

async fn write_all(mut to: OwnedWriteHalf, mut requests: mpsc::Receiver<Request>) -> FrameError {
    while let Some(request) = requests.recv().await {
        if let Err(error) = frame::write_async(&mut to, &request).await {
            return error;
        }
    }
    FrameError::Closed
}

async fn read_all(from: OwnedReadHalf, waiting: &Mutex<Waiting>, streams: &Streams) -> FrameError {
    let mut from = Incoming::new(from);
    loop {
        let answer: Answer = match frame::read_async(&mut from).await {
            Ok(answer) => answer,
            Err(error) => return error,
        };
        let descriptor = from.descriptor();
        let number = match (&answer, descriptor) {
            (Answer::Stream { stream }, Some(descriptor)) => {
                streams.opened(*stream, descriptor);
                continue;
            }
            (Answer::Stream { stream }, None) => {
                tracing::error!(stream, "a stream came without its descriptor");
                continue;
            }
            (Answer::Over { stream, ended }, _) => {
                streams.over(*stream, ended.clone());
                continue;
            }
            (
                Answer::Done { number, .. }
                | Answer::Failed { number, .. }
                | Answer::Held { number, .. }
                | Answer::Leased { number, .. }
                | Answer::Refused { number, .. }
                | Answer::Tools { number, .. },
                _,
            ) => *number,
        };
        match lock(waiting).remove(&number) {
            // Whoever asked may be gone; the decision is recorded all the same.
            Some(answered) => drop(answered.send(answer)),
            None => tracing::warn!(number, "the gate answered what nobody asked"),
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    // A map of senders is whole after any panic.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Strict lines in front of the protocol's library, and its answers back, both bounded.
//!
//! What one connection can make us hold: one line, [`REQUESTS_MAX`] requests that are worked on,
//! and their answers. While its reader stalls, nothing further is read from it; if it stalls for
//! [`WRITE_TIMEOUT`], the connection ends.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ServerJsonRpcMessage},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    line::{Line, Lines},
    strict::{self, Checked, LINE_CAP, Refusal},
    used::Used,
};

/// The most requests of one connection that are worked on at once. A further one waits in the
/// socket's buffer.
pub const REQUESTS_MAX: usize = 16;

/// How long a write to the agent may take, whole.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// For how long, and how many bytes, a line that is too long is read on and dropped, so that its
/// writer is not cut off before it can read why.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const DRAIN_MOST: usize = 64 << 20;

/// What comes with a request beside what the library parses.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// A call's arguments in RFC 8785 form; nothing for another request.
    pub arguments: Arc<Vec<u8>>,
    /// Given back when the request is answered or forgotten.
    _slot: Arc<OwnedSemaphorePermit>,
}

/// One connection of the agent.
#[derive(Debug)]
pub struct Transport {
    lines: Lines<OwnedReadHalf>,
    /// Read already, by whoever had to know what the connection is for.
    first: Option<Line>,
    out: mpsc::Sender<Outgoing>,
    unwritten: Arc<Unwritten>,
    slots: Arc<Semaphore>,
    slot: Option<OwnedSemaphorePermit>,
    refusal: Option<Vec<u8>>,
    ending: Option<Instant>,
    begun: bool,
    used: Used,
}

impl Transport {
    /// Over a connection of which the first line was read.
    pub fn new(lines: Lines<OwnedReadHalf>, first: Line, write: OwnedWriteHalf) -> Self {
        let (out, outgoing) = mpsc::channel(REQUESTS_MAX);
        tokio::spawn(write_all(write, outgoing));
        Self {
            lines,
            first: Some(first),
            out,
            unwritten: Arc::default(),
            slots: Arc::new(Semaphore::new(REQUESTS_MAX)),
            slot: None,
            refusal: None,
            ending: None,
            begun: false,
            used: Used::default(),
        }
    }

    fn message(&mut self, line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        let (bytes, arguments) = match strict::check(line)? {
            Checked::Call {
                message,
                arguments,
                id,
                what,
            } => {
                if !self.used.admits(&id, what) {
                    return Err(Refusal::reused(id));
                }
                (message, arguments)
            }
            Checked::Notification(message) if self.begun => (message, Vec::new()),
            // Before the first request the library takes a notification for a broken handshake.
            Checked::Notification(_) | Checked::Unasked => return Ok(None),
            Checked::Request(message) => (message, Vec::new()),
        };
        let mut message: ClientJsonRpcMessage = serde_json::from_slice(&bytes)
            .map_err(|error| Refusal::connection(format!("not a message of MCP: {error}")))?;
        if let JsonRpcMessage::Request(request) = &mut message
            && let Some(slot) = self.slot.take()
        {
            self.begun = true;
            request.request.extensions_mut().insert(Admitted {
                arguments: Arc::new(arguments),
                _slot: Arc::new(slot),
            });
        }
        Ok(Some(message))
    }
}

impl rmcp::transport::Transport<RoleServer> for Transport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let out = self.out.clone();
        // Counted now, not when the future runs: the library keeps any number of these futures.
        let unwritten = Unwritten::one_more(&self.unwritten);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            out.send(Outgoing {
                line,
                _unwritten: Some(unwritten),
            })
            .await
            .map_err(|_closed| io::Error::from(io::ErrorKind::BrokenPipe))
        }
    }

    // Cancellation safe: the library drops this future whenever it has something else to do. What
    // was read and what is to be said stay in `self`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.refusal.is_some() {
                let place = self.out.reserve().await.ok()?;
                if let Some(line) = self.refusal.take() {
                    place.send(Outgoing {
                        line,
                        _unwritten: None,
                    });
                }
            }
            if let Some(until) = self.ending {
                // However it ends, the connection does.
                drop(timeout_at(until, self.lines.drain(DRAIN_MOST)).await);
                return None;
            }
            self.unwritten.below(REQUESTS_MAX).await;
            if self.slot.is_none() {
                let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
                self.slot = Some(slot);
            }
            let line = match self.first.take() {
                Some(first) => Ok(first),
                None => tokio::select! {
                    () = self.out.closed() => return None,
                    line = self.lines.next() => line,
                },
            };
            match line {
                Err(_) | Ok(Line::End) => return None,
                Ok(Line::Whole(line)) if line.is_empty() => {}
                Ok(Line::Whole(line)) => match self.message(&line) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => {}
                    Err(refusal) => self.refusal = Some(refusal.to_line()),
                },
                Ok(Line::TooLong) => {
                    let why = format!("a line has at most {LINE_CAP} bytes; the connection ends");
                    self.refusal = Some(Refusal::unreadable(why).to_line());
                    self.ending = Some(Instant::now() + DRAIN_TIMEOUT);
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line on its way to the agent.
#[derive(Debug)]
struct Outgoing {
    line: Vec<u8>,
    _unwritten: Option<OneUnwritten>,
}

/// Ends when the connection is forgotten, with everything said, or when its reader stalls.
async fn write_all(mut to: OwnedWriteHalf, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { line, _unwritten }) = outgoing.recv().await {
        match timeout(WRITE_TIMEOUT, to.write_all(&line)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_elapsed) => {
                tracing::warn!("the agent does not read its answers; its connection ends");
                return;
            }
        }
    }
}

/// How many answers are not written yet.
#[derive(Debug, Default)]
struct Unwritten {
    count: AtomicUsize,
    fewer: Notify,
}

impl Unwritten {
    fn one_more(this: &Arc<Self>) -> OneUnwritten {
        this.count.fetch_add(1, Ordering::AcqRel);
        OneUnwritten(Arc::clone(this))
    }

    async fn below(&self, most: usize) {
        while self.count.load(Ordering::Acquire) >= most {
            self.fewer.notified().await;
        }
    }
}

#[derive(Debug)]
struct OneUnwritten(Arc<Unwritten>);

impl Drop for OneUnwritten {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        // Kept for the one reader if it does not wait yet.
        self.0.fewer.notify_one();
    }
}

//! The session's listener: so many connections at once, idle ones included.

use std::{io, sync::Arc, time::Duration};

use custody_wire::frame::FrameError;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    ask::Gate,
    line::{Line, Lines},
    mcp,
    stream::{self, ASKS},
    strict::{LINE_CAP, Refusal},
    transport::Transport,
};

/// The most connections of one session at once.
pub const CONNECTIONS_MAX: usize = 32;

/// How long the last answers may take to leave when the gate is gone.
const FAREWELL: Duration = Duration::from_millis(500);

/// How long to wait after accept(2) failed: EMFILE and ENOMEM pass when something is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the session's agent until the gate is gone, and says why it is.
pub async fn serve(listener: UnixListener, gate: UnixStream) -> FrameError {
    let (gate, carried) = Gate::connect(gate);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let why = tokio::select! {
        why = carried => why,
        never = accept_all(&listener, &gate, &connections) => match never {},
    };
    // Whoever waits was told so by now; give it the time to be written.
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    drop(timeout(FAREWELL, connections.acquire_many(all)).await);
    why
}

async fn accept_all(
    listener: &UnixListener,
    gate: &Gate,
    connections: &Arc<Semaphore>,
) -> std::convert::Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match Arc::clone(connections).try_acquire_owned() {
                Ok(place) => {
                    let gate = gate.clone();
                    tokio::spawn(async move {
                        connection(stream, gate).await;
                        drop(place);
                    });
                }
                Err(_full) => turn_away(&stream),
            },
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        // A flood of connections does not keep the others waiting.
        tokio::task::yield_now().await;
    }
}

/// The first line says what a connection is for: a stream, or the protocol.
async fn connection(stream: UnixStream, gate: Gate) {
    let (from, to) = stream.into_split();
    let mut lines = Lines::new(from, LINE_CAP);
    let Ok(first) = lines.next().await else {
        return;
    };
    let asked = match &first {
        Line::Whole(line) => line.strip_prefix(ASKS.as_bytes()),
        Line::End | Line::TooLong => None,
    };
    match asked {
        Some(name) => {
            let name = String::from_utf8_lossy(name).into_owned();
            stream::serve(gate.streams(), &name, lines.into_inner(), to).await;
        }
        None => mcp::serve(Transport::new(lines, first, to), gate).await,
    }
}

/// Says why and closes. An empty socket buffer takes the line at once, or the connection is gone.
fn turn_away(stream: &UnixStream) {
    let why = format!("this session has {CONNECTIONS_MAX} connections; close one first");
    let line = Refusal::connection(why).to_line();
    if let Err(error) = stream.try_write(&line)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::debug!(%error, "a connection was turned away unheard");
    }
}

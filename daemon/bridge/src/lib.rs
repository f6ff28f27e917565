//! custody-bridge: the session's socket as a stdio server, for every MCP client.
//!
//! With the one argument `doctor` it tries instead what a session must not be able to do, and prints the
//! kernel's answers: what `custody doctor` starts.
//!
//! With `--stream ID` it copies one stream of the session to standard output, and ends with status 0 if it
//! came whole.
//!
//! Bytes go both ways until the service closes. Nothing is parsed, nothing is kept, nothing is
//! known: this program is in the agent's zone, and whatever it could do the agent can do itself.
//!
//! **Invariant:** no dependency of ours, no flag of a descriptor is changed (they are shared with
//! whoever started the bridge), no reconnect: the client starts a new bridge.
#![forbid(unsafe_code)]

mod doctor;
mod relay;
mod stream;

use std::{
    io,
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::Path,
};

pub use doctor::try_all;
pub use relay::{Ended, RelayError, relay};
pub use stream::{StreamError, stream};

/// Where every session has its socket: `custody_wire::launch::LISTENER`, which this crate may not
/// import.
pub const SOCKET: &str = "/run/custody/session.sock";

/// Why nothing was relayed, or no more.
#[derive(Debug)]
pub enum BridgeError {
    /// The socket does not answer.
    Connect {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The connection or a standard stream failed.
    Relay(RelayError),
    /// The service closed the connection while the client was still there.
    ServiceClosed,
}

impl std::fmt::Display for BridgeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect { path, source } if source.kind() == io::ErrorKind::NotFound => {
                write!(
                    f,
                    "there is no `{path}`: this is not inside a Custody session"
                )
            }
            Self::Connect { path, source } if source.kind() == io::ErrorKind::ConnectionRefused => {
                write!(
                    f,
                    "nobody answers at `{path}`: the session's service is gone"
                )
            }
            Self::Connect { path, source } => write!(f, "cannot connect to `{path}`: {source}"),
            Self::Relay(error) => error.fmt(f),
            Self::ServiceClosed => {
                f.write_str("the session's service closed the connection; start the client again")
            }
        }
    }
}

impl std::error::Error for BridgeError {}

/// Connects standard input and output to the socket at `path`, to the end.
///
/// # Errors
/// When there is no connection, it fails, or the service ends it first.
pub fn run(path: &Path) -> Result<(), BridgeError> {
    let socket = UnixStream::connect(path).map_err(|source| BridgeError::Connect {
        path: path.display().to_string(),
        source,
    })?;
    let ended = relay(io::stdin().as_fd(), io::stdout().as_fd(), socket.as_fd());
    match ended.map_err(BridgeError::Relay)? {
        Ended::Client => Ok(()),
        Ended::Service => Err(BridgeError::ServiceClosed),
    }
}

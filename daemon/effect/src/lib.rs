//! custody-effect: performs one credential's effects for one session.
//!
//! The worker holds one credential, puts it into requests that the vault rendered, and takes it out
//! of what comes back. The resolver and the verifier are the same program without a credential.
//!
//! **Invariant:** nothing here decides what may be done. What is here parses what servers answer,
//! so a compromise of it is worth the one credential, and nothing of the answer leaves before it
//! was scrubbed.
#![forbid(unsafe_code)]

pub mod check;
mod connect;
pub mod credential;
pub mod host;
pub mod http;
mod request;
pub mod resolve;
pub mod scrub;
pub mod stream;
pub mod worker;

pub use connect::ConnectError;
pub use request::RequestError;

//! custody-gate: decides, records, signs permits.
//!
//! It reads typed calls and results in our own framing, decides with the crate `gate`, and records
//! every outcome before it has any effect. A session is a channel: who holds it asks as that
//! session, and no field of a message says otherwise.
//!
//! **Invariant:** no network, no credential, and no argument's value in a log. What cannot be
//! recorded is not done.
#![forbid(unsafe_code)]

mod book;
mod call;
mod control;
mod deadlines;
mod front;
mod keeper;
mod notices;
mod opening;
mod outbox;
mod pace;
mod pending;
mod policies;
mod released;
mod review;
mod session;
mod shown;
mod stream;
mod tell;
mod vault;
mod wait;
mod window;

pub use keeper::{Config, GateError, serve};
pub use notices::NoticeError;

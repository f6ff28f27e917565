//! custody-gate: decides, records, signs permits.
//!
//! It reads typed calls and results in our own framing, decides with the crate `gate`, and records
//! every outcome before it has any effect. A session is a channel: who holds it asks as that
//! session, and no field of a message says otherwise.
//!
//! **Invariant:** no network, no credential, and no argument's value in a log. What cannot be
//! recorded is not done.
#![forbid(unsafe_code)]

pub mod args;
mod book;
mod call;
pub mod clock;
mod control;
mod front;
mod keeper;
mod notices;
mod pace;
mod policies;
mod session;
mod vault;
mod window;

pub use keeper::{Config, GateError, serve};
pub use notices::NoticeError;
pub use policies::PoliciesError;

/// The whole chain of causes in one line.
fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

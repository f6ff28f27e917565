//! The worker and the resolver over their real channels, in this process and as programs. One
//! binary, so that it links once.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, whatever else came"
)]

mod http;
mod program;
mod server;

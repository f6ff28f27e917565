//! custody-control between real sockets: clients of any uid, a custodyd and a gate that say what
//! a test tells them to.
#![cfg(test)] // a helper may unwrap like the tests that it helps
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test wants one answer and panics on every other"
)]

mod asking;
mod delegating;
mod floods;
mod fuse;
mod linger;
mod paging;
mod peers;
mod reviewing;
mod running;
mod telling;

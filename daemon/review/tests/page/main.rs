//! The page between a real browser and a custody-control that says what a test tells it to.
#![cfg(test)] // a helper may unwrap like the tests that it helps
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test wants one request and panics on every other"
)]

mod browser;
mod driver;
mod fake;
mod requests;

//! Exports as files, and what is found of them.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by it"
)]

mod controls;
mod diff;
mod draft;
mod infer;
mod input;
mod report;
mod schema;

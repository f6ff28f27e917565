//! The vault, attacked from every border that it has. One binary, so that it links once.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, whatever else came"
)]

mod approvals;
mod effects;
mod forgeries;
mod freshness;
mod harness;
mod leases;
mod permits;
mod program;
mod read_back;
mod recover;
mod restart;
mod revoked;
#[path = "../../../effect/tests/effect/server.rs"]
mod server;
mod workers;

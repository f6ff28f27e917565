//! The LSM programs on a kernel that takes them: what is refused in a session's cgroup and in one
//! below it is let through outside, by the same program run by root.
//!
//! A kernel that takes none says so (`not attempted`); `cargo xtask guest` boots one that does:
//! `cargo xtask guest --tests -- 'custody-supervisor::lsm' -- --test-threads=1`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests stand outside the test functions that clippy exempts"
)]

mod arena;
mod descriptors;
mod files;
mod kernel;
mod programs;
mod sockets;
mod status;
mod tasks;

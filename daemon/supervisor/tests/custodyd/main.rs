//! custodyd with all its programs on the real kernel: in a cgroup, folders and uid ranges of the
//! test's own. Needs root, the eBPF object and the programs (`cargo xtask build`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests stand outside the test functions that clippy exempts"
)]

mod death;
mod instance;
mod life;
mod observed;
mod page;
mod refusals;
mod room;

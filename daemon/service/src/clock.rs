//! The clock that permits are dated by.

use std::{
    fmt::Debug,
    time::{SystemTime, UNIX_EPOCH},
};

/// Nanoseconds since boot (CLOCK_BOOTTIME, clock_gettime(2)): what gate and vault agree on, and
/// nobody can set back.
pub trait Clock: Debug {
    /// Now, by the boot clock.
    fn boot_ns(&self) -> u64;

    /// Now, in milliseconds since 1970 by the host's clock: for readers, nothing is decided on it.
    fn unix_ms(&self) -> u64;
}

/// The kernel's clock.
#[derive(Clone, Copy, Debug)]
pub struct BootClock;

impl Clock for BootClock {
    fn boot_ns(&self) -> u64 {
        custody_sys::clock::boot_ns()
    }

    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }
}

//! The one clock that permits are dated by.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, time asleep included (CLOCK_BOOTTIME, clock_gettime(2)): nobody can set
/// it back, and every process of this boot reads the same.
///
/// A clock that cannot be read is the end of time: whatever expires has expired.
pub fn boot_ns() -> u64 {
    let Ok(now) = clock_gettime(ClockId::CLOCK_BOOTTIME) else {
        return u64::MAX;
    };
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(now.tv_sec()), u64::try_from(now.tv_nsec()))
    else {
        return u64::MAX;
    };
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_moves_and_agrees_with_the_kernel() {
        let first = boot_ns();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: u64 = uptime.split('.').next().unwrap().parse().unwrap();
        let second = boot_ns();
        assert!(first < second);
        // The whole seconds of /proc/uptime are CLOCK_BOOTTIME's (fs/proc/uptime.c).
        assert!((first / 1_000_000_000..=second / 1_000_000_000).contains(&uptime));
    }
}

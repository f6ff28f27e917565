//! How much each tmpfs of a session may hold. Together they hold no more than the policy's
//! `limits.memory_mb`: where the host has no memory controller nothing else bounds them, and where it
//! has one they are in memory.max like everything else of the session.

use std::fmt;

use nix::sys::sysinfo::sysinfo;

use crate::failure::{Failure, Step as _};

/// What a file takes at least: a page. Its inode and its name take less, and are in no size (tmpfs(5)).
const PAGE: u64 = 4096;

/// What one tmpfs may hold, as its options say it (tmpfs(5)).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Share {
    bytes: u64,
}

/// What those that the session may write to may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shares {
    pub(crate) home: Share,
    pub(crate) shm: Share,
    pub(crate) tmp: Share,
}

impl Share {
    /// Before the plan is known.
    pub(crate) const NONE: Self = Self { bytes: PAGE };

    fn of(bytes: u64) -> Self {
        Self {
            bytes: bytes.max(PAGE),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inodes = (self.bytes / PAGE).max(16);
        write!(f, "size={},nr_inodes={inodes}", self.bytes)
    }
}

impl Shares {
    /// Of `memory` bytes on this host.
    pub(crate) fn of(memory: u64) -> Result<Self, Failure> {
        let host = sysinfo().step(|| "sysinfo(2)".into())?;
        Ok(Self::on(memory, host.ram_total()))
    }

    /// Half for `/tmp`, where builds are, a quarter for each other; none more than a quarter of what
    /// the host has.
    fn on(memory: u64, host: u64) -> Self {
        let share = |part: u64| Share::of((memory / part).min(host / 4));
        Self {
            home: share(4),
            shm: share(4),
            tmp: share(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_no_more_than_the_memory_and_none_more_than_a_quarter_of_the_host() {
        for (memory, host) in [
            (64 << 20, 8 << 30),
            (8 << 30, 2 << 30),
            (3, 100),
            (1 << 44, 1 << 34),
        ] {
            let Shares { home, shm, tmp } = Shares::on(memory, host);
            let all = [home, shm, tmp].map(|share| share.bytes);
            let sum: u64 = all.iter().sum();
            assert!(sum <= memory.max(3 * PAGE), "{sum} of {memory}");
            assert!(all.iter().all(|it| *it <= (host / 4).max(PAGE)));
        }
        let half = Shares::on(64 << 20, 8 << 30).tmp;
        assert_eq!(half.to_string(), "size=33554432,nr_inodes=8192");
    }
}

//! Which uid of a range is next: each has one holder, and comes round as late as it can.

use std::collections::BTreeSet;

use custody_config::UidRange;
use procfs::process::all_processes;

/// The uids of one range.
#[derive(Debug)]
pub struct Pool {
    range: UidRange,
    next: u32,
    held: BTreeSet<u32>,
    /// Uids that a process has which we did not start: left over by an earlier run, or another's.
    foreign: BTreeSet<u32>,
}

impl Pool {
    /// A pool over `range` that begins somewhere: `seed` differs from run to run, so that a uid
    /// of the last run is not the first of this one.
    pub fn new(range: UidRange, seed: u64) -> Self {
        let offset = seed.checked_rem(u64::from(range.count)).unwrap_or(0);
        let mut pool = Self {
            range,
            next: u32::try_from(offset).unwrap_or(0),
            held: BTreeSet::new(),
            foreign: BTreeSet::new(),
        };
        pool.look_around();
        pool
    }

    /// The next uid that nobody has; none if every one is held.
    pub fn take(&mut self) -> Option<u32> {
        for _ in 0..self.range.count {
            let uid = self.range.first.checked_add(self.next)?;
            self.next = self.next.saturating_add(1);
            if self.next >= self.range.count {
                self.next = 0;
                // All the way round: what lived when we last looked may be gone, and other
                // processes may have come.
                self.look_around();
            }
            if !self.foreign.contains(&uid) && self.held.insert(uid) {
                return Some(uid);
            }
        }
        None
    }

    /// Gives `uid` back: every process that had it is gone.
    pub fn give_back(&mut self, uid: u32) {
        self.held.remove(&uid);
    }

    /// Those that other processes had when it was last looked.
    pub fn foreign(&self) -> impl Iterator<Item = u32> {
        self.foreign.iter().copied()
    }

    fn look_around(&mut self) {
        self.foreign = match living() {
            Ok(uids) => uids
                .into_iter()
                .filter(|uid| self.range.contains(*uid) && !self.held.contains(uid))
                .collect(),
            Err(error) => {
                tracing::warn!(%error, "cannot look at /proc for processes of the reserved uids");
                return;
            }
        };
        if !self.foreign.is_empty() {
            tracing::warn!(uids = ?self.foreign, "reserved uids that other processes have are left out");
        }
    }
}

/// Every uid that a process has, of all four kinds (credentials(7)).
fn living() -> Result<BTreeSet<u32>, procfs::ProcError> {
    let mut uids = BTreeSet::new();
    for process in all_processes()? {
        // One that is gone by now has no uid.
        if let Ok(status) = process.and_then(|process| process.status()) {
            uids.extend([status.ruid, status.euid, status.suid, status.fuid]);
        }
    }
    Ok(uids)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: UidRange = UidRange {
        first: 1_900_000_000,
        count: 3,
    };

    #[test]
    fn a_uid_has_one_holder_and_comes_round_last() {
        let mut pool = Pool::new(RANGE, 1);
        assert_eq!(pool.take(), Some(1_900_000_001));
        pool.give_back(1_900_000_001);
        assert_eq!(pool.take(), Some(1_900_000_002));
        assert_eq!(pool.take(), Some(1_900_000_000));
        assert_eq!(pool.take(), Some(1_900_000_001));
        assert_eq!(pool.take(), None);
        pool.give_back(1_900_000_002);
        assert_eq!(pool.take(), Some(1_900_000_002));
    }

    #[test]
    fn a_uid_that_a_process_has_is_left_out() {
        let own = nix::unistd::getuid().as_raw();
        let mut pool = Pool::new(
            UidRange {
                first: own,
                count: 1,
            },
            0,
        );
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn an_empty_range_has_none() {
        let mut pool = Pool::new(
            UidRange {
                first: 1_900_000_000,
                count: 0,
            },
            7,
        );
        assert_eq!(pool.take(), None);
    }
}

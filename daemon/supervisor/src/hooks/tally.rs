//! What a cgroup did, counted by the programs.

use std::{collections::BTreeMap, fmt};

use agent_ebpf::{Count, Counts, Hook};

/// Counts of one cgroup, or of several added up.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// What hooks let through: of the network hooks and of passed descriptors alone.
    pub allowed: BTreeMap<Hook, u64>,
    /// What hooks refused.
    pub refused: BTreeMap<Hook, u64>,
    /// Events that the full ring could not take.
    pub lost: u64,
    /// System calls, where they were counted.
    pub syscalls: u64,
}

impl Tally {
    /// The sum over CPUs.
    pub(super) fn of<'a>(cpus: impl Iterator<Item = &'a Counts>) -> Self {
        let mut sum = [0_u64; 128];
        for counts in cpus {
            for (to, from) in sum.iter_mut().zip(counts) {
                *to = to.saturating_add(*from);
            }
        }
        let at = |count: Count| sum.get(count.slot()).copied().unwrap_or(0);
        let by_hook = |count: fn(Hook) -> Count| {
            let counts = Hook::ALL.iter().map(|hook| (*hook, at(count(*hook))));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            allowed: by_hook(Count::Allowed),
            refused: by_hook(Count::Refused),
            lost: at(Count::Lost),
            syscalls: at(Count::Syscalls),
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        for (to, from) in [
            (&mut self.allowed, &other.allowed),
            (&mut self.refused, &other.refused),
        ] {
            for (hook, count) in from {
                let sum = to.entry(*hook).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        self.lost = self.lost.saturating_add(other.lost);
        self.syscalls = self.syscalls.saturating_add(other.syscalls);
    }
}

/// `3 allowed (connect_unix 3), 12 refused (connect4 12), 0 events lost`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, counts) in [("allowed", &self.allowed), ("refused", &self.refused)] {
            let total: u64 = counts.values().sum();
            write!(f, "{total} {what}")?;
            for (index, (hook, count)) in counts.iter().enumerate() {
                let before = if index == 0 { " (" } else { ", " };
                write!(f, "{before}{} {count}", hook.name())?;
            }
            f.write_str(if counts.is_empty() { ", " } else { "), " })?;
        }
        write!(f, "{} events lost", self.lost)?;
        if self.syscalls > 0 {
            write!(f, ", {} system calls", self.syscalls)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_cpus_and_cgroups_are_added_and_said_by_hook() {
        let mut one = [0; 128];
        one[Count::Allowed(Hook::ConnectUnix).slot()] = 1;
        one[Count::Refused(Hook::Connect4).slot()] = 5;
        let mut other = [0; 128];
        other[Count::Allowed(Hook::ConnectUnix).slot()] = 2;
        other[Count::Lost.slot()] = 7;
        let mut tally = Tally::of([one, other].iter());
        tally.add(&Tally::of([one].iter()));
        assert_eq!(
            tally.to_string(),
            "4 allowed (connect_unix 4), 10 refused (connect4 10), 7 events lost"
        );
        assert_eq!(
            Tally::default().to_string(),
            "0 allowed, 0 refused, 0 events lost"
        );
    }
}

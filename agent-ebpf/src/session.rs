//! What the programs know of a session, what they count of it, and what no session may touch.

use crate::Hook;

/// Bits of a session's entry in [`map::SESSIONS`](crate::map::SESSIONS). No entry: no bit.
pub mod state {
    /// custody-launch is still at work in the cgroup: it mounts, makes nodes and receives
    /// descriptors. Taken away before anything of the agent's is executed.
    pub const LAUNCHING: u8 = 1;
    /// Profile `dev`: inside the session a process may trace another.
    pub const TRACING: u8 = 2;
}

/// Most sessions at one time, and most cgroups that are counted.
pub const SESSIONS_MAX: u32 = 16_384;

/// Most files and folders in [`map::OBJECTS`](crate::map::OBJECTS).
pub const OBJECTS_MAX: u32 = 64;

/// The deepest path below the root of its file system that is followed up to a protected folder.
/// What lies deeper cannot be judged and is refused.
pub const DEPTH_MAX: usize = 64;

/// A file or folder that no session may open or change, nor anything below it. It is known by
/// its inode, so that no rename, link or mount leads around it. What lies below a folder is known
/// by that folder alone: a file of it that somebody outside gives a second name elsewhere, or moves
/// out, is not protected there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Object {
    /// Inode number; 0 is no object.
    pub ino: u64,
    /// The device of its file system as the kernel has it: major << 20 | minor (kdev_t.h).
    pub dev: u32,
    /// Always zero.
    pub zero: u32,
}

const _: () = assert!(size_of::<Object>() == 16, "Object must have no padding");

impl Object {
    /// The key as the kernel compares it.
    pub fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let parts: [&[u8]; 2] = [&self.ino.to_ne_bytes(), &self.dev.to_ne_bytes()];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// Its bit in [`map::FILTER`](crate::map::FILTER): most inodes are told by it from every
    /// object without a look-up.
    pub const fn bit(ino: u64) -> u64 {
        1 << (ino & 63)
    }
}

/// What is counted of one cgroup, on one CPU: a number for each [`Count`].
pub type Counts = [u64; 128];

/// What is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Count {
    /// A hook let it through. Counted of network hooks and of passed descriptors alone.
    Allowed(Hook),
    /// Events that the full ring could not take.
    Lost,
    /// A hook refused it.
    Refused(Hook),
    /// System calls, in evidence runs.
    Syscalls,
}

impl Count {
    /// Where it stands in [`Counts`].
    pub const fn slot(self) -> usize {
        match self {
            Self::Lost => 0,
            Self::Syscalls => 1,
            Self::Allowed(hook) => hook.number() as usize * 2,
            Self::Refused(hook) => hook.number() as usize * 2 + 1,
        }
    }
}

const _: () = assert!(Hook::NUMBERS * 2 <= 128, "every hook has its two counts");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_slot_of_its_own() {
        let mut slots = [false; 128];
        let mut take = |count: Count| {
            let slot = &mut slots[count.slot()];
            assert!(!*slot, "{count:?}");
            *slot = true;
        };
        take(Count::Lost);
        take(Count::Syscalls);
        for hook in Hook::ALL {
            take(Count::Allowed(*hook));
            take(Count::Refused(*hook));
        }
    }
}

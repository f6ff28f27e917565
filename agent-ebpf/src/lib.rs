//! What the kernel runs, and the bytes that cross the border.
//!
//! The library is what both sides share: map keys and values, and the event of a denial. The
//! programs themselves are in `main.rs`, built for the kernel alone (see its first lines).
//!
//! **Invariant:** no kernel call, no allocation; every byte of what crosses is named here.
#![no_std]
#![forbid(unsafe_code)]

mod event;
mod hook;
mod kernel;
mod session;

pub use event::{Event, PATH_MAX, address_of, mapped};
pub use hook::Hook;
pub use kernel::{OFFSETS, Offset, global};
pub use session::{Count, Counts, DEPTH_MAX, OBJECTS_MAX, Object, SESSIONS_MAX, state};

/// Names of the maps in the object.
pub mod map {
    /// Per-CPU hash of cgroup id → [`Counts`](crate::Counts): what a session, or one of our
    /// programs, did. No entry: it is not counted.
    pub const COUNTS: &str = "COUNTS";
    /// Array of one per-CPU `u64`: events that the full ring could not take.
    pub const DROPPED: &str = "DROPPED";
    /// Hash of [`Egress`](crate::Egress) → `u8`: where a cgroup may connect or send.
    pub const EGRESS: &str = "EGRESS";
    /// Ring buffer of [`Event`](crate::Event).
    pub const EVENTS: &str = "EVENTS";
    /// Array of one `u64`: the [bits](crate::Object::bit) of all objects.
    pub const FILTER: &str = "FILTER";
    /// Hash of [`Object`](crate::Object) → `u8`: what no session may touch.
    pub const OBJECTS: &str = "OBJECTS";
    /// Hash of cgroup id → [`family`](crate::family) bits: which sockets a cgroup may make.
    pub const ROLES: &str = "ROLES";
    /// Hash of a session's cgroup id → [`state`](crate::state) bits. No entry: none of them.
    pub const SESSIONS: &str = "SESSIONS";
}

/// Bits of a cgroup's entry in [`map::ROLES`]. No entry: no IP socket at all.
pub mod family {
    /// TCP sockets, IPv4 and IPv6.
    pub const TCP: u8 = 1;
    /// UDP sockets, IPv4 and IPv6.
    pub const UDP: u8 = 2;
}

/// Internet protocol numbers (RFC 5237's registry) that [`Egress`] may name.
pub mod protocol {
    /// TCP.
    pub const TCP: u32 = 6;
    /// UDP.
    pub const UDP: u32 = 17;
}

/// Most cgroups with a role at one time: effect workers and the resolver.
pub const ROLES_MAX: u32 = 4_096;

/// Most entries of [`map::EGRESS`]: sixteen for each role.
pub const EGRESS_MAX: u32 = 65_536;

/// One destination that one cgroup may reach. A missing entry denies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Egress {
    /// cgroup v2 id of the task that connects or sends.
    pub cgroup_id: u64,
    /// The address in network order; IPv4 as `::ffff:a.b.c.d` (RFC 4291, 2.5.5.2), so that the
    /// two ways to write it are one.
    pub address: [u8; 16],
    /// [`protocol`].
    pub protocol: u32,
    /// The port, in host order.
    pub port: u16,
    /// Always zero: the kernel compares every byte of a key.
    pub zero: u16,
}

const _: () = assert!(size_of::<Egress>() == 32, "Egress must have no padding");

impl Egress {
    /// The key as the kernel compares it.
    pub fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let parts: [&[u8]; 4] = [
            &self.cgroup_id.to_ne_bytes(),
            &self.address,
            &self.protocol.to_ne_bytes(),
            &self.port.to_ne_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn a_key_is_written_where_the_kernel_looks() {
        let bytes = Egress {
            cgroup_id: 0x0102,
            address: mapped([127, 0, 0, 1]),
            protocol: protocol::TCP,
            port: 443,
            zero: 0,
        }
        .to_bytes();
        let at = |from: usize, len: usize| bytes.get(from..from + len).unwrap();
        assert_eq!(
            at(offset_of!(Egress, cgroup_id), 8),
            0x0102_u64.to_ne_bytes()
        );
        assert_eq!(
            at(offset_of!(Egress, address) + 10, 6),
            [255, 255, 127, 0, 0, 1]
        );
        assert_eq!(at(offset_of!(Egress, protocol), 4), 6_u32.to_ne_bytes());
        assert_eq!(at(offset_of!(Egress, port), 2), 443_u16.to_ne_bytes());
        assert_eq!(at(offset_of!(Egress, zero), 2), [0, 0]);
    }
}

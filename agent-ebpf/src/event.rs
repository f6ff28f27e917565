//! One denial, as the hook saw it.

use core::net::{IpAddr, Ipv6Addr};

use crate::Hook;

/// The most bytes of an AF_UNIX path: `sun_path` (unix(7)).
pub const PATH_MAX: usize = 108;

/// One denial. Written by the kernel, read by custodyd.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Event {
    /// `bpf_ktime_get_boot_ns()`, see bpf-helpers(7).
    pub boot_ns: u64,
    /// cgroup v2 id of the denied task.
    pub cgroup_id: u64,
    /// Thread group id in the host's pid namespace: what user space calls a pid.
    pub tgid: u32,
    /// Real uid of the denied task.
    pub uid: u32,
    /// The task's name, which it chooses itself.
    pub comm: [u8; 16],
    /// A [`Hook`] by number.
    pub hook: u32,
    /// Address family (socket(2)).
    pub family: u32,
    /// Protocol, as the socket has it; 0 for AF_UNIX.
    pub protocol: u32,
    /// The port in host order; for AF_UNIX the count of `path` bytes.
    pub port: u32,
    /// The address as in [`Egress`](crate::Egress); zeros for AF_UNIX and sock_create.
    pub address: [u8; 16],
    /// AF_UNIX: what stands in `sun_path`, zeros behind it. Abstract names begin with a zero.
    pub path: [u8; PATH_MAX],
    /// Always zero.
    pub zero: u32,
}

const _: () = assert!(size_of::<Event>() == 184, "Event must have no padding");

/// An IPv4 address as IPv6 (RFC 4291, 2.5.5.2).
pub const fn mapped([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// The bytes under which `ip` stands in a key or an event.
pub const fn address_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => mapped(v4.octets()),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Event {
    /// Reads an event; none if it has not exactly its size.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let event = Self {
            boot_ns: u64::from_ne_bytes(take(&mut rest)?),
            cgroup_id: u64::from_ne_bytes(take(&mut rest)?),
            tgid: u32::from_ne_bytes(take(&mut rest)?),
            uid: u32::from_ne_bytes(take(&mut rest)?),
            comm: take(&mut rest)?,
            hook: u32::from_ne_bytes(take(&mut rest)?),
            family: u32::from_ne_bytes(take(&mut rest)?),
            protocol: u32::from_ne_bytes(take(&mut rest)?),
            port: u32::from_ne_bytes(take(&mut rest)?),
            address: take(&mut rest)?,
            path: take(&mut rest)?,
            zero: u32::from_ne_bytes(take(&mut rest)?),
        };
        rest.is_empty().then_some(event)
    }

    /// The hook, if the number is one.
    pub fn hook(&self) -> Option<Hook> {
        Hook::from_number(self.hook)
    }

    /// The address; an IPv4-mapped one is shown as IPv4.
    pub fn address(&self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }

    /// The task's name up to its first NUL. Raw: the task chose it.
    pub fn comm(&self) -> &[u8] {
        self.comm
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
    }

    /// The AF_UNIX path as given, abstract names with their leading zero.
    pub fn path(&self) -> &[u8] {
        let len = usize::try_from(self.port).unwrap_or(PATH_MAX);
        let given = self.path.get(..len).unwrap_or(&self.path);
        match given {
            [0, ..] => given,
            _ => given.split(|byte| *byte == 0).next().unwrap_or_default(),
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::{mem::offset_of, net::Ipv4Addr};

    #[test]
    fn an_event_is_read_field_by_field_and_a_short_or_long_one_is_not() {
        let mut bytes = [0_u8; size_of::<Event>() + 1];
        let mut put = |at: usize, what: &[u8]| {
            bytes[at..at + what.len()].copy_from_slice(what);
        };
        put(offset_of!(Event, boot_ns), &7_u64.to_ne_bytes());
        put(offset_of!(Event, cgroup_id), &8_u64.to_ne_bytes());
        put(offset_of!(Event, tgid), &9_u32.to_ne_bytes());
        put(offset_of!(Event, uid), &10_u32.to_ne_bytes());
        put(offset_of!(Event, comm), b"sh");
        put(
            offset_of!(Event, hook),
            &Hook::Connect4.number().to_ne_bytes(),
        );
        put(offset_of!(Event, port), &5_u32.to_ne_bytes());
        put(offset_of!(Event, address), &mapped([1, 2, 3, 4]));
        put(offset_of!(Event, path), b"/a\0bc");
        let event = Event::from_bytes(&bytes[..size_of::<Event>()]).unwrap();
        assert_eq!((event.boot_ns, event.cgroup_id), (7, 8));
        assert_eq!((event.tgid, event.uid), (9, 10));
        assert_eq!(event.comm(), b"sh");
        assert_eq!(event.hook(), Some(Hook::Connect4));
        assert_eq!(event.address(), IpAddr::V4(Ipv4Addr::new(1, 2, 3, 4)));
        assert_eq!(event.path(), b"/a");
        assert_eq!(Event::from_bytes(&bytes), None);
        assert_eq!(Event::from_bytes(&bytes[..183]), None);
    }

    #[test]
    fn an_abstract_name_is_kept_whole() {
        let mut bytes = [0_u8; size_of::<Event>()];
        bytes[offset_of!(Event, port)..][..4].copy_from_slice(&4_u32.to_ne_bytes());
        bytes[offset_of!(Event, path)..][..4].copy_from_slice(b"\0a\0b");
        assert_eq!(Event::from_bytes(&bytes).unwrap().path(), b"\0a\0b");
    }
}

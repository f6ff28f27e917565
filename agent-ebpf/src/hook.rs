//! The hooks that deny, by number and by name.

/// A hook of ours. Events carry its number: a byte that is no hook must not be undefined behaviour.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u32)]
pub enum Hook {
    /// bind(2) on IPv4.
    Bind4 = 1,
    /// bind(2) on IPv6.
    Bind6 = 2,
    /// connect(2) on IPv4.
    Connect4 = 3,
    /// connect(2) on IPv6.
    Connect6 = 4,
    /// connect(2) on AF_UNIX.
    ConnectUnix = 5,
    /// sendmsg(2) to an address, IPv4.
    SendMsg4 = 6,
    /// sendmsg(2) to an address, IPv6.
    SendMsg6 = 7,
    /// sendmsg(2) to an address, AF_UNIX.
    SendMsgUnix = 8,
    /// socket(2) of an IP family.
    SockCreate = 9,
}

impl Hook {
    /// Every hook.
    pub const ALL: [Self; 9] = [
        Self::Bind4,
        Self::Bind6,
        Self::Connect4,
        Self::Connect6,
        Self::ConnectUnix,
        Self::SendMsg4,
        Self::SendMsg6,
        Self::SendMsgUnix,
        Self::SockCreate,
    ];

    /// Its number in an event.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The hook of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.number() == number)
    }

    /// Its name in logs, evidence and pins.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bind4 => "bind4",
            Self::Bind6 => "bind6",
            Self::Connect4 => "connect4",
            Self::Connect6 => "connect6",
            Self::ConnectUnix => "connect_unix",
            Self::SendMsg4 => "sendmsg4",
            Self::SendMsg6 => "sendmsg6",
            Self::SendMsgUnix => "sendmsg_unix",
            Self::SockCreate => "sock_create",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_hook_and_no_other_number_does() {
        for hook in Hook::ALL {
            assert_eq!(Hook::from_number(hook.number()), Some(hook));
        }
        assert_eq!(Hook::from_number(0), None);
        assert_eq!(Hook::from_number(10), None);
    }
}

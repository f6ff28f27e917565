//! Which addresses a worker may connect to, whatever a name resolves to.

use alloc::{string::String, vec::Vec};
use core::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use serde::{Deserialize, Serialize};

/// A set of addresses: `public`, networks, or both. Multicast, unspecified and IPv4-in-IPv6
/// addresses are never in it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Addresses {
    networks: Vec<Network>,
    public: bool,
}

impl Addresses {
    /// What the Internet routes, and nothing of a host's, a site's or a cloud's own.
    pub const PUBLIC: Self = Self {
        networks: Vec::new(),
        public: true,
    };

    /// Whether a worker may connect to `address`.
    pub fn admits(&self, address: IpAddr) -> bool {
        !is_never(address)
            && (self.networks.iter().any(|it| it.contains(address))
                || self.public && is_public(address))
    }
}

/// Why a text is not an address, a network or `public`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// No address at all.
    #[error("no address is named; write \"public\", or networks such as \"127.0.0.1/32\"")]
    Empty,
    /// Bits are set behind the prefix.
    #[error("`{text}` has bits set behind its prefix; write the network's first address")]
    HostBits {
        /// The text.
        text: String,
    },
    /// Never admitted: multicast, unspecified, IPv4 in IPv6.
    #[error("`{text}` is multicast, unspecified or IPv4 in IPv6, which is never connected to")]
    Never {
        /// The text.
        text: String,
    },
    /// Not of the form.
    #[error("`{text}` is not \"public\", an address, or a network such as \"10.1.2.0/24\"")]
    Syntax {
        /// The text.
        text: String,
    },
    /// So wide that it is another word for everything.
    #[error("`{text}` is wider than /8; write \"public\", or the networks that are meant")]
    Wide {
        /// The text.
        text: String,
    },
}

/// An address and the length of its prefix (RFC 4632).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    fn parse(text: &str) -> Result<Self, AddressError> {
        let syntax = || AddressError::Syntax { text: text.into() };
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().map_err(|_not_one| syntax())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => whole,
            Some(prefix) => match prefix.parse() {
                Ok(length) if length <= whole && !prefix.starts_with('+') => length,
                Ok(_) | Err(_) => return Err(syntax()),
            },
        };
        let network = Self { address, prefix };
        if is_never(address) {
            return Err(AddressError::Never { text: text.into() });
        }
        if prefix < 8 {
            return Err(AddressError::Wide { text: text.into() });
        }
        if network.first() != address {
            return Err(AddressError::HostBits { text: text.into() });
        }
        Ok(network)
    }

    fn first(self) -> IpAddr {
        mask(self.address, self.prefix)
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && mask(address, self.prefix) == self.address
    }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(it) => {
            let hidden = 32_u32.saturating_sub(prefix.into());
            let bits = u32::MAX.checked_shl(hidden).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(it.to_bits() & bits))
        }
        IpAddr::V6(it) => {
            let hidden = 128_u32.saturating_sub(prefix.into());
            let bits = u128::MAX.checked_shl(hidden).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() & bits))
        }
    }
}

/// Never connected to, whatever a policy says.
fn is_never(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => it.is_multicast() || it.octets().first() == Some(&0) || it.is_broadcast(),
        IpAddr::V6(it) => {
            it.is_multicast()
                || it.is_unspecified()
                // ::/96 and ::ffff:0:0/96: an IPv4 address in another coat (RFC 4291, 2.5.5).
                || !it.is_loopback() && matches!(it.segments(), [0, 0, 0, 0, 0, 0 | 0xffff, _, _])
        }
    }
}

/// Whether the Internet routes `address`: the special-purpose registries of IANA (RFC 6890) say no
/// to the rest.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

const fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..]                  // this network, private, loopback
            | [100, 64..=127, ..]           // shared, CGNAT (RFC 6598)
            | [169, 254, ..]                // link-local, clouds' metadata
            | [172, 16..=31, ..]            // private
            | [192, 0, 0 | 2, _]            // protocol assignments, documentation
            | [192, 88, 99, _]              // 6to4 relays, deprecated
            | [192, 168, ..]                // private
            | [198, 18 | 19, ..]            // benchmarks
            | [198, 51, 100, _]             // documentation
            | [203, 0, 113, _]              // documentation
            | [224..=255, ..] // multicast, reserved, broadcast
    )
}

const fn is_public_v6(address: Ipv6Addr) -> bool {
    // 2000::/3 is all that is given out (RFC 4291); of it, these lead elsewhere.
    matches!(address.segments(), [0x2000..=0x3fff, ..])
        && !matches!(
            address.segments(),
            [0x2001, 0..=0x1ff, ..]         // protocol assignments, Teredo, ORCHID
                | [0x2001, 0xdb8, ..]       // documentation
                | [0x2002, ..]              // 6to4: an IPv4 address inside
                | [0x3fff, 0..=0xfff, ..] // documentation (RFC 9637)
        )
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

const PUBLIC: &str = "public";

impl TryFrom<Vec<String>> for Addresses {
    type Error = AddressError;

    fn try_from(texts: Vec<String>) -> Result<Self, AddressError> {
        if texts.is_empty() {
            return Err(AddressError::Empty);
        }
        let public = texts.iter().any(|it| it == PUBLIC);
        let networks = texts
            .iter()
            .filter(|it| *it != PUBLIC)
            .map(|it| Network::parse(it))
            .collect::<Result<_, _>>()?;
        Ok(Self { networks, public })
    }
}

impl From<Addresses> for Vec<String> {
    fn from(addresses: Addresses) -> Self {
        let public = addresses.public.then(|| PUBLIC.into());
        let networks = addresses.networks.iter().map(|it| alloc::format!("{it}"));
        public.into_iter().chain(networks).collect()
    }
}

//! Host names that mean one thing to everybody.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host as it may stand in a URL: a name, or an address; IPv6 in brackets (RFC 3986, 3.2.2) or
/// without.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name to resolve.
    Name(String),
}

/// Why a text is not a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostError {
    /// A character that no host name has (RFC 952, RFC 1123 section 2.1), NUL among them.
    #[error("a host name has a character other than a-z, 0-9, `-` and `.`")]
    Character,
    /// An empty or over-long label, a hyphen at its edge, a dot at the end.
    #[error("a host name has a label that is empty, longer than 63 bytes or edged by `-`")]
    Label,
    /// More than 253 bytes (RFC 1035 section 2.3.4, as text).
    #[error("a host name has more than 253 bytes")]
    Length,
    /// The last label is a number, and it is not a dotted IPv4 address. getaddrinfo(3) would read
    /// `0x7f.1` as 127.0.0.1 (inet_aton(3)).
    #[error("a host that ends in a number must be a whole IPv4 address")]
    Number,
}

impl Host {
    /// Parses a host in lower case. Upper case is refused: one host, one text.
    ///
    /// # Errors
    /// When `text` could mean one host here and another one there.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let inside = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if let Ok(address) = inside.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if text.len() > 253 {
            return Err(HostError::Length);
        }
        if !text
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        {
            return Err(HostError::Character);
        }
        let sound = |label: &str| {
            (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
        };
        if !text.split('.').all(sound) {
            return Err(HostError::Label);
        }
        let last = text.rsplit('.').next().unwrap_or_default();
        // As the WHATWG URL Standard's "ends in a number": digits alone, or 0x and hex digits.
        if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
            return Err(HostError::Number);
        }
        Ok(Self::Name(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_and_a_plain_address_are_hosts() {
        for good in [
            "localhost",
            "api.example.com",
            "xn--bcher-kva.example",
            "a-b.c1",
        ] {
            assert_eq!(Host::parse(good), Ok(Host::Name(good.into())));
        }
        assert!(matches!(Host::parse("127.0.0.1"), Ok(Host::Address(_))));
        for v6 in ["2001:db8::1", "[2001:db8::1]"] {
            assert!(matches!(Host::parse(v6), Ok(Host::Address(_))));
        }
    }

    #[test]
    fn a_host_that_two_programs_could_read_differently_is_refused() {
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "-a.b",
            "a-.b",
            "A.example",
            "a_b",
            "a b",
            "a\0.b.example",
            "evil.com\0.allowed.com",
            "a/b",
            "a:80",
            "a@b",
            "a#b",
            "a%2e",
            "bücher.example",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "127.0.0.1.",
            "010.0.0.1",
            "1.2.3.4.5",
            "[::1",
            "::1]",
            "[a]",
            "[127.0.0.1]",
            "fe80::1%lo",
            "a\r\nb",
        ] {
            assert!(Host::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Host::parse(&"a.".repeat(127)), Err(HostError::Length));
        assert_eq!(Host::parse(&"a".repeat(64)), Err(HostError::Label));
    }
}

//! Where a request goes: scheme, host and port (RFC 6454, section 4), always literal.

use alloc::string::{String, ToString as _};
use core::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use serde::{Deserialize, Serialize};

/// Scheme, host and port. Its text form is that of a URL without a path:
/// `https://api.example.test`, `http://127.0.0.1:8080`, `https://[::1]:8443`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin {
    host: String,
    port: u16,
    tls: bool,
}

/// Why a text is not an [`Origin`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginError {
    /// The host is neither a name nor an address.
    #[error(
        "`{host}` is not a host: write a name in lower case (`api.example.test`), an IPv4 address, \
         or an IPv6 address in brackets"
    )]
    Host {
        /// The text.
        host: String,
    },
    /// Something stands behind the port.
    #[error("`{text}` is more than an origin; write scheme, host and port alone")]
    More {
        /// The text.
        text: String,
    },
    /// Plain HTTP to something else than a loopback address.
    #[error(
        "`{text}` is plain http, which is only for loopback addresses (`127.0.0.1`, `[::1]`, not a \
         name); write https"
    )]
    Plain {
        /// The text.
        text: String,
    },
    /// The port is not 1 to 65535.
    #[error("`{port}` is not a port; write 1 to 65535")]
    Port {
        /// The text.
        port: String,
    },
    /// Neither http nor https.
    #[error("`{text}` must start with `https://`, or `http://` for a loopback address")]
    Scheme {
        /// The text.
        text: String,
    },
}

impl Origin {
    /// Parses the text form.
    ///
    /// # Errors
    /// When `text` is not an origin, or is plain HTTP to something else than a loopback address.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let (tls, rest) = if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else {
            return Err(OriginError::Scheme { text: text.into() });
        };
        if rest.contains(['/', '?', '#', '@']) {
            return Err(OriginError::More { text: text.into() });
        }
        let (host, port) = split(rest);
        let origin = Self {
            host: host.into(),
            port: match port {
                None => default_port(tls),
                Some(port) => parse_port(port)?,
            },
            tls,
        };
        if origin.address().is_none() && !is_name(host) {
            return Err(OriginError::Host { host: host.into() });
        }
        if !tls && !origin.address().is_some_and(|it| it.is_loopback()) {
            return Err(OriginError::Plain { text: text.into() });
        }
        Ok(origin)
    }

    /// The host as it stands in a URL: an IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether TLS is spoken.
    pub const fn tls(&self) -> bool {
        self.tls
    }

    /// The address, if the host is one: then nothing is resolved.
    pub fn address(&self) -> Option<IpAddr> {
        if let Some(inner) = self.host.strip_prefix('[') {
            return inner
                .strip_suffix(']')
                .and_then(|it| it.parse::<Ipv6Addr>().ok())
                .map(IpAddr::V6);
        }
        self.host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    }
}

fn split(rest: &str) -> (&str, Option<&str>) {
    match rest.rsplit_once(':') {
        // The colon of `[::1]` is inside the brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (rest, None),
    }
}

const fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

fn parse_port(text: &str) -> Result<u16, OriginError> {
    let plain = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if plain => Ok(port),
        Ok(_) | Err(_) => Err(OriginError::Port { port: text.into() }),
    }
}

/// A host name: letters, digits and hyphens (RFC 1123, 2.1), lower case. The last label has a
/// letter, so that no resolver takes the name for an address in another notation (`127.1`).
fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= 253
        && host.split('.').all(label)
        && host.rsplit('.').next().is_some_and(|last| {
            last.bytes().any(|b| b.is_ascii_lowercase()) && !last.starts_with("0x")
        })
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != default_port(self.tls) {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_survives_its_text() {
        for text in [
            "https://api.example.test",
            "https://api.example.test:8443",
            "http://127.0.0.1:18080",
            "http://[::1]:8080",
            "https://[2001:db8::1]",
        ] {
            assert_eq!(Origin::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn whatever_is_not_exactly_an_origin_is_refused() {
        for text in [
            "",
            "ftp://a.test",
            "https://",
            "https://A.test",
            "https://a.test/",
            "https://a.test/v1",
            "https://a.test?x",
            "https://user@a.test",
            "https://a.test:0",
            "https://a.test:080",
            "https://a.test:65536",
            "https://a.test:+80",
            "https://a.test.",
            "https://a..test",
            "https://-a.test",
            "https://127.1",
            "https://0x7f.0x1",
            "https://2130706433",
            "https://[::1",
            "https://::1",
            "https://a b.test",
            "https://{host}",
            "https://ex\u{e4}mple.test",
        ] {
            assert!(Origin::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn plain_http_goes_to_loopback_addresses_only() {
        for text in [
            "http://api.example.test",
            "http://localhost:8080",
            "http://10.0.0.1",
            "http://169.254.169.254",
            "http://[::ffff:127.0.0.1]",
        ] {
            assert!(
                matches!(Origin::parse(text), Err(OriginError::Plain { .. })),
                "{text:?}"
            );
        }
    }
}

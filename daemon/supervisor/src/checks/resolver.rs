//! The host's name servers, for the egress of the resolver role.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

/// DNS (RFC 1035, 4.2).
const PORT: u16 = 53;

/// glibc asks the first three and no more (resolv.conf(5), MAXNS).
const SERVERS_MAX: usize = 3;

/// Where the resolver may send: the name servers of resolv.conf(5).
///
/// # Errors
/// When the file is there and cannot be read.
pub fn servers(path: &Path) -> io::Result<Vec<SocketAddr>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(parse("")),
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Vec<SocketAddr> {
    let named: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())?
        })
        // A scope (`fe80::1%eth0`) is the socket's business, not the hook's.
        .filter_map(|word| word.split('%').next().unwrap_or_default().parse().ok())
        .take(SERVERS_MAX)
        .collect();
    // resolv.conf(5): without one, the name server on the local machine is asked.
    let named = if named.is_empty() {
        vec![Ipv4Addr::LOCALHOST.into()]
    } else {
        named
    };
    named
        .into_iter()
        .map(|ip| SocketAddr::new(ip, PORT))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_are_those_that_glibc_asks() {
        let text = "# a comment\nsearch example.org\nnameserver 192.0.2.1\nnameserver  fe80::1%eth0\n\
                    nameserver\nnameserver x\n nameserver 192.0.2.3 \nnameserver 192.0.2.4";
        let servers: Vec<_> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[fe80::1]:53", "192.0.2.3:53"]);
    }

    #[test]
    fn without_a_server_it_is_the_local_machine() {
        assert_eq!(parse("").first().unwrap().to_string(), "127.0.0.1:53");
    }
}

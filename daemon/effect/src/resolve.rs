//! The resolver role: names to addresses, with no credential anywhere near.

use std::{collections::BTreeSet, net::IpAddr, os::fd::OwnedFd, sync::Arc, time::Duration};

use custody_wire::{
    frame::{self, FrameError},
    perform::{Resolve, Resolved},
    supervise::EGRESS_MAX,
};
use tokio::{
    net::UnixStream,
    sync::{Mutex, Semaphore},
};

use crate::host::Host;

/// How long a name may take: getaddrinfo(3) tries each server for 5 s, twice (resolv.conf(5)).
const PATIENCE: Duration = Duration::from_secs(8);

/// How many names are looked up at the same time. Each takes a thread, also after its patience.
pub const AT_ONCE: usize = 16;

/// Answers the vault until it closes the channel.
///
/// # Errors
/// When the channel fails or does not speak our protocol.
pub async fn serve(channel: OwnedFd) -> Result<(), FrameError> {
    let channel = std::os::unix::net::UnixStream::from(channel);
    channel.set_nonblocking(true).map_err(FrameError::Io)?;
    let (mut from, to) = UnixStream::from_std(channel)
        .map_err(FrameError::Io)?
        .into_split();
    let to = Arc::new(Mutex::new(to));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let request: Resolve = match frame::read_async(&mut from).await {
            Ok(request) => request,
            Err(FrameError::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (to, places) = (Arc::clone(&to), Arc::clone(&places));
        drop(tokio::spawn(async move {
            let addresses = match places.try_acquire_owned() {
                Ok(place) => resolve(&request.host, place).await,
                Err(_full) => Err(format!("{AT_ONCE} names are being resolved; try again")),
            };
            let answer = Resolved {
                number: request.number,
                addresses,
            };
            // A vault that is gone needs no answer; the reader ends too.
            if let Err(error) = frame::write_async(&mut *to.lock().await, &answer).await {
                tracing::debug!(%error, "no answer to the vault");
            }
        }));
    }
}

async fn resolve(
    host: &str,
    place: tokio::sync::OwnedSemaphorePermit,
) -> Result<Vec<IpAddr>, String> {
    let name = match Host::parse(host) {
        Ok(Host::Name(name)) => name,
        Ok(Host::Address(address)) => return Ok(vec![address]),
        Err(error) => return Err(error.to_string()),
    };
    // The place is the lookup's, not the patience's: a thread that hangs in getaddrinfo(3) keeps it.
    let lookup = tokio::task::spawn_blocking(move || {
        let found = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0));
        drop(place);
        found.map(|addresses| addresses.map(|address| address.ip()).collect::<Vec<_>>())
    });
    match tokio::time::timeout(PATIENCE, lookup).await {
        Ok(Ok(Ok(found))) => Ok(distinct(found)),
        Ok(Ok(Err(error))) => Err(format!("getaddrinfo(3): {error}")),
        Ok(Err(error)) => Err(format!("the lookup ended: {error}")),
        Err(_late) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// In the resolver's order (RFC 6724), each once, as many as a worker may connect to. An IPv4
/// address inside an IPv6 one (RFC 4291 section 2.5.5.2) is the IPv4 address.
fn distinct(found: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut seen = BTreeSet::new();
    found
        .into_iter()
        .map(|address| address.to_canonical())
        .filter(|address| seen.insert(*address))
        .take(EGRESS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_sys::channel;

    async fn ask(hosts: &[&str]) -> Vec<Resolved> {
        let (ours, theirs) = channel::pair_stream().unwrap();
        let server = tokio::spawn(serve(theirs));
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true).unwrap();
        let mut ours = UnixStream::from_std(ours).unwrap();
        let mut answers: Vec<Resolved> = Vec::new();
        for (number, host) in (0..).zip(hosts) {
            let host = (*host).to_owned();
            frame::write_async(&mut ours, &Resolve { number, host })
                .await
                .unwrap();
            answers.push(frame::read_async(&mut ours).await.unwrap());
        }
        drop(ours);
        server.await.unwrap().unwrap();
        answers
    }

    #[tokio::test]
    async fn a_name_of_the_hosts_file_resolves_and_the_role_ends_with_its_channel() {
        let answers = ask(&["localhost"]).await;
        let addresses = answers[0].addresses.as_ref().unwrap();
        assert!(!addresses.is_empty());
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    }

    #[tokio::test]
    async fn an_odd_name_never_reaches_getaddrinfo() {
        for answer in ask(&[
            "localhost\0.example",
            "127.1",
            "0x7f.1",
            "local host",
            "",
            "LOCALHOST",
        ])
        .await
        {
            let why = answer.addresses.unwrap_err();
            assert!(!why.contains("getaddrinfo"), "{why}");
        }
    }

    #[test]
    fn addresses_are_capped_canonical_and_told_once() {
        let many: Vec<IpAddr> = (0..40_u8)
            .flat_map(|n| {
                let v4 = std::net::Ipv4Addr::new(192, 0, 2, n);
                [IpAddr::V6(v4.to_ipv6_mapped()), IpAddr::V4(v4)]
            })
            .collect();
        let told = distinct(many);
        assert_eq!(told.len(), EGRESS_MAX);
        assert!(told.iter().all(IpAddr::is_ipv4));
    }
}

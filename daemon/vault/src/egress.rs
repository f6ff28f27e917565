//! Where a credential's worker may connect to: resolved once for each worker, checked against the
//! floor, and from then on fixed.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use custody_service::reason;
use custody_wire::supervise::EGRESS_MAX;
use gate::{floor::Floor, origin::Origin};

use crate::resolver::Resolver;

/// Why a worker may not go where the call wants it to.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum EgressError {
    /// The name leads outside the floor.
    #[error("`{host}` resolves to {address}, which the credential's floor does not admit")]
    Address {
        /// The host.
        host: String,
        /// The address.
        address: IpAddr,
    },
    /// The name has no address now.
    #[error("`{host}` does not resolve: {why}")]
    Unresolved {
        /// The host.
        host: String,
        /// Why, in the resolver's words.
        why: String,
    },
}

/// The addresses of every origin of `floor`; `wanted` must be among them. One address that the
/// floor does not admit voids its whole name: half an answer of a resolver that lies is no answer.
pub(crate) async fn of(
    floor: &Floor,
    wanted: &Origin,
    resolver: &Resolver,
) -> Result<BTreeMap<Origin, Vec<SocketAddr>>, EgressError> {
    let mut all = BTreeMap::from([(wanted.clone(), checked(floor, wanted, resolver).await?)]);
    // The others too: a worker's egress cannot grow once it is there.
    for origin in floor.origins.iter().filter(|origin| *origin != wanted) {
        match checked(floor, origin, resolver).await {
            Ok(addresses) => drop(all.insert(origin.clone(), addresses)),
            Err(error) => tracing::warn!(%origin, %error, "left out of a worker's egress"),
        }
    }
    let mut room = EGRESS_MAX;
    let mut fits = |addresses: &[SocketAddr]| {
        room.checked_sub(addresses.len()).is_some_and(|left| {
            room = left;
            true
        })
    };
    let first = all.remove_entry(wanted);
    Ok(first
        .into_iter()
        .chain(all)
        .filter(|(_origin, addresses)| fits(addresses))
        .collect())
}

async fn checked(
    floor: &Floor,
    origin: &Origin,
    resolver: &Resolver,
) -> Result<Vec<SocketAddr>, EgressError> {
    let found = match origin.address() {
        Some(address) => vec![address],
        None => resolver
            .resolve(origin.host())
            .await
            .and_then(|found| match found.is_empty() {
                true => Err("it has no address".into()),
                false => Ok(found),
            })
            .map_err(|why| EgressError::Unresolved {
                host: origin.host().into(),
                why: reason::plain(&why),
            })?,
    };
    if let Some(&address) = found
        .iter()
        .find(|address| !floor.admits_address(**address))
    {
        return Err(EgressError::Address {
            host: origin.host().into(),
            address,
        });
    }
    let addresses = found.into_iter().take(EGRESS_MAX);
    Ok(addresses
        .map(|address| SocketAddr::new(address, origin.port()))
        .collect())
}

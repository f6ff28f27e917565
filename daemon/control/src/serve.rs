//! The operators' listener, the limits, and the requests that are answered at once.

use std::{
    collections::HashMap,
    convert::Infallible,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use custody_config::{Access, Caller, Uids};
use custody_wire::{
    operator::{Answer, Request},
    supervise::ControlOrder,
};
use gate::id::SessionId;
use tokio::{
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::{
    caller,
    client::{Client, ClientError, Silence},
    custodyd::Custodyd,
    opening::Gate,
    policies, run,
    sessions::Sessions,
};

/// The most connections at once; a session holds one.
pub const CONNECTIONS_MAX: usize = 1024;

/// The most connections of one uid, root excepted: no user takes the places of the others.
pub const CONNECTIONS_PER_UID: usize = 64;

/// How long `stop` waits until everything of the session is gone.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait after accept(2) failed: EMFILE and ENOMEM pass when something is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection shares.
#[derive(Debug)]
pub struct Service {
    /// The rules.
    pub access: Vec<Access>,
    /// The reserved uids.
    pub uids: Uids,
    /// The folder of the compiled policies.
    pub policies: PathBuf,
    /// The way to custodyd.
    pub custodyd: Custodyd,
    /// The way to the gate.
    pub gate: Gate,
    /// The sessions that live.
    pub sessions: Sessions,
}

/// Accepts and serves, for ever.
pub async fn serve(service: Arc<Service>, listener: UnixListener) -> Infallible {
    let places = Places::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = Arc::clone(&service);
                let places = places.clone();
                tokio::spawn(async move {
                    if let Err(error) = admit(&service, &places, stream).await
                        && !error.is_end()
                    {
                        let source = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::info!(%error, source = ?source.unwrap_or_default(), "a client was dropped");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        tokio::task::yield_now().await;
    }
}

async fn admit(service: &Service, places: &Places, stream: UnixStream) -> Result<(), ClientError> {
    let caller = caller::at(&stream).map_err(ClientError::Io)?;
    let mut client = Client::new(stream);
    if let Err(why) = caller::outside(&service.uids, &caller) {
        tracing::warn!(
            uid = caller.uid,
            "a session's uid connected to the operators' socket"
        );
        let why = why.to_string();
        return client.send(&Answer::Refused { why }, &[]).await;
    }
    let Some(place) = places.take(caller.uid).map(Arc::new) else {
        let why = format!(
            "too many connections; at most {CONNECTIONS_PER_UID} for one user and \
             {CONNECTIONS_MAX} for all: stop a session or try again"
        );
        return client.send(&Answer::Refused { why }, &[]).await;
    };
    loop {
        match client.next(Silence::Bounded).await? {
            Request::Run(request) => {
                run::run(service, &mut client, &caller, request, Arc::clone(&place)).await?;
            }
            Request::List => {
                let sessions = service.sessions.seen_by(&caller);
                client.send(&Answer::Sessions(sessions), &[]).await?;
            }
            Request::Signal { .. } => {
                let why = "this connection runs no session".into();
                client.send(&Answer::Refused { why }, &[]).await?;
            }
            Request::Status => {
                let answer = status(service, &caller);
                client.send(&answer, &[]).await?;
            }
            Request::Stop { session } => {
                let answer = stop(service, &caller, session).await;
                client.send(&answer, &[]).await?;
            }
        }
    }
}

fn status(service: &Service, caller: &Caller) -> Answer {
    match policies::list(&service.policies) {
        Ok(all) => Answer::Status {
            version: env!("CARGO_PKG_VERSION").into(),
            policies: all
                .into_iter()
                .filter(|policy| caller::may_use(&service.access, caller, policy))
                .collect(),
        },
        Err(error) => {
            tracing::error!(%error, "the policies cannot be listed");
            Answer::Refused {
                why: "the policies cannot be listed; look at the service's log".into(),
            }
        }
    }
}

async fn stop(service: &Service, caller: &Caller, session: SessionId) -> Answer {
    let Some(mut over) = service.sessions.to_stop(session, caller) else {
        return Answer::Refused {
            why: format!("you have no session `{session}`; `custody ps` lists yours"),
        };
    };
    let order = ControlOrder::Stop { session };
    if let Err(error) = service.custodyd.order(&order, &[]).await {
        tracing::error!(%error, "an order was not given");
        return Answer::Refused {
            why: "custodyd does not take orders; is the service stopping?".into(),
        };
    }
    // Nothing is ever sent: the sender goes away with the session.
    match timeout(STOP_PATIENCE, over.changed()).await {
        Ok(_over) => Answer::Done,
        Err(_elapsed) => Answer::Refused {
            why: format!(
                "session `{session}` is being stopped and is not gone yet; see `custody ps`"
            ),
        },
    }
}

/// How many connections each uid has.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<HashMap<u32, usize>>>);

impl Places {
    fn take(&self, uid: u32) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let his = taken.get(&uid).copied().unwrap_or(0);
        if all >= CONNECTIONS_MAX || (uid != 0 && his >= CONNECTIONS_PER_UID) {
            return None;
        }
        taken.insert(uid, his.saturating_add(1));
        Some(Place {
            places: self.clone(),
            uid,
        })
    }
}

/// A connection's place. It is taken until everything that the client gave is closed.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(his) = taken.get_mut(&self.uid) {
            *his = his.saturating_sub(1);
            if *his == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_places_for_the_others() {
        let places = Places::default();
        let his: Vec<_> = (0..CONNECTIONS_PER_UID)
            .map(|_| places.take(1000).unwrap())
            .collect();
        assert!(places.take(1000).is_none());
        assert!(places.take(1001).is_some());
        drop(his);
        assert!(places.take(1000).is_some());
        assert_eq!(places.0.lock().unwrap().len(), 0, "places are given back");
    }
}

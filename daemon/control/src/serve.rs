//! The operators' listener, the limits, and the requests that are answered at once.

use std::{convert::Infallible, os::fd::AsFd, path::PathBuf, sync::Arc, time::Duration};

use custody_config::{Access, Caller, Review, Uids};
use custody_sys::channel;
use custody_wire::{
    Message as _, frame,
    operator::{Answer, Request},
    revoke::Revoked,
    session::Told,
    supervise::ControlOrder,
};
use gate::id::{SessionId, ToolName};
use tokio::{
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::{
    caller::{self, Standing},
    client::{Client, ClientError, Silence},
    closing::{Closers, Room},
    custodyd::Custodyd,
    opening::Gate,
    places::{CONNECTIONS_MAX, CONNECTIONS_PER_UID, Place, Places, STRANGERS_MAX},
    policies,
    reviews::{self, Desk},
    run,
    sessions::Sessions,
};

/// The most threads that may wait for clients: one for each connection, and one for each user whose
/// connections were not let in.
pub const THREADS_MAX: usize = 2 * (CONNECTIONS_MAX + STRANGERS_MAX) + DESK_THREADS;

/// The threads that ask the store of approvals or tell reviewers come on top.
const DESK_THREADS: usize = 64;

/// The longest request of a stranger: what he may ask for is short, and memory for what he may not is
/// the operators'.
const STRANGERS_CAP: usize = 16 << 10;

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
    /// Who may answer for calls that wait.
    pub review: Vec<Review>,
    /// Where they wait.
    pub desk: Desk,
    /// The way to custodyd.
    pub custodyd: Custodyd,
    /// The way to the gate.
    pub gate: Gate,
    /// The sessions that live.
    pub sessions: Sessions,
}

/// Accepts and serves, for ever.
pub async fn serve(service: Arc<Service>, listener: UnixListener) -> Infallible {
    let door = Door {
        service,
        places: Places::default(),
        closers: Closers::new(),
    };
    loop {
        let room = door.closers.room().await;
        match listener.accept().await {
            Ok((stream, _)) => door.answer(stream, room),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Who is let in, and what becomes of whoever is not.
struct Door {
    service: Arc<Service>,
    places: Places,
    closers: Closers,
}

impl Door {
    /// Serves `stream`, or sees to it that it is closed.
    fn answer(&self, stream: UnixStream, room: Room) {
        let mut whose = (Standing::Stranger, 0);
        match self.admit(&stream, &mut whose) {
            Ok((caller, place)) => {
                let cap = match whose.0 {
                    Standing::Operator | Standing::Root => Request::CAP,
                    Standing::Stranger => STRANGERS_CAP,
                };
                let client = Client::new(stream, cap, place);
                drop(tokio::spawn(converse(
                    Arc::clone(&self.service),
                    client,
                    caller,
                )));
            }
            Err(why) => {
                say(&stream, why);
                let (standing, uid) = whose;
                self.closers.close(standing, uid, stream, room);
            }
        }
    }

    /// Who is at the other end, and his place; or why he is turned away. `whose` becomes what is known
    /// of him.
    fn admit(
        &self,
        stream: impl AsFd,
        whose: &mut (Standing, u32),
    ) -> Result<(Caller, Place), String> {
        let caller = caller::at(&stream).map_err(|error| {
            tracing::warn!(%error, "a client cannot be known");
            "the service cannot tell who you are; look at its log".to_owned()
        })?;
        whose.1 = caller.uid;
        if let Err(why) = caller::outside(&self.service.uids, &caller) {
            tracing::warn!(
                uid = caller.uid,
                "a session's uid connected to the operators' socket"
            );
            return Err(why.to_string());
        }
        whose.0 = caller::standing(&self.service.access, &self.service.review, &caller);
        match self.places.take(whose.0, caller.uid) {
            Some(place) => Ok((caller, place)),
            None => Err(format!(
                "too many connections; at most {CONNECTIONS_PER_UID} for one user, \
                 {CONNECTIONS_MAX} for all whom a rule admits and {STRANGERS_MAX} for all others: \
                 stop a session or try again"
            )),
        }
    }
}

/// Says why, if the client's buffer takes it: it is the first that he hears.
fn say(stream: impl AsFd, why: String) {
    let said = frame::frame(&Answer::Refused { why })
        .map_err(std::io::Error::other)
        .and_then(|bytes| channel::send(stream, &bytes, &[]));
    if let Err(error) = said {
        tracing::debug!(%error, "a client did not hear why he is turned away");
    }
}

async fn converse(service: Arc<Service>, mut client: Client, caller: Caller) {
    if let Err(error) = obey(&service, &mut client, &caller).await
        && !error.is_end()
    {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::info!(%error, source = ?source.unwrap_or_default(), "a client was dropped");
    }
}

async fn obey(service: &Service, client: &mut Client, caller: &Caller) -> Result<(), ClientError> {
    loop {
        match client.next(Silence::Bounded).await? {
            Request::Run(request) => {
                run::run(service, client, caller, request).await?;
            }
            Request::List => {
                let sessions = service.sessions.seen_by(caller);
                client.send(&Answer::Sessions(sessions), &[]).await?;
            }
            Request::Approve { of, scope, signed } => {
                let answer = reviews::approve(service, caller, of, scope, signed).await;
                client.send(&answer, &[]).await?;
            }
            Request::Login => {
                let answer = reviews::login(service, caller);
                client.send(&answer, &[]).await?;
            }
            Request::Enter { .. } | Request::Page { .. } => {
                client.send(&reviews::not_the_page(), &[]).await?;
            }
            Request::Pending { after, all } => {
                let answer = reviews::list(service, caller, after, all).await;
                client.send(&answer, &[]).await?;
            }
            Request::Refuse { of, why } => {
                let answer = reviews::refuse(service, caller, of, why).await;
                client.send(&answer, &[]).await?;
            }
            Request::Show { pending, session } => {
                let answer = reviews::show(service, caller, pending, session).await;
                client.send(&answer, &[]).await?;
            }
            Request::Revoke(what) => {
                let answer = revoke(service, caller, what).await;
                client.send(&answer, &[]).await?;
            }
            Request::Unlock { tool } => {
                let answer = unlock(service, caller, tool).await;
                client.send(&answer, &[]).await?;
            }
            Request::Signal { .. } => {
                let why = "this connection runs no session".into();
                client.send(&Answer::Refused { why }, &[]).await?;
            }
            Request::Status => {
                let answer = status(service, caller);
                client.send(&answer, &[]).await?;
            }
            Request::Tell { session, told } => {
                let answer = tell(service, caller, session, told).await;
                client.send(&answer, &[]).await?;
            }
            Request::Stop { session } => {
                let answer = stop(service, caller, session).await;
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

/// What the application says to its session goes to the gate as it is.
async fn tell(service: &Service, caller: &Caller, session: SessionId, told: Told) -> Answer {
    if service.sessions.to_stop(session, caller).is_none() {
        return Answer::Refused {
            why: format!("you have no session `{session}`; `custody ps` lists yours"),
        };
    }
    match service.gate.tell(session, told).await {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused {
            why: error.to_string(),
        },
    }
}

/// Root takes back whatever there is; whoever has a session, that one.
async fn revoke(service: &Service, caller: &Caller, what: Revoked) -> Answer {
    let his = match &what {
        Revoked::Session(session) => service.sessions.to_stop(*session, caller).is_some(),
        Revoked::Credential(_) | Revoked::Policy(_) => false,
    };
    if caller.uid != 0 && !his {
        return Answer::Refused {
            why: format!("root alone revokes a credential or a policy, and you have no {what}"),
        };
    }
    answered(
        service
            .custodyd
            .ask(|number| ControlOrder::Revoke { number, what })
            .await,
    )
}

async fn unlock(service: &Service, caller: &Caller, tool: ToolName) -> Answer {
    if caller.uid != 0 {
        return Answer::Refused {
            why: "root alone unlocks a tool: somebody has to look at what became of its effect"
                .into(),
        };
    }
    answered(
        service
            .custodyd
            .ask(|number| ControlOrder::Unlock { number, tool })
            .await,
    )
}

fn answered(outcome: Result<(), String>) -> Answer {
    match outcome {
        Ok(()) => Answer::Done,
        Err(why) => Answer::Refused { why },
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

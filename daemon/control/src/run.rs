//! One session from the request to its end.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use custody_config::{Access, Caller};
use custody_wire::{
    doctor,
    operator::{self, Answer, Request},
    session::{Open, Part},
    supervise::{ControlOrder, End, Start, StartRefusal},
};
use gate::id::{PolicyName, SessionId};
use nix::libc;
use tokio::{sync::mpsc, time::sleep};

use crate::{
    caller::{self, NotAllowed},
    client::{Client, ClientError, Silence},
    command::{self, CommandError},
    custodyd::{Notice, OrderError},
    opening::OpenError,
    policies,
    serve::Service,
    sessions::Listed,
    workspace::{self, WorkspaceError},
};

/// The signals that are forwarded (signal(7)).
const FORWARDED: [i32; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// Between two signals of one client: a hand is slower, and a flood stays here.
const SIGNAL_PACE: Duration = Duration::from_millis(10);

/// Why a session does not start.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("you have a `custody doctor` that runs; wait for it")]
    Busy,
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("custodyd does not take orders; is the service stopping?")]
    Custodyd(#[source] OrderError),
    #[error("policy `{}` is for `custody doctor` alone", doctor::POLICY)]
    Doctor,
    #[error(
        "a delegated session has policy, subject, tenant and values of the one that it is delegated from; \
         give less of its values with --only-values"
    )]
    DelegatedSays,
    #[error("{found} descriptors came with the request where {expected} were announced")]
    Descriptors { found: usize, expected: usize },
    #[error("a memory file for the command")]
    MemoryFile(#[source] std::io::Error),
    #[error("you have no session `{session}` that runs; `custody ps` lists yours")]
    NoSession { session: SessionId },
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the policies cannot be listed; look at the service's log")]
    Policies(#[source] std::io::Error),
    #[error("no random number for the session: {0}")]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Start(#[from] StartRefusal),
    #[error("there is no policy `{policy}`; there are: {there}")]
    UnknownPolicy { policy: PolicyName, there: String },
    #[error("name a policy with --policy; you may use: {there}")]
    WhichPolicy { there: String },
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Runs what `request` asks for, and answers until it is over.
///
/// # Errors
/// When the connection is to end; the session is over by then.
pub(crate) async fn run(
    service: &Service,
    client: &mut Client,
    caller: &Caller,
    request: operator::Run,
) -> Result<(), ClientError> {
    // Whoever may not run this is asked for no descriptor.
    let begun = match admit(service, caller, &request) {
        // What is run is known: nothing is asked for.
        Ok(policy) if policy.as_str() == doctor::POLICY => {
            match one_doctor(service, caller, &policy) {
                Ok(command) => start(service, client, caller, request, policy, &[command]).await,
                Err(refusal) => Err(refusal),
            }
        }
        Ok(policy) => {
            let given = client.beside().await?;
            start(service, client, caller, request, policy, given.fds()).await
        }
        Err(refusal) => Err(refusal),
    };
    let answer = match begun {
        Ok((listed, notices)) => {
            let id = listed.id();
            let outcome = attend(service, client, &listed, notices).await;
            // Over, or never begun: the gate forgets it before anybody is told.
            close(service, id).await;
            drop(listed);
            match outcome {
                Outcome::CustodydGone => Answer::Refused {
                    why: "custodyd is gone, and every session with it".into(),
                },
                Outcome::Ended(end) => {
                    tracing::info!(session = %id, "session ended");
                    Answer::Ended { end }
                }
                Outcome::Refused(refusal) => refused(caller, &Refusal::Start(refusal)),
            }
        }
        Err(refusal) => refused(caller, &refusal),
    };
    client.send(&answer, &[]).await
}

fn refused(caller: &Caller, refusal: &Refusal) -> Answer {
    let why = refusal.to_string();
    let source = std::error::Error::source(refusal).map(ToString::to_string);
    tracing::info!(
        uid = caller.uid,
        why = ?why,
        source = ?source.unwrap_or_default(),
        "session refused"
    );
    Answer::Refused { why }
}

/// The policy, if `caller` may use it so.
fn admit(
    service: &Service,
    caller: &Caller,
    request: &operator::Run,
) -> Result<PolicyName, Refusal> {
    // It gives nothing, and runs one program of ours: whoever may have any session may have it.
    if let Some(policy) = &request.policy
        && policy.as_str() == doctor::POLICY
    {
        let plain = !request.workspace
            && request.tty.is_none()
            && request.task.is_none()
            && request.from.is_none()
            && request.scope.is_none()
            && request.subject.is_none()
            && request.tenant.is_none()
            && request.values.is_empty()
            && request.owned.is_empty();
        return if !plain {
            Err(Refusal::Doctor)
        } else if caller::may_anything(&service.access, caller) {
            Ok(policy.clone())
        } else {
            Err(Refusal::NotAllowed(NotAllowed::Policy {
                uid: caller.uid,
                policy: policy.clone(),
            }))
        };
    }
    if let Some(part) = &request.from {
        return delegates(service, caller, part, request);
    }
    let policy = choose(service, caller, request.policy.clone())?;
    caller::may_run(&service.access, caller, &policy, request)?;
    Ok(policy)
}

/// The policy of a session that is delegated from one of the caller's, if the rules still let him use it.
/// What he may set does not matter: nothing is set, and members of owned sets are left out alone.
fn delegates(
    service: &Service,
    caller: &Caller,
    part: &Part,
    request: &operator::Run,
) -> Result<PolicyName, Refusal> {
    let session = part.session;
    let policy = service
        .sessions
        .to_delegate(session, caller)
        .ok_or(Refusal::NoSession { session })?;
    let says = !request.values.is_empty()
        || request.subject.is_some()
        || request.tenant.is_some()
        || request.policy.as_ref().is_some_and(|it| *it != policy);
    if says {
        return Err(Refusal::DelegatedSays);
    }
    if !caller::may_use(&service.access, caller, &policy) {
        let uid = caller.uid;
        return Err(NotAllowed::Policy { uid, policy }.into());
    }
    Ok(policy)
}

/// The command of `custody doctor`, if `caller` has no such session yet.
fn one_doctor(service: &Service, caller: &Caller, policy: &PolicyName) -> Result<OwnedFd, Refusal> {
    if service.sessions.has(caller.uid, policy) {
        return Err(Refusal::Busy);
    }
    custody_sys::memfd::sealed(c"command", &doctor::command()).map_err(Refusal::MemoryFile)
}

/// Everything that can be checked here is, before anything is begun.
async fn start(
    service: &Service,
    client: &Client,
    caller: &Caller,
    request: operator::Run,
    policy: PolicyName,
    fds: &[OwnedFd],
) -> Result<(Listed, mpsc::UnboundedReceiver<Notice>), Refusal> {
    let operator::Run {
        policy: _named,
        profile,
        from,
        workspace,
        values,
        owned,
        scope,
        subject,
        task,
        tenant,
        tty,
    } = request;
    let expected = 1 + usize::from(workspace);
    let mut given = fds.iter();
    let (Some(command), folder, None) = (
        given.next(),
        workspace.then(|| given.next()).flatten(),
        given.next(),
    ) else {
        let found = fds.len();
        return Err(Refusal::Descriptors { found, expected });
    };
    if folder.is_some() != workspace {
        let found = fds.len();
        return Err(Refusal::Descriptors { found, expected });
    }
    command::check(command)?;
    let path = match folder {
        Some(folder) => Some(workspace::path_of(folder, caller.uid)?),
        None => None,
    };

    let above = from.as_ref().map(|part| part.session);
    let listed = service
        .sessions
        .list_new(&policy, caller.uid, above, path.clone())?;
    let id = listed.id();
    service
        .gate
        .open(Open {
            session: id,
            policy: policy.clone(),
            caller_uid: caller.uid,
            from,
            values,
            owned,
            roles: Access::roles(&service.access, caller, &policy),
            scope,
            subject,
            task,
            tenant,
            workspace,
        })
        .await?;
    let notices = service.custodyd.listen(id);
    let order = ControlOrder::Start(Start {
        session: id,
        policy: policy.clone(),
        caller_uid: caller.uid,
        from: above,
        workspace: path,
        profile,
        tty,
    });
    let beside: Vec<BorrowedFd<'_>> = [client.as_fd()]
        .into_iter()
        .chain(fds.iter().map(|fd| fd.as_fd()))
        .collect();
    if let Err(error) = service.custodyd.order(&order, &beside).await {
        service.custodyd.forget(id);
        close(service, id).await;
        return Err(Refusal::Custodyd(error));
    }
    tracing::info!(session = %id, %policy, uid = caller.uid, "session ordered");
    Ok((listed, notices))
}

/// The policy that is named, or the only one that the caller may use.
fn choose(
    service: &Service,
    caller: &Caller,
    named: Option<PolicyName>,
) -> Result<PolicyName, Refusal> {
    let all = policies::list(&service.policies).map_err(Refusal::Policies)?;
    let his: Vec<PolicyName> = all
        .into_iter()
        .filter(|policy| caller::may_use(&service.access, caller, policy))
        .collect();
    match named {
        Some(policy) if his.contains(&policy) => Ok(policy),
        Some(policy) if caller::may_use(&service.access, caller, &policy) => {
            Err(Refusal::UnknownPolicy {
                policy,
                there: enumerate(&his),
            })
        }
        Some(policy) => Err(Refusal::NotAllowed(NotAllowed::Policy {
            uid: caller.uid,
            policy,
        })),
        None => match his.as_slice() {
            [only] => Ok(only.clone()),
            [] | [_, ..] => Err(Refusal::WhichPolicy {
                there: enumerate(&his),
            }),
        },
    }
}

fn enumerate(policies: &[PolicyName]) -> String {
    if policies.is_empty() {
        return "none".into();
    }
    let names: Vec<String> = policies.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

enum Outcome {
    CustodydGone,
    Ended(End),
    Refused(StartRefusal),
}

/// Stands between the client and the session until the session is over. When the client is gone
/// the session is stopped, and its end is waited for all the same.
async fn attend(
    service: &Service,
    client: &mut Client,
    listed: &Listed,
    mut notices: mpsc::UnboundedReceiver<Notice>,
) -> Outcome {
    let session = listed.id();
    let mut there = true;
    let mut running = false;
    let mut held = Vec::new();
    loop {
        let request = tokio::select! {
            notice = notices.recv() => {
                match notice {
                    None => return Outcome::CustodydGone,
                    Some(Notice::Counted(counts)) => listed.counted(counts),
                    Some(Notice::Ended(end)) => return Outcome::Ended(end),
                    Some(Notice::Refused(refusal)) => return Outcome::Refused(refusal),
                    Some(Notice::Started { uid, profile, layers, weaknesses, fds }) => {
                        listed.started(uid, profile);
                        running = true;
                        let started = Answer::Started { session, profile, layers, weaknesses };
                        if there && client.send(&started, &fds).await.is_err() {
                            there = false;
                            stop(service, session).await;
                        }
                        for signal in held.drain(..) {
                            order(service, &ControlOrder::Signal { session, signal }).await;
                        }
                    }
                }
                continue;
            }
            request = client.next(Silence::Allowed), if there => request,
        };
        match request {
            Ok(Request::Signal { signal }) if !FORWARDED.contains(&signal) => {
                tracing::debug!(%session, signal, "a signal that is not forwarded");
            }
            Ok(Request::Signal { signal }) if running => {
                order(service, &ControlOrder::Signal { session, signal }).await;
                sleep(SIGNAL_PACE).await;
            }
            // Not yet: it is sent when the command runs.
            Ok(Request::Signal { signal }) => {
                if !held.contains(&signal) {
                    held.push(signal);
                }
            }
            // What another request would be answered, this connection could not tell apart.
            Ok(_) | Err(_) => {
                there = false;
                stop(service, session).await;
            }
        }
    }
}

async fn stop(service: &Service, session: SessionId) {
    order(service, &ControlOrder::Stop { session }).await;
}

async fn order(service: &Service, order: &ControlOrder) {
    // Without custodyd there is no session; whoever serves the channel ends this program.
    if let Err(error) = service.custodyd.order(order, &[]).await {
        tracing::error!(%error, "an order was not given");
    }
}

async fn close(service: &Service, session: SessionId) {
    // Without the gate there is no session; whoever serves the channel ends this program.
    if let Err(error) = service.gate.close(session).await {
        tracing::error!(%session, %error, "a session was not closed");
    }
    service.desk.close(session).await;
}

//! From a permit and a call to what may be performed, or why not. No waiting: what is checked here
//! is spent here.

use std::{
    net::{Ipv6Addr, SocketAddr},
    rc::Rc,
};

use custody_service::places::Place;
use custody_wire::{
    frame::{self, FrameError},
    perform::{Http, Request},
    session::Signed,
    supervise::EGRESS_MAX,
};
use gate::{
    call::Call,
    chain,
    digest::Digest,
    floor::{self, FloorError},
    id::{CredentialLabel, SessionId, ToolName},
    json::{self, Limits},
    lease::Lease,
    meaning::{Meaning, MeaningError},
    mutant::Mutant,
    nanos::BootNanos,
    nonce::Nonce,
    origin::Origin,
    permit::{self, Expect, PermitError, Verified},
    policy::{Connector, Credential, Policy, Verify},
    record::{Approval, Bound},
    request::{self, HttpRequest, RenderError},
};
use serde::Deserialize;

use crate::{
    approvals::{self, Unapproved},
    credential::NoCredential,
    gate_link::Link,
    session::Session,
    spent::SpendError,
    vault::Vault,
    verify::Reader,
    workers::Wanted,
};

/// What may be performed, once.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) bound: Bound,
    pub(crate) call: Call,
    pub(crate) session: Rc<Session>,
    pub(crate) request: HttpRequest,
    pub(crate) idempotent: bool,
    /// Its place among the session's streams, if it is a lease.
    pub(crate) leased: Option<Leased>,
    /// Whether its request carries a key by which the target knows it again.
    pub(crate) has_key: bool,
    /// Until when, exclusive, by the boot clock.
    pub(crate) expires: u64,
    pub(crate) _in_flight: Place,
}

/// A stream's places.
#[derive(Debug)]
pub(crate) struct Leased {
    _of_all: Place,
    _of_session: Place,
}

/// Why a permit is not acted on, and what it binds as far as that is the gate's word.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) bound: Option<Box<Bound>>,
    pub(crate) why: Refusal,
}

/// Why a permit is not acted on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("session {session} has {most} calls on their way; try again when one has ended")]
    Busy { session: SessionId, most: usize },
    #[error("{0}")]
    Credential(NoCredential),
    #[error("the permit names credential `{named}`; tool `{tool}` is performed with `{wanted}`")]
    CredentialOfTool {
        tool: ToolName,
        named: CredentialLabel,
        wanted: CredentialLabel,
    },
    #[error("{0}")]
    Floor(FloorError),
    #[error(
        "the permit is no lease of tool `{tool}`, or one of another destination, size or time than the \
         session's policy has"
    )]
    Lease { tool: ToolName },
    #[error(
        "tool `{tool}` is locked: reading an effect of it back did not show what its server had \
         answered; when an operator has looked, `custody unlock {tool}` lets it go on"
    )]
    Locked { tool: ToolName },
    #[error("the gate that signed the permit is gone")]
    GateGone,
    #[error("{0}")]
    Meaning(MeaningError),
    #[error("{0}")]
    Permit(PermitError),
    #[error("the permit was decided by another policy than session {session} has")]
    Policy { session: SessionId },
    #[error("{0}")]
    Render(RenderError),
    #[error("session {session} is not open")]
    Session { session: SessionId },
    #[error("{0}")]
    Spend(SpendError),
    #[error("session {session} has {most} streams open; read one to its end")]
    Streams { session: SessionId, most: usize },
    #[error("{most} streams are open over all sessions; try again when one has ended")]
    StreamsOfAll { most: usize },
    #[error("the session's policy has no tool `{tool}`")]
    Tool { tool: ToolName },
    #[error("the call makes a request that no worker takes: {0}; shorten its arguments")]
    TooLong(FrameError),
    #[error("{0}")]
    Unapproved(Unapproved),
}

/// Checks everything that can be checked at once, in the order of the design, and spends the permit.
pub(crate) fn accept(
    vault: &Vault,
    link: &Link,
    permit: &[u8],
    call: &[u8],
    signed: Option<&Signed>,
) -> Result<Accepted, Refused> {
    // The key of a gate that was replaced is void at once.
    if !link.is_current() {
        return Err(Refused {
            bound: None,
            why: Refusal::GateGone,
        });
    }
    let now = vault.clock.boot_ns();
    let expect = Expect {
        audience: vault.audience,
        epoch: vault.epoch,
        now_boot_ns: now,
    };
    let verified = permit::verify(permit, link.key(), &expect).map_err(|why| Refused {
        bound: claimed(permit, &why),
        why: Refusal::Permit(why),
    })?;
    judge(vault, &verified, (call, signed), now).map_err(|why| Refused {
        bound: Some(Box::new(Bound::of(&verified))),
        why,
    })
}

fn judge(
    vault: &Vault,
    permit: &Verified,
    (call, signed): (&[u8], Option<&Signed>),
    now: u64,
) -> Result<Accepted, Refusal> {
    vault
        .spent
        .borrow_mut()
        .spend(permit.nonce(), permit.expires(), now)
        .map_err(Refusal::Spend)?;
    let session = permit.session();
    let open = vault.session(session).ok_or(Refusal::Session { session })?;
    if open.loaded.hash != permit.policy() {
        return Err(Refusal::Policy { session });
    }
    let tool = permit.tool();
    if vault.locks.holds(open.loaded.policy.name(), tool) {
        return Err(Refusal::Locked { tool: tool.clone() });
    }
    let in_flight = open.calls.enter().ok_or(Refusal::Busy {
        session,
        most: crate::SESSION_CALLS_MAX,
    })?;
    let (call, request, idempotent) = prepare(&open.loaded.policy, permit, call, now)?;
    let leased = match permit.lease() {
        Some(_) => Some(lease(vault, session, &open)?),
        None => None,
    };
    // `prepare` saw that the policy has it.
    let rules = open.loaded.policy.credential(permit.credential());
    let prefix = rules.map_or("", |rules| &rules.placement.prefix);
    let credentials = vault.credentials.borrow();
    let _usable = credentials
        .find_for(permit.credential(), prefix)
        .map_err(Refusal::Credential)?;
    let approval = approvals::check(vault, &open.loaded.policy, permit, &call, signed)
        .map_err(Refusal::Unapproved)?;
    Ok(Accepted {
        bound: Bound {
            approval,
            ..Bound::of(permit)
        },
        call,
        expires: permit.expires(),
        has_key: open
            .loaded
            .policy
            .tools()
            .get(tool)
            .is_some_and(|tool| tool.idempotency_key),
        idempotent,
        leased,
        request,
        _in_flight: in_flight,
        session: open,
    })
}

/// A place for one more stream: of the session's, and of all.
fn lease(vault: &Vault, session: SessionId, open: &Rc<Session>) -> Result<Leased, Refusal> {
    let of_session = open.streams.enter().ok_or(Refusal::Streams {
        session,
        most: crate::SESSION_STREAMS_MAX,
    })?;
    let of_all = vault.streams.enter().ok_or(Refusal::StreamsOfAll {
        most: crate::ALL_STREAMS_MAX,
    })?;
    Ok(Leased {
        _of_all: of_all,
        _of_session: of_session,
    })
}

/// The request that the permitted call is by the vault's own copy of the policy, held against the
/// credential's floor and against what the permit says that the call means; and whether it may be repeated.
fn prepare(
    policy: &Policy,
    permit: &Verified,
    call: &[u8],
    now: u64,
) -> Result<(Call, HttpRequest, bool), Refusal> {
    let call = permit.admit(call).map_err(Refusal::Permit)?;
    let tool = policy
        .tools()
        .get(&call.tool)
        .ok_or_else(|| Refusal::Tool {
            tool: call.tool.clone(),
        })?;
    // One kind is not good for the other, and a lease for no more than the policy says.
    if permit.lease() != Lease::of(&tool.request).as_ref() && !Mutant::VaultLease.is_on() {
        return Err(Refusal::Lease {
            tool: call.tool.clone(),
        });
    }
    let label = &tool.credential;
    if label != permit.credential() {
        return Err(Refusal::CredentialOfTool {
            tool: call.tool.clone(),
            named: permit.credential().clone(),
            wanted: label.clone(),
        });
    }
    let rules = policy.credential(label).ok_or_else(|| {
        Refusal::Credential(NoCredential::Unknown {
            label: label.clone(),
        })
    })?;
    let request = render(policy, rules, &call)?;
    permit
        .meaning()
        .agrees(policy, &call, &request, now / 1_000_000)
        .map_err(Refusal::Meaning)?;
    Ok((call, request, tool.idempotent))
}

/// The call as a request that stands on the floor of `rules`: what is sent is held against it, not
/// what was meant.
fn render(policy: &Policy, rules: &Credential, call: &Call) -> Result<HttpRequest, Refusal> {
    let request = match rules.connector {
        Connector::Http => request::render(policy, call).map_err(Refusal::Render)?,
    };
    floor::check(&rules.floor, &request).map_err(Refusal::Floor)?;
    fits(&request).map_err(Refusal::TooLong)?;
    Ok(request)
}

/// Whether a worker takes it, whatever its number and addresses turn out to be: a call within its
/// cap grows where its arguments are percent-encoded. What is found out here is a refusal; behind
/// the intent it would be a doubt.
pub(crate) fn fits(request: &HttpRequest) -> Result<(), FrameError> {
    let longest = SocketAddr::from((Ipv6Addr::LOCALHOST, u16::MAX));
    let message = Request::Http {
        number: u64::MAX,
        request: http(request, &[longest; EGRESS_MAX]),
    };
    frame::datagram(&message).map(drop)
}

impl Accepted {
    /// The request as the worker sends it.
    pub(crate) fn http(&self, addresses: &[SocketAddr]) -> Http {
        http(&self.request, addresses)
    }

    /// Whether the call is needed to know after a crash what came of it.
    pub(crate) fn needed_later(&self) -> bool {
        let tool = self.session.loaded.policy.tools().get(&self.bound.tool);
        let verify = tool.and_then(|tool| tool.verify.as_ref());
        verify.is_some_and(Verify::needs_no_answer)
    }

    /// With whose worker it is read back.
    pub(crate) fn reader<'a>(&'a self, rules: &'a Credential) -> Reader<'a> {
        Reader {
            session: self.bound.session,
            open: &self.session,
            label: &self.bound.credential,
            rules,
        }
    }

    /// The worker that it needs, and where that must be able to go.
    pub(crate) fn wanted<'a>(&'a self, rules: &'a Credential, origin: &'a Origin) -> Wanted<'a> {
        Wanted {
            session: self.bound.session,
            open: &self.session,
            label: &self.bound.credential,
            rules,
            origin,
        }
    }
}

/// A request as a worker sends it, to these addresses.
pub(crate) fn http(request: &HttpRequest, addresses: &[SocketAddr]) -> Http {
    Http {
        method: request.method.as_str().into(),
        tls: request.origin.tls(),
        host: request.origin.host().into(),
        port: request.origin.port(),
        addresses: addresses.to_vec(),
        target: request.target.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        timeout_ms: request.timeout_ms,
        answer_cap: request.answer_max_bytes,
    }
}

/// What a permit says that is the gate's word and yet not acted on. A permit that is not signed by
/// the gate says nothing.
fn claimed(bytes: &[u8], why: &PermitError) -> Option<Box<Bound>> {
    match why {
        PermitError::Json(_) | PermitError::Signature => return None,
        PermitError::Audience
        | PermitError::Call
        | PermitError::CallForm(_)
        | PermitError::Epoch
        | PermitError::Expired
        | PermitError::Format { .. }
        | PermitError::Span
        | PermitError::TooEarly => {}
    }
    let claim: Claim = json::from_canonical(bytes, &Limits::LINE).ok()?;
    let says = claim.permit;
    Some(Box::new(Bound {
        approval: says.approval.map(|statement| Approval {
            key: None,
            statement,
        }),
        call: says.call,
        credential: says.credential,
        decision: chain::Place {
            digest: says.decision,
            position: says.position,
        },
        nonce: says.nonce,
        policy: says.policy,
        session: says.session,
        tool: says.tool,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    permit: Says,
    #[serde(rename = "signature")]
    _signature: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Says {
    #[serde(default)]
    approval: Option<Digest>,
    #[serde(rename = "audience")]
    _audience: Digest,
    call: Digest,
    credential: CredentialLabel,
    decision: Digest,
    #[serde(rename = "epoch")]
    _epoch: Nonce,
    #[serde(rename = "expires")]
    _expires: BootNanos,
    #[serde(rename = "format")]
    _format: u32,
    #[serde(default, rename = "lease")]
    _lease: Option<Lease>,
    #[serde(rename = "meaning")]
    _meaning: Meaning,
    nonce: Nonce,
    #[serde(rename = "not_before")]
    _not_before: BootNanos,
    policy: Digest,
    position: u64,
    session: SessionId,
    tool: ToolName,
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::{floor::PathPattern, id::PolicyName, request::Method};

    const POLICY: &str = r#"
format = 1

[credentials.api]
connector = "http"

[credentials.api.floor]
origins = ["https://api.example.test"]
methods = ["POST"]
paths = ["/v1/messages"]

[tools.send]
description = "Sends a message."
credential = "api"
risk = "write"

[tools.send.request]
method = "POST"
url = "https://api.example.test/v1/messages"
"#;

    #[test]
    fn the_floor_holds_whatever_the_template_says() {
        // A compiled policy cannot have a template beside its floor, so the floor is moved under
        // it: that stands for a fault in the compiler, the loader or the renderer.
        let policy = Policy::compile(&PolicyName::parse("test").unwrap(), POLICY).unwrap();
        let call = Call::from_bytes(br#"{"arguments":{},"tool":"send"}"#).unwrap();
        let (_label, rules) = policy.credentials().first_key_value().unwrap();
        assert!(render(&policy, rules, &call).is_ok());
        let moved = |move_it: &dyn Fn(&mut Credential)| {
            let mut rules = rules.clone();
            move_it(&mut rules);
            render(&policy, &rules, &call)
        };
        let origin = |text: &str| vec![Origin::parse(text).unwrap()];
        let path = |text: &str| vec![PathPattern::parse(text).unwrap()];
        for refused in [
            moved(&|it| it.floor.origins = origin("https://other.example.test")),
            moved(&|it| it.floor.origins = origin("https://api.example.test:8443")),
            moved(&|it| it.floor.origins = origin("http://127.0.0.1:443")),
            moved(&|it| it.floor.methods = vec![Method::Get, Method::Delete]),
            moved(&|it| it.floor.paths = path("/v1")),
            moved(&|it| it.floor.paths = path("/v1/messages/{}")),
            moved(&|it| it.floor.paths = path("/v2/messages")),
            moved(&|it| it.floor.paths.clear()),
        ] {
            assert!(matches!(refused, Err(Refusal::Floor(_))), "{refused:?}");
        }
    }
}

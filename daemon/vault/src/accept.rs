//! From a permit and a call to what may be performed, or why not. No waiting: what is checked here
//! is spent here.

use std::rc::Rc;

use custody_wire::perform::Http;
use gate::{
    chain::Place,
    digest::Digest,
    floor::{self, FloorError},
    id::{CredentialLabel, SessionId, ToolName},
    json::{self, Limits},
    nanos::BootNanos,
    nonce::Nonce,
    permit::{self, Expect, PermitError, Verified},
    policy::{Connector, Policy},
    record::Bound,
    request::{self, HttpRequest, RenderError},
};
use serde::Deserialize;

use crate::{
    credential::NoCredential,
    gate_link::Link,
    spent::SpendError,
    vault::{InFlight, Session, Vault},
};

/// What may be performed, once.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) bound: Bound,
    pub(crate) session: Rc<Session>,
    pub(crate) request: HttpRequest,
    pub(crate) idempotent: bool,
    pub(crate) _in_flight: InFlight,
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
    Busy { session: SessionId, most: u32 },
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
    #[error("the gate that signed the permit is gone")]
    GateGone,
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
    #[error("the session's policy has no tool `{tool}`")]
    Tool { tool: ToolName },
}

/// Checks everything that can be checked at once, in the order of the design, and spends the permit.
pub(crate) fn accept(
    vault: &Vault,
    link: &Link,
    permit: &[u8],
    call: &[u8],
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
    judge(vault, &verified, call, now).map_err(|why| Refused {
        bound: Some(Box::new(Bound::of(&verified))),
        why,
    })
}

fn judge(vault: &Vault, permit: &Verified, call: &[u8], now: u64) -> Result<Accepted, Refusal> {
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
    let in_flight = InFlight::enter(&open).ok_or(Refusal::Busy {
        session,
        most: crate::SESSION_CALLS_MAX,
    })?;
    let (request, idempotent) = prepare(&open.loaded.policy, permit, call)?;
    let credentials = vault.credentials.borrow();
    let _usable = credentials
        .find(permit.credential())
        .map_err(Refusal::Credential)?;
    Ok(Accepted {
        bound: Bound::of(permit),
        idempotent,
        request,
        _in_flight: in_flight,
        session: open,
    })
}

/// The request that the permitted call is by the vault's own copy of the policy, held against the
/// credential's floor; and whether it may be repeated.
fn prepare(
    policy: &Policy,
    permit: &Verified,
    call: &[u8],
) -> Result<(HttpRequest, bool), Refusal> {
    let call = permit.admit(call).map_err(Refusal::Permit)?;
    let tool = policy
        .tools()
        .get(&call.tool)
        .ok_or_else(|| Refusal::Tool {
            tool: call.tool.clone(),
        })?;
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
    let request = match rules.connector {
        Connector::Http => request::render(policy, &call).map_err(Refusal::Render)?,
    };
    // The floor is held against what is sent, not against what was meant.
    floor::check(&rules.floor, &request).map_err(Refusal::Floor)?;
    Ok((request, tool.idempotent))
}

impl Accepted {
    /// The request as the worker sends it.
    pub(crate) fn http(&self, addresses: &[std::net::SocketAddr]) -> Http {
        let request = &self.request;
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
}

/// What a permit says that is the gate's word and yet not acted on. A permit that is not signed by
/// the gate says nothing.
fn claimed(bytes: &[u8], why: &PermitError) -> Option<Box<Bound>> {
    match why {
        PermitError::Json(_) | PermitError::Signature => return None,
        PermitError::Audience
        | PermitError::Call
        | PermitError::Epoch
        | PermitError::Expired
        | PermitError::Format { .. }
        | PermitError::Span
        | PermitError::TooEarly => {}
    }
    let claim: Claim = json::from_canonical(bytes, &Limits::LINE).ok()?;
    let says = claim.permit;
    Some(Box::new(Bound {
        call: says.call,
        credential: says.credential,
        decision: Place {
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
    nonce: Nonce,
    #[serde(rename = "not_before")]
    _not_before: BootNanos,
    policy: Digest,
    position: u64,
    session: SessionId,
    tool: ToolName,
}

//! Permits: what the gate signs and the vault acts on.
//!
//! A permit binds one call by its digest, one vault in one run, one session and one span of boot
//! time. That it is used once is the vault's to see, by its nonce. It is of one of two kinds: for an
//! effect whose answer is released whole, or a [lease](crate::lease).

use alloc::{string::String, vec::Vec};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    decide::Allowed,
    digest::Digest,
    id::{CredentialLabel, SessionId, ToolName},
    json::{self, JsonError, Limits},
    lease::Lease,
    meaning::Meaning,
    mutant::Mutant,
    nanos::BootNanos,
    nonce::Nonce,
};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// The longest that a permit is good for: enough for a record's way to disk on a slow one, in
/// nanoseconds.
pub const MAX_AGE: u64 = 30_000_000_000;

/// Before what is signed, so that no signature of a permit is one of anything else.
const DOMAIN: &[u8] = b"custody permit v1\0";

/// How much a permit may hold: some 1,100 bytes, and as much more as the resource of its call takes,
/// which may be a list of many.
const LIMITS: Limits = Limits {
    bytes: 8 << 10,
    depth: 16,
    nodes: 2 << 10,
};

/// What a permit says. Made of an [`Allowed`], or read from bytes that the gate signed.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Permit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<Digest>,
    audience: Digest,
    call: Digest,
    credential: CredentialLabel,
    decision: Digest,
    epoch: Nonce,
    expires: BootNanos,
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
    meaning: Meaning,
    nonce: Nonce,
    not_before: BootNanos,
    policy: Digest,
    position: u64,
    session: SessionId,
    tool: ToolName,
}

/// What a permit says besides the call.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The digest of the statement that a reviewer signed, if the vault is to see one.
    pub approval: Option<Digest>,
    /// The vault: the id of its receipt key.
    pub audience: Digest,
    /// The vault's run.
    pub epoch: [u8; 16],
    /// Drawn at random, never twice.
    pub nonce: [u8; 16],
    /// The session.
    pub session: SessionId,
    /// The position of the decision's record.
    pub position: u64,
    /// The digest of the decision's record.
    pub decision: Digest,
    /// From when it is good, in nanoseconds of CLOCK_BOOTTIME.
    pub not_before: u64,
    /// Until when, exclusive; at most [`MAX_AGE`] later.
    pub expires: u64,
}

/// What the vault expects.
#[derive(Clone, Copy, Debug)]
pub struct Expect {
    /// Itself.
    pub audience: Digest,
    /// This run of it.
    pub epoch: [u8; 16],
    /// Now, in nanoseconds of CLOCK_BOOTTIME.
    pub now_boot_ns: u64,
}

/// Why a permit is not acted on.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PermitError {
    /// For another vault.
    #[error("the permit is for another vault")]
    Audience,
    /// The call beside it is not the one that it binds.
    #[error("the call is not the one that the permit binds")]
    Call,
    /// The call beside it is not of the form.
    #[error("the call cannot be read: {0}")]
    CallForm(JsonError),
    /// For another run of the vault.
    #[error("the permit is for another run of the vault")]
    Epoch,
    /// Too late.
    #[error("the permit expired")]
    Expired,
    /// A format that this version does not know.
    #[error("the permit has format {found}; this version reads format {FORMAT}")]
    Format {
        /// Its format.
        found: u32,
    },
    /// Not of the form.
    #[error("the permit cannot be read: {0}")]
    Json(JsonError),
    /// It would be good for longer than any permit, or for no time.
    #[error("the permit's span is empty or longer than {} s", MAX_AGE / 1_000_000_000)]
    Span,
    /// Not signed by the gate's key.
    #[error("the permit's signature is not the gate's")]
    Signature,
    /// Too early.
    #[error("the permit is not good yet")]
    TooEarly,
}

impl From<JsonError> for PermitError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    permit: Permit,
    signature: String,
}

impl Permit {
    /// A permit for the call that was allowed.
    pub fn new(allowed: &Allowed, terms: &Terms) -> Self {
        Self {
            approval: terms.approval,
            audience: terms.audience,
            call: allowed.digest(),
            credential: allowed.credential().clone(),
            decision: terms.decision,
            epoch: Nonce(terms.epoch),
            expires: BootNanos(terms.expires),
            format: FORMAT,
            lease: allowed.lease().cloned(),
            meaning: allowed.meaning().clone(),
            nonce: Nonce(terms.nonce),
            not_before: BootNanos(terms.not_before),
            policy: allowed.policy(),
            position: terms.position,
            session: terms.session,
            tool: allowed.tool().clone(),
        }
    }

    /// The permit with the gate's signature, in RFC 8785 form.
    ///
    /// # Errors
    /// When its span is empty or too long, or its position has no exact JSON number.
    pub fn sign(self, key: &SigningKey) -> Result<Vec<u8>, PermitError> {
        self.span()?;
        let signature = key.sign(&self.message()?);
        Ok(json::to_canonical(&Signed {
            permit: self,
            signature: hex::encode(signature.to_bytes()),
        })?)
    }

    /// The permit in RFC 8785 form, behind its domain.
    fn message(&self) -> Result<Vec<u8>, JsonError> {
        Ok([DOMAIN, &json::to_canonical(self)?].concat())
    }

    const fn span(&self) -> Result<(), PermitError> {
        match self.expires.0.checked_sub(self.not_before.0) {
            Some(1..=MAX_AGE) => Ok(()),
            Some(_) | None => Err(PermitError::Span),
        }
    }
}

/// A permit that the gate signed, for this vault, this run and now. The vault still has to see
/// that its nonce is new, its session open and under that policy, and its call the one beside it.
///
/// ```compile_fail,E0451
/// # fn forge(permit: gate::permit::Permit) {
/// let forged = gate::permit::Verified { permit };
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verified {
    permit: Permit,
}

/// Verifies the signed form of a permit.
///
/// # Errors
/// When one byte of it is not as the gate signed it, or it is not for this vault, this run or now.
pub fn verify(bytes: &[u8], key: &VerifyingKey, expect: &Expect) -> Result<Verified, PermitError> {
    let Signed { permit, signature } = json::from_canonical(bytes, &LIMITS)?;
    let mut raw = [0; Signature::BYTE_SIZE];
    hex::decode_to_slice(&signature, &mut raw).map_err(|_not_hex| PermitError::Signature)?;
    if signature.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(PermitError::Signature);
    }
    let signed = key.verify_strict(&permit.message()?, &Signature::from_bytes(&raw));
    if signed.is_err() && !Mutant::VaultPermitSignature.is_on() {
        return Err(PermitError::Signature);
    }
    if permit.format != FORMAT {
        return Err(PermitError::Format {
            found: permit.format,
        });
    }
    if permit.audience != expect.audience {
        return Err(PermitError::Audience);
    }
    if permit.epoch.0 != expect.epoch {
        return Err(PermitError::Epoch);
    }
    permit.span()?;
    if expect.now_boot_ns < permit.not_before.0 {
        return Err(PermitError::TooEarly);
    }
    if expect.now_boot_ns >= permit.expires.0 {
        return Err(PermitError::Expired);
    }
    Ok(Verified { permit })
}

impl Verified {
    /// Reads the call beside the permit, and holds it to the permit: its digest is taken again.
    ///
    /// # Errors
    /// When `bytes` is no call in RFC 8785 form, or another than the permit binds.
    pub fn admit(&self, bytes: &[u8]) -> Result<Call, PermitError> {
        let call = Call::from_bytes(bytes).map_err(PermitError::CallForm)?;
        if Call::digest_of(bytes) != self.permit.call || call.tool != self.permit.tool {
            return Err(PermitError::Call);
        }
        Ok(call)
    }

    /// The digest of the statement that a reviewer signed, if the gate names one.
    pub const fn approval(&self) -> Option<Digest> {
        self.permit.approval
    }

    /// The digest of the call.
    pub const fn call(&self) -> Digest {
        self.permit.call
    }

    /// The credential that the gate says it is performed with; the vault takes the policy's word.
    pub const fn credential(&self) -> &CredentialLabel {
        &self.permit.credential
    }

    /// The digest of the decision's record.
    pub const fn decision(&self) -> Digest {
        self.permit.decision
    }

    /// Until when it is good, in nanoseconds of CLOCK_BOOTTIME: a nonce is kept until then.
    pub const fn expires(&self) -> u64 {
        self.permit.expires.0
    }

    /// What it is good for, if it is a lease; none for an effect.
    pub const fn lease(&self) -> Option<&Lease> {
        self.permit.lease.as_ref()
    }

    /// What the call means, in the gate's word.
    pub const fn meaning(&self) -> &Meaning {
        &self.permit.meaning
    }

    /// What makes it single.
    pub const fn nonce(&self) -> [u8; 16] {
        self.permit.nonce.0
    }

    /// The policy that was decided by.
    pub const fn policy(&self) -> Digest {
        self.permit.policy
    }

    /// The position of the decision's record.
    pub const fn position(&self) -> u64 {
        self.permit.position
    }

    /// The session.
    pub const fn session(&self) -> SessionId {
        self.permit.session
    }

    /// The tool.
    pub const fn tool(&self) -> &ToolName {
        &self.permit.tool
    }
}

//! The statement: what a reviewer signs.
//!
//! RFC 8785 JSON, one form for one meaning, signed as it stands with `ssh-keygen -Y sign -n
//! custody-approval@v1`. It names everything that it is good for and nothing else: one call by its
//! digest, the record that holds it, its session and policy, one run of one vault, one span of time.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Reach, Scope};
use crate::{
    chain::Place,
    digest::{Digest, Domain},
    id::{SessionId, ToolName},
    json::{self, JsonError, Limits},
    mutant::Mutant,
    nonce::Nonce,
};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// The namespace of its signature (SSHSIG): one of another namespace is none.
pub const NAMESPACE: &str = "custody-approval@v1";

/// The longest that a statement is good for, in milliseconds: a day, as long as a call may wait.
pub const LIFE_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How much a statement may hold; it is some 900 bytes long.
const LIMITS: Limits = Limits {
    bytes: 4 << 10,
    depth: 3,
    nodes: 64,
};

/// What a reviewer signs.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The vault: the digest of its receipt key.
    pub audience: Digest,
    /// The call's digest, taken by the reviewer's own program from the bytes that it showed.
    pub call: Digest,
    /// The record that holds the call.
    pub decision: Place,
    /// The vault's run: the statement ends with it.
    pub epoch: Nonce,
    /// Until when it is good, exclusive, in milliseconds since 1970.
    pub expires: u64,
    /// The version of the format.
    pub format: u32,
    /// Drawn at random, never twice: what makes it single.
    pub nonce: Nonce,
    /// The policy's digest.
    pub policy: Digest,
    /// How far it goes.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: ToolName,
}

/// What a statement must say, by what its reader knows.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'a> {
    /// The vault.
    pub audience: Digest,
    /// Its run.
    pub epoch: Nonce,
    /// The call.
    pub call: Digest,
    /// The session.
    pub session: SessionId,
    /// The session's policy.
    pub policy: Digest,
    /// The call's tool.
    pub tool: &'a ToolName,
    /// Now, in milliseconds since 1970, by a clock that does not run back.
    pub now_ms: u64,
}

/// Why a statement does not let a call through.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StatementError {
    /// For another vault.
    #[error("the statement is for another vault")]
    Audience,
    /// Of another call.
    #[error("the statement is of another call")]
    Call,
    /// Of another decision.
    #[error("the statement is of another decision than the one that holds the call")]
    Decision,
    /// For another run of the vault.
    #[error("the statement is for an earlier run of the vault; have the call shown again and sign")]
    Epoch,
    /// Too late.
    #[error("the statement expired")]
    Expired,
    /// A format that this version does not know.
    #[error("the statement has format {found}; this version reads format {FORMAT}")]
    Format {
        /// Its format.
        found: u32,
    },
    /// Not of the form.
    #[error("the statement cannot be read: {0}")]
    Json(JsonError),
    /// It would be good for longer than any statement.
    #[error("the statement is good for more than {} hours", LIFE_MAX / 3_600_000)]
    Life,
    /// Of another policy.
    #[error("the statement is of another policy than the session's")]
    Policy,
    /// More than one call.
    #[error(
        "the statement is for more than one call; each call that is signed for is signed alone"
    )]
    Reach,
    /// Of another session.
    #[error("the statement is of another session")]
    Session,
    /// Of another tool.
    #[error("the statement is of another tool")]
    Tool,
}

impl From<JsonError> for StatementError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl Statement {
    /// The statement in RFC 8785 form: what is signed.
    ///
    /// # Errors
    /// When a number in it has no exact JSON form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StatementError> {
        Ok(json::to_canonical(self)?)
    }

    /// Reads a statement, strictly: of one statement there is one text.
    ///
    /// # Errors
    /// When `bytes` is not exactly what [`Statement::to_bytes`] writes, or of another format.
    pub fn read(bytes: &[u8]) -> Result<Self, StatementError> {
        let read: Self = json::from_canonical(bytes, &LIMITS)?;
        // What serde fills in where it is missing was not signed.
        if read.to_bytes()? != bytes {
            return Err(StatementError::Json(JsonError::NotCanonical));
        }
        if read.format != FORMAT {
            return Err(StatementError::Format { found: read.format });
        }
        Ok(read)
    }

    /// The digest of a statement's RFC 8785 form: what permits, records and receipts name it by.
    pub fn digest_of(bytes: &[u8]) -> Digest {
        Digest::of(Domain::Approval, bytes)
    }

    /// Holds the statement to one call: for what is signed for, each call is signed alone.
    ///
    /// # Errors
    /// When it is for more.
    pub fn is_single(&self) -> Result<(), StatementError> {
        match self.scope.reach {
            Reach::Once => Ok(()),
            Reach::Call | Reach::Target => Err(StatementError::Reach),
        }
    }

    /// Holds the statement to what its reader knows.
    ///
    /// # Errors
    /// When it is for anything else, or not good now.
    pub fn admit(&self, expect: &Expect<'_>) -> Result<(), StatementError> {
        if self.audience != expect.audience {
            return Err(StatementError::Audience);
        }
        if self.epoch != expect.epoch {
            return Err(StatementError::Epoch);
        }
        if self.session != expect.session {
            return Err(StatementError::Session);
        }
        if self.policy != expect.policy {
            return Err(StatementError::Policy);
        }
        if self.tool != *expect.tool {
            return Err(StatementError::Tool);
        }
        if self.call != expect.call && !Mutant::VaultApprovalCall.is_on() {
            return Err(StatementError::Call);
        }
        let until = self.scope.until.unwrap_or(u64::MAX).min(self.expires);
        if until.saturating_sub(expect.now_ms) > LIFE_MAX {
            return Err(StatementError::Life);
        }
        if expect.now_ms >= until {
            return Err(StatementError::Expired);
        }
        Ok(())
    }
}

//! Intents and receipts: the vault's chain.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Body, Streamed, UnixMillis, Verification, Why};
use crate::{
    chain::{ChainName, Place},
    digest::Digest,
    id::{CredentialLabel, SessionId, ToolName},
    json::Value,
    nonce::Nonce,
    permit::Verified,
};

/// A line of the vault's chain.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// An effect that is not idempotent is about to be performed, or a lease to be opened. If no receipt
    /// names this line, the effect is in doubt.
    Intent {
        /// When.
        at: UnixMillis,
        /// The complete call, where the effect can be read back by nothing else: after a crash the
        /// next run of the vault looks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Value>,
        /// What is performed.
        effect: Bound,
    },
    /// What came of it.
    Receipt {
        /// When.
        at: UnixMillis,
        /// What was performed.
        effect: Bound,
        /// The intent, where there was one.
        intent: Option<Place>,
        /// What came of it.
        outcome: Outcome,
    },
    /// The vault started. Every permit of an earlier run is void.
    Started {
        /// When.
        at: UnixMillis,
        /// The run, as permits name it.
        epoch: Nonce,
        /// Earlier intents of which it is not known yet what came: each is read back, and then has its
        /// receipt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open: Vec<Place>,
        /// The program's version.
        version: String,
    },
}

impl Body for Effect {
    const CHAIN: ChainName = ChainName::Receipts;
}

/// What an effect is bound to.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The statement that the permit names, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The call's digest.
    pub call: Digest,
    /// The credential's label.
    pub credential: CredentialLabel,
    /// The record of the decision that it rests on.
    pub decision: Place,
    /// The permit's nonce.
    pub nonce: Nonce,
    /// The policy's digest.
    pub policy: Digest,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: ToolName,
}

/// The approval that an effect rests on beside the permit.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The fingerprint of the reviewer's key, once the vault has verified the statement's signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The statement's digest.
    pub statement: Digest,
}

impl Bound {
    /// What `permit` binds.
    pub fn of(permit: &Verified) -> Self {
        Self {
            approval: permit.approval().map(|statement| Approval {
                key: None,
                statement,
            }),
            call: permit.call(),
            credential: permit.credential().clone(),
            decision: Place {
                position: permit.position(),
                digest: permit.decision(),
            },
            nonce: Nonce(permit.nonce()),
            policy: permit.policy(),
            session: permit.session(),
            tool: permit.tool().clone(),
        }
    }
}

/// What came of an effect.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// The server answered.
    Done {
        /// How many bytes the result has.
        bytes: u64,
        /// What was looked at before it was done.
        #[serde(default, skip_serializing_if = "Freshness::is_unchecked")]
        freshness: Freshness,
        /// The result's digest, after scrubbing.
        result: Digest,
        /// How many times the credential stood in the answer and was taken out.
        scrubbed: u32,
        /// The status code.
        status: u16,
        /// What reading it back came to.
        #[serde(default, skip_serializing_if = "Verification::is_unsupported")]
        verification: Verification,
    },
    /// Nothing was sent.
    Failed {
        /// Why.
        why: Why,
    },
    /// Reading back shows the effect; what the server answered is not known.
    Found {
        /// What reading back came to.
        verification: Verification,
        /// Why there is no answer.
        why: Why,
    },
    /// The effect may have happened.
    InDoubt {
        /// What reading back came to: it could not decide.
        #[serde(default, skip_serializing_if = "Verification::is_unsupported")]
        verification: Verification,
        /// Why.
        why: Why,
    },
    /// Reading back shows that the effect did not happen, after the time in which it would have shown.
    NotFound {
        /// What reading back came to.
        verification: Verification,
        /// Why there is no answer.
        why: Why,
    },
    /// The vault did not act on the permit.
    Refused {
        /// Why.
        why: Why,
    },
    /// The world is no longer what the call rests on: nothing was done.
    Stale {
        /// Why.
        why: Why,
    },
    /// A lease was opened, and is over.
    Streamed(Streamed),
}

/// What was looked at before an effect was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Freshness {
    /// The request was conditional: a target that keeps to RFC 9110 looked in the moment in which it
    /// acted.
    Closed,
    /// It was read right before. Between the end of that read and the moment in which the request was
    /// given to its connection there were so many milliseconds, rounded up.
    Narrowed {
        /// How many.
        ms: u64,
    },
    /// Nothing.
    #[default]
    Unchecked,
}

impl Freshness {
    /// Whether nothing was looked at.
    pub fn is_unchecked(&self) -> bool {
        *self == Self::Unchecked
    }
}

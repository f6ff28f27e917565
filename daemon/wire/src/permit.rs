//! gate ↔ vault: permits, and what came of them.

use gate::{
    digest::Digest,
    record::{Freshness, Streamed, Verification},
};
use serde::{Deserialize, Serialize};

use crate::{
    Message,
    agent::{ARGUMENTS_CAP, RESULT_CAP},
    session::Signed,
};

/// gate → vault.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Decision records up to this position are on disk. Before that, no effect that is not
    /// idempotent is performed.
    Durable {
        /// The position.
        position: u64,
    },
    /// The first message: the permit key of this run of the gate. A second one ends the channel.
    Hello {
        /// Ed25519 public key (RFC 8032).
        permit_key: [u8; 32],
    },
    /// Perform what the permit binds.
    Perform {
        /// Numbered by the gate; the answer carries it.
        number: u64,
        /// The permit in its signed form (`gate::permit`).
        permit: Vec<u8>,
        /// The complete call in RFC 8785 form. The vault takes its digest itself.
        call: Vec<u8>,
        /// The statement that a reviewer signed, where the call's tool needs one.
        approval: Option<Signed>,
    },
}

impl Message for Request {
    const CAP: usize = ARGUMENTS_CAP + (64 << 10);
    const KIND: u8 = 40;
}

/// vault → gate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Answer {
    /// The effect was performed. The receipt is written.
    Done {
        /// Of which request.
        number: u64,
        /// The receipt's digest in the vault's chain.
        receipt: Digest,
        /// What the effect answered, scrubbed of the credential.
        result: Vec<u8>,
        /// The status of the effect (HTTP: the status code).
        status: u16,
        /// The media type that the effect named, if any.
        media_type: Option<String>,
        /// What reading it back came to.
        verification: Verification,
        /// What was looked at before it was done.
        freshness: Freshness,
    },
    /// The permit was good, and the effect failed or may not have happened.
    Failed {
        /// Of which request.
        number: u64,
        /// The receipt's digest in the vault's chain.
        receipt: Digest,
        /// Why.
        why: String,
        /// The effect may have happened.
        in_doubt: bool,
        /// What reading it back came to: where that is verified, it happened.
        verification: Verification,
    },
    /// The first message: what permits must name.
    Hello {
        /// This vault: the digest of its receipt key.
        audience: Digest,
        /// This run of the vault, drawn at random.
        epoch: [u8; 16],
    },
    /// A lease is opened: its server has answered. Beside it: the descriptor over which the body comes, for
    /// the front. [`Answer::Streamed`] follows.
    Opened {
        /// Of which request.
        number: u64,
        /// The status of the effect (HTTP: the status code).
        status: u16,
    },
    /// The vault did not act on the permit.
    Refused {
        /// Of which request.
        number: u64,
        /// Why.
        why: String,
    },
    /// A lease that was opened is over. The receipt is written.
    Streamed {
        /// Of which request.
        number: u64,
        /// The receipt's digest in the vault's chain.
        receipt: Digest,
        /// What came over it.
        stream: Streamed,
    },
}

impl Message for Answer {
    const CAP: usize = RESULT_CAP + (64 << 10);
    const KIND: u8 = 41;
}

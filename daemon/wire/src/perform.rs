//! vault ↔ effect: one credential, then rendered effects. And the roles without a credential: resolver,
//! and verifier.

use std::net::{IpAddr, SocketAddr};

use gate::{
    digest::Digest,
    id::{CredentialLabel, SessionId},
    record::Ended,
};
use serde::{Deserialize, Serialize};

use crate::{
    Message,
    agent::{ARGUMENTS_CAP, RESULT_CAP},
};

/// The descriptor of this channel in an effect worker, in the resolver and in a verifier.
pub const CHANNEL_FD: i32 = 3;

/// vault → effect.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// No more of a stream.
    Cut {
        /// Of which request.
        number: u64,
    },
    /// The first message. Beside it: a descriptor from which the credential is read, once.
    Hello {
        /// For which session.
        session: SessionId,
        /// Which credential.
        label: CredentialLabel,
        /// How the connector puts it in.
        placement: Placement,
    },
    /// Perform one HTTP request (RFC 9110). Redirects are not followed.
    Http {
        /// Numbered by the vault.
        number: u64,
        /// The request, without the credential.
        request: Http,
    },
    /// Perform one HTTP request, and hand on the answer's body as it comes. Beside it: the descriptor to
    /// which it is written.
    Stream {
        /// Numbered by the vault.
        number: u64,
        /// The request, without the credential.
        request: Http,
    },
}

/// How an HTTP credential is put in.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Placement {
    /// In a header field: its name, and what stands before the secret (`Bearer `).
    Header {
        /// The field's name, lower case.
        name: String,
        /// What stands before the secret.
        prefix: String,
    },
}

/// A request, rendered by the vault from the permitted call, checked against the floor.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Http {
    /// The method.
    pub method: String,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The host, as in the URL: for the `Host` field and the certificate.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The addresses that were resolved and checked; no other is connected to.
    pub addresses: Vec<SocketAddr>,
    /// Path and query, percent-encoded (RFC 3986).
    pub target: String,
    /// Header fields: name in lower case, value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Until the whole answer is here, in milliseconds.
    pub timeout_ms: u32,
    /// The most bytes of the answer's body.
    pub answer_cap: u32,
}

impl Message for Request {
    const CAP: usize = ARGUMENTS_CAP * 2 + (64 << 10);
    const KIND: u8 = 50;
}

/// effect → vault.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Answer {
    /// The server answered, whatever the status.
    Done {
        /// Of which request.
        number: u64,
        /// The status code.
        status: u16,
        /// The media type, if the server named one.
        media_type: Option<String>,
        /// The body, scrubbed of the credential.
        body: Vec<u8>,
        /// How many times the credential stood in the answer and was taken out.
        scrubbed: u32,
        /// The strong entity tag, if the server named one (RFC 9110, section 8.8.3).
        etag: Option<String>,
        /// When the request was given to its connection and when the answer was whole, in
        /// nanoseconds of CLOCK_BOOTTIME.
        span: (u64, u64),
    },
    /// No whole answer.
    Failed {
        /// Of which request.
        number: u64,
        /// Why; the credential is never in it.
        why: String,
        /// Whether a byte of the request was on its way: then the effect may have happened.
        sent: bool,
    },
    /// The head of a stream's answer is here; its body follows over the descriptor.
    Opened {
        /// Of which request.
        number: u64,
        /// The status code.
        status: u16,
    },
    /// The credential was read and is usable.
    Ready,
    /// A stream that is opened is over.
    Streamed {
        /// Of which request.
        number: u64,
        /// What was handed on.
        passed: Passed,
        /// How it ended.
        ended: Ended,
    },
    /// So much of a stream was handed on, and it goes on.
    Streaming {
        /// Of which request.
        number: u64,
        /// What was handed on.
        passed: Passed,
    },
}

/// What was handed on of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Passed {
    /// How many bytes, after scrubbing.
    pub bytes: u64,
    /// How many times the credential stood in them and was taken out.
    pub scrubbed: u32,
    /// Their SHA-256.
    pub sha256: Digest,
}

impl Message for Answer {
    const CAP: usize = RESULT_CAP + (64 << 10);
    const KIND: u8 = 51;
}

/// vault → verifier, once: run the policy's program.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Check {
    /// What it reads on standard input (`gate::readback::told`).
    pub told: Vec<u8>,
    /// How long it may take, in milliseconds; then it is killed.
    pub timeout_ms: u32,
}

impl Message for Check {
    const CAP: usize = ARGUMENTS_CAP * 2 + (64 << 10);
    const KIND: u8 = 54;
}

/// verifier → vault: how the program ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Checked {
    /// By itself.
    Exited {
        /// Its exit status.
        status: u8,
        /// What it wrote on standard error, at most [`CHECKED_WORDS_MAX`] bytes: for the operator's log, and
        /// for nobody else.
        words: Vec<u8>,
    },
    /// It did not, and says nothing.
    Failed {
        /// Why.
        why: String,
    },
}

/// The most bytes of a verifying program's standard error that are kept.
pub const CHECKED_WORDS_MAX: usize = 1 << 10;

impl Message for Checked {
    const CAP: usize = 8 << 10;
    const KIND: u8 = 55;
}

/// vault → resolver.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Resolve {
    /// Numbered by the vault.
    pub number: u64,
    /// The host name.
    pub host: String,
}

impl Message for Resolve {
    const CAP: usize = 1 << 10;
    const KIND: u8 = 52;
}

/// resolver → vault.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Resolved {
    /// Of which request.
    pub number: u64,
    /// The addresses, or why there are none.
    pub addresses: Result<Vec<IpAddr>, String>,
}

impl Message for Resolved {
    const CAP: usize = 4 << 10;
    const KIND: u8 = 53;
}

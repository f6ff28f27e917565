//! What is recorded of a lease: its opening before the first byte, and its end.

use serde::{Deserialize, Serialize};

use super::Why;
use crate::{
    digest::Digest,
    lease::Lease,
    policy::{Label, Tool},
};

/// A lease that is opened.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// Whose words its bytes are taken for.
    pub label: Label,
    /// What it is good for.
    pub lease: Lease,
}

impl Opening {
    /// What a call of this tool opens; none where its answer is released whole.
    pub fn of(tool: &Tool) -> Option<Self> {
        Lease::of(&tool.request).map(|lease| Self {
            label: if tool.result.taints() {
                Label::Untrusted
            } else {
                Label::Trusted
            },
            lease,
        })
    }
}

/// What came over a lease.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Streamed {
    /// How many bytes were handed on, after scrubbing. Of a stream that was cut: as far as its worker had
    /// come to say so; what it handed on after its last word is not counted.
    pub bytes: u64,
    /// How it ended.
    pub ended: Ended,
    /// How many times the credential stood in the body and was taken out.
    pub scrubbed: u32,
    /// SHA-256 of those bytes, without a domain: what `sha256sum` says of them.
    pub sha256: Digest,
    /// The status of the effect (HTTP: the status code).
    pub status: u16,
}

/// How a stream ended.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ended {
    /// Something of ours ended it: a revocation, the session's end, a program's end.
    Cut {
        /// What.
        why: Why,
    },
    /// Whoever read it left.
    Reader,
    /// The server broke off, or did not keep to the protocol.
    Server {
        /// How.
        why: Why,
    },
    /// It had more bytes than its lease.
    Size,
    /// It took longer than its lease.
    Time,
    /// It came whole.
    Whole,
}

impl Ended {
    /// How, in words for whoever reads it.
    pub fn in_words(&self) -> &str {
        match self {
            Self::Cut { why } | Self::Server { why } => why.as_str(),
            Self::Reader => "its reader left",
            Self::Size => "it has more bytes than its lease",
            Self::Time => "it took longer than its lease",
            Self::Whole => "it is whole",
        }
    }
}

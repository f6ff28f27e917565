//! Leases: the kind of permit under which an answer is handed on while it comes.
//!
//! A lease binds the head of its request, every argument byte, as any permit does. Of the body it
//! binds what can be bound before it is there: where it comes from, how much of it, and until when.

use serde::{Deserialize, Serialize};

use crate::{origin::Origin, request::Template};

/// What a lease is good for.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The most bytes of the body, as the server sends it.
    pub bytes: u32,
    /// How long it is read, in milliseconds.
    pub ms: u32,
    /// Scheme, host and port that it is read from.
    pub origin: Origin,
}

impl Lease {
    /// What a call by this template needs; none where its answer is released whole.
    pub fn of(template: &Template) -> Option<Self> {
        template.stream.then(|| Self {
            bytes: template.answer_max_bytes,
            ms: template.timeout_ms,
            origin: template.origin.clone(),
        })
    }
}

//! control ↔ gate: opening and closing a session, and the trusted values that it has.
//!
//! Trusted values come over this border alone, never from the agent.

use std::collections::BTreeMap;

use gate::id::{OwnedName, PolicyName, SessionId, ValueName};
use serde::{Deserialize, Serialize};

use crate::Message;

/// control → gate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Open a session before it is launched.
    Open(Open),
    /// The session did not start, or is over.
    Close {
        /// Which.
        session: SessionId,
    },
}

/// What a session starts with.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Open {
    /// Which; drawn by control.
    pub session: SessionId,
    /// Its policy.
    pub policy: PolicyName,
    /// Who asked for it (SO_PEERCRED at the operator's socket).
    pub caller_uid: u32,
    /// Trusted values, as text; the policy says each one's type.
    pub values: BTreeMap<ValueName, String>,
    /// Owned sets: values that the application holds for the subject.
    pub owned: BTreeMap<OwnedName, Vec<String>>,
    /// What the person asked for: authoritative text.
    pub task: Option<String>,
    /// Whether the session has a workspace; one that the policy does not label taints it.
    pub workspace: bool,
}

impl Message for Request {
    const CAP: usize = 1 << 20;
    const KIND: u8 = 20;
}

/// gate → control, in the order of the requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Answer {
    /// Done.
    Done,
    /// The session is not opened.
    Refused {
        /// Why: an unknown policy or value name, a value that does not parse.
        why: String,
    },
}

impl Message for Answer {
    const CAP: usize = 16 << 10;
    const KIND: u8 = 21;
}

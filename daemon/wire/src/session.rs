//! control ↔ gate: opening and closing a session, and the trusted values that it has.
//!
//! Trusted values come over this border alone, never from the agent.

use std::collections::{BTreeMap, BTreeSet};

use gate::id::{OwnedName, PolicyName, RoleName, SessionId, ValueName};
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
    /// What the session's application says to it.
    Tell {
        /// Which.
        session: SessionId,
        /// What.
        told: Told,
    },
}

/// What an application says to a session of its own.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Told {
    /// Somebody passed this on: JSON, an object of four texts. Whoever wrote it, it taints.
    Handoff(Vec<u8>),
    /// The person or the operator says this: it is authoritative.
    Message(String),
    /// No more than this is needed any longer: JSON, a `gate::session::Scope`.
    Narrow(Vec<u8>),
    /// The turn is over: what was deferred is decided on.
    TurnEnd,
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
    /// The roles that it has.
    pub roles: BTreeSet<RoleName>,
    /// What the task needs, if not all that the policy has: JSON, a `gate::session::Scope`.
    pub scope: Option<Vec<u8>>,
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

//! control ↔ gate: opening and closing a session, the trusted values that it has, and what people
//! answer to its calls that wait.
//!
//! Trusted values and approvals come over this border alone, never from the agent.

use std::collections::{BTreeMap, BTreeSet};

use gate::{
    approval::{Needs, Scope},
    chain::Place,
    digest::Digest,
    id::{
        ArgumentName, OwnedName, PolicyName, RoleName, SessionId, TenantName, ToolName, ValueName,
    },
    meaning::Subject,
    nonce::Nonce,
    policy::Boundary,
};
use serde::{Deserialize, Serialize};

use crate::Message;

/// control → gate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// What a reviewer says to a call that waits. Done means that it is recorded; what comes of the
    /// call is said by [`Answer::Over`].
    Answer(Answered),
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
    /// The session that it is delegated from, and what of it is given. Subject, tenant and trusted values
    /// are that one's then, and none is said here.
    pub from: Option<Part>,
    /// Trusted values, as text; the policy says each one's type.
    pub values: BTreeMap<ValueName, String>,
    /// Owned sets: values that the application holds for the subject. Of a delegated session: those
    /// members that are given; a set that is not named is given whole.
    pub owned: BTreeMap<OwnedName, Vec<String>>,
    /// The roles that it has. Of a delegated session: those at most.
    pub roles: BTreeSet<RoleName>,
    /// What the task needs, if not all that the policy has: JSON, a `gate::session::Scope`.
    pub scope: Option<Vec<u8>>,
    /// The end user for whom it works.
    pub subject: Option<Subject>,
    /// What the person asked for: authoritative text.
    pub task: Option<String>,
    /// In whose name it works.
    pub tenant: Option<TenantName>,
    /// Whether the session has a workspace; one that the policy does not label taints it.
    pub workspace: bool,
}

/// The most sessions that one is delegated from: each is asked about every call, and named in its
/// record.
pub const ABOVE_MAX: usize = 8;

/// What a session is given of another. What is not said is given whole.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Part {
    /// Of which.
    pub session: SessionId,
    /// How far the data reach.
    pub boundary: Option<Boundary>,
    /// The roles.
    pub roles: Option<BTreeSet<RoleName>>,
    /// The trusted values.
    pub values: Option<BTreeSet<ValueName>>,
}

impl Message for Request {
    const CAP: usize = 1 << 20;
    const KIND: u8 = 20;
}

/// What a reviewer says. Control has seen who he is and that he may, and it keeps the answer.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Answered {
    /// The session whose call it is.
    pub session: SessionId,
    /// What the call is called: the position of the record that holds it.
    pub pending: u64,
    /// The digest of the call that was shown to him, taken by his own program.
    pub digest: Digest,
    /// Who.
    pub reviewer: Reviewer,
    /// What.
    pub verdict: Verdict,
}

/// Who answers.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Reviewer {
    /// His uid (SO_PEERCRED at the operator's socket).
    pub uid: u32,
    /// The fingerprint of the key that the statement says it is signed with, as control found it: for
    /// readers. The vault verifies for itself.
    pub key: Option<String>,
}

/// What a reviewer decides.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Verdict {
    /// It may be performed.
    Approve {
        /// Once, or more often.
        scope: Scope,
        /// The statement that he signed, where the tool needs it.
        signed: Option<Signed>,
    },
    /// Nobody is asked: control cannot keep the call, or its session has asked too much. It waits no
    /// longer, and may be asked for again.
    Lapse {
        /// Why. The agent is told.
        why: String,
    },
    /// It may not.
    Refuse {
        /// Why, in his words. The agent is told.
        why: String,
    },
}

/// A statement with a reviewer's signature.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Signed {
    /// The statement (`gate::approval::Statement`), in RFC 8785 form.
    pub statement: Vec<u8>,
    /// The armoured signature, as `ssh-keygen -Y sign` writes it (SSHSIG).
    pub signature: Vec<u8>,
}

impl Signed {
    /// The most bytes that either part has.
    pub const PART_MAX: usize = 8 << 10;
}

/// gate → control: the answers in the order of the requests, and between them what nobody asked for
/// ([`Answer::Current`], [`Answer::Over`] and [`Answer::Waits`]).
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Answer {
    /// Unasked, once on each channel: every call that waited when the channel was made has been said.
    /// What control keeps of open sessions and was not said waits no longer.
    Current,
    /// Done.
    Done,
    /// What a reviewer said does not count.
    NotAnswered {
        /// Why.
        why: String,
        /// What became of the call. None where it waits as before: nothing of the answer was recorded or
        /// used, and another may come.
        outcome: Option<Outcome>,
    },
    /// Unasked: a call waits for a person no longer. Said again to a control that is new, also of calls
    /// that it never heard of.
    Over(Over),
    /// It is not done.
    Refused {
        /// Why: an unknown policy or value name, a value that does not parse, a call that does not
        /// wait.
        why: String,
    },
    /// Unasked: a call waits for a person. Said again to a control that is new, and whenever something
    /// of it has changed; the newest counts.
    Waits(Box<Waits>),
}

impl Answer {
    /// Whether it answers a request.
    pub const fn is_asked(&self) -> bool {
        match self {
            Self::Done | Self::NotAnswered { .. } | Self::Refused { .. } => true,
            Self::Current | Self::Over(_) | Self::Waits(_) => false,
        }
    }
}

/// What the gate says that nobody asked for.
#[derive(Clone, Debug)]
pub enum Unasked {
    /// Every call that waited when the channel was made has been said.
    Current,
    /// A call waits no longer.
    Over(Over),
    /// A call waits, or something of it is new.
    Waits(Box<Waits>),
}

/// A call that waits for a person: everything that he is shown.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Waits {
    /// The session whose call it is.
    pub session: SessionId,
    /// The sessions that it was delegated from, the nearest first; a row of an older store has none.
    #[serde(default)]
    pub from: Vec<SessionId>,
    /// The record that holds it. Its position is what the call is called.
    pub decision: Place,
    /// The digest of the call: what an approval binds.
    pub digest: Digest,
    /// The complete call in RFC 8785 form. Whoever approves it takes the digest of these bytes himself
    /// (`gate::call::Call::digest_of`).
    pub call: Vec<u8>,
    /// Its tool.
    pub tool: ToolName,
    /// The name of its session's policy.
    pub policy: PolicyName,
    /// The policy's digest.
    pub policy_hash: Digest,
    /// Who asked for the session.
    pub caller_uid: u32,
    /// What he asked for, if he said so.
    pub task: Option<String>,
    /// Since when it waits, in milliseconds since 1970.
    pub since: u64,
    /// Until when it waits, in milliseconds since 1970.
    pub expires: u64,
    /// What it takes to approve it.
    pub needs: Needs,
    /// What a signed statement must name; none while the vault is not there.
    pub vault: Option<VaultRun>,
    /// Why it waits, in the order of the rules.
    pub reasons: Vec<Reason>,
    /// Each argument, and where its value comes from.
    pub values: Vec<Valued>,
    /// What the call does to the world, in the policy's words.
    pub classes: Vec<String>,
    /// What is at stake, in the policy's word.
    pub risk: String,
    /// Why the session is tainted; empty if it is not.
    pub taint: Vec<String>,
}

/// One run of one vault.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct VaultRun {
    /// The vault: the digest of its receipt key.
    pub audience: Digest,
    /// The run: a statement is void when it ends.
    pub epoch: Nonce,
}

/// Why a call waits.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Reason {
    /// The rule, by its stable name.
    pub rule: String,
    /// Which argument, if one.
    pub argument: Option<ArgumentName>,
    /// Why.
    pub why: String,
    /// What would change it.
    pub change: String,
}

/// What is known of an argument of a call that waits.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Valued {
    /// Which.
    pub argument: ArgumentName,
    /// What it is to the effect: `identifier`, `payload`, `sink` or `typed`.
    pub role: String,
    /// Who authored it, in words.
    pub authority: String,
    /// Where its value comes from; of several values, the worst. None where nobody had to ask.
    pub origin: Option<String>,
    /// What said the value: a few of the places.
    pub said_by: Vec<SaidBy>,
}

/// A place that said a value.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct SaidBy {
    /// Which.
    pub place: String,
    /// The text around it, where it is kept.
    pub excerpt: Option<String>,
}

/// A call waits for a person no longer.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Over {
    /// The session whose call it was.
    pub session: SessionId,
    /// What it was called.
    pub pending: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a call that waited for a person.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Outcome {
    /// It was approved and performed.
    Done {
        /// The status of the effect (HTTP: the status code).
        status: u16,
    },
    /// It was approved, and nothing was done.
    Failed {
        /// Why.
        why: String,
    },
    /// It was approved, and it may have been performed.
    InDoubt {
        /// Why.
        why: String,
    },
    /// Nobody answered in its time, or its session ended.
    Lapsed {
        /// Why.
        why: String,
    },
    /// A reviewer refused it, or it was refused when it was decided on again.
    Refused {
        /// Why.
        why: String,
    },
}

impl Message for Answer {
    const CAP: usize = 1 << 20;
    const KIND: u8 = 21;
}

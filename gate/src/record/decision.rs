//! Decision records: the gate's chain.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::{Body, Opening, Reviewer, SignedStatement, Streamed, UnixMillis, Verification, Why};
use crate::{
    approval,
    chain::{ChainName, Place},
    decide::{Allowed, Grounds, Held, Reason, Refusal, Rule},
    digest::{Digest, Domain},
    id::{
        ArgumentName, CredentialLabel, OwnedName, PolicyName, RoleName, SessionId, TenantName,
        ToolName, ValueName,
    },
    json::Value,
    meaning::{Meaning, Subject},
    policy::{Label, Policy},
    session::{Facts, Scope, Taint},
};

/// A decision record, by the gate.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// A call was allowed; a permit that rests on this record follows.
    Allowed {
        /// When.
        at: UnixMillis,
        /// The complete call.
        call: Value,
        /// The credential that it is performed with.
        credential: CredentialLabel,
        /// The call's digest.
        digest: Digest,
        /// The sessions that this one was delegated from, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<SessionId>,
        /// What the decision rests on.
        grounds: Grounds,
        /// What the call means, and on whose word.
        meaning: Meaning,
        /// The lease that it opens, if it does: its label is written here, and is on disk, before a byte
        /// reaches the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opens: Option<Opening>,
        /// The policy's digest.
        policy: Digest,
        /// The session.
        session: SessionId,
    },
    /// A reviewer approved a held call. A record of what came of it follows.
    Approved {
        /// When.
        at: UnixMillis,
        /// The call's digest, as the reviewer's program took it.
        call: Digest,
        /// The record that held it.
        decision: Place,
        /// Who.
        reviewer: Reviewer,
        /// How far the approval goes.
        scope: approval::Scope,
        /// The session.
        session: SessionId,
        /// What he signed, if he did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed: Option<SignedStatement>,
    },
    /// A session is over.
    Closed {
        /// When.
        at: UnixMillis,
        /// The session.
        session: SessionId,
        /// Why.
        why: Why,
    },
    /// A call is decided at the end of its turn; nothing was performed.
    Deferred {
        /// When.
        at: UnixMillis,
        /// The complete call.
        call: Value,
        /// The call's digest.
        digest: Digest,
        /// The sessions that this one was delegated from, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<SessionId>,
        /// What the decision rests on.
        grounds: Grounds,
        /// What the call means, and on whose word.
        meaning: Meaning,
        /// The policy's digest.
        policy: Digest,
        /// Why.
        reasons: Vec<Reason>,
        /// The session.
        session: SessionId,
    },
    /// The effect was performed. The result is recorded here before it is released to the agent.
    Done {
        /// When.
        at: UnixMillis,
        /// How many bytes the result has.
        bytes: u64,
        /// The call's digest.
        call: Digest,
        /// The record of the decision.
        decision: Place,
        /// Whose words the result is taken for.
        label: Label,
        /// The receipt's digest.
        receipt: Digest,
        /// The result's digest, as it is released.
        result: Digest,
        /// The session.
        session: SessionId,
        /// The status of the effect (HTTP: the status code).
        status: u16,
        /// The tool.
        tool: ToolName,
        /// What reading it back came to.
        #[serde(default, skip_serializing_if = "Verification::is_unsupported")]
        verification: Verification,
    },
    /// The effect failed, or may not have happened, or the vault did not act on the permit.
    Failed {
        /// When.
        at: UnixMillis,
        /// The call's digest.
        call: Digest,
        /// The record of the decision.
        decision: Place,
        /// Whether the effect may have happened.
        in_doubt: bool,
        /// Whose words the failure is taken for; none if nobody outside was spoken to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<Label>,
        /// The receipt's digest; none if the vault did not act.
        receipt: Option<Digest>,
        /// The session.
        session: SessionId,
        /// The tool.
        tool: ToolName,
        /// What reading it back came to.
        #[serde(default, skip_serializing_if = "Verification::is_unsupported")]
        verification: Verification,
        /// Why.
        why: Why,
    },
    /// Somebody passed something on: it is recorded here before the agent sees it.
    HandedOff {
        /// When.
        at: UnixMillis,
        /// How many bytes it has in RFC 8785 form.
        bytes: u64,
        /// The digest of that form.
        handoff: Digest,
        /// The session.
        session: SessionId,
    },
    /// A call waits for a person; nothing was performed.
    Held {
        /// When.
        at: UnixMillis,
        /// The complete call: what a person is shown.
        call: Value,
        /// The call's digest: what an approval binds.
        digest: Digest,
        /// Until when it waits.
        expires: UnixMillis,
        /// The sessions that this one was delegated from, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<SessionId>,
        /// What the decision rests on.
        grounds: Grounds,
        /// What the call means, and on whose word.
        meaning: Meaning,
        /// The policy's digest.
        policy: Digest,
        /// Everything that holds it.
        reasons: Vec<Reason>,
        /// The session.
        session: SessionId,
    },
    /// A held or a deferred call waits no longer, and was not performed.
    Lapsed {
        /// When.
        at: UnixMillis,
        /// The call's digest.
        call: Digest,
        /// The record of its decision.
        decision: Place,
        /// The session.
        session: SessionId,
        /// Why.
        why: Why,
    },
    /// What the session may ask for was narrowed.
    Narrowed {
        /// When.
        at: UnixMillis,
        /// To what, together with what there was.
        scope: Scope,
        /// The session.
        session: SessionId,
    },
    /// A session was opened.
    Opened {
        /// When.
        at: UnixMillis,
        /// Who asked for it.
        caller_uid: u32,
        /// The sessions that it was delegated from, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<SessionId>,
        /// Each owned set and how many members it has.
        owned: BTreeMap<OwnedName, u64>,
        /// The policy's name.
        name: PolicyName,
        /// The policy's digest.
        policy: Digest,
        /// The session.
        session: SessionId,
        /// The roles that it has.
        roles: BTreeSet<RoleName>,
        /// What the task needs, if not all that the policy has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
        /// For whom it works, as the application says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
        /// Why it is tainted from the start; empty if it is not.
        taint: BTreeSet<Taint>,
        /// What the person asked for.
        task: Option<String>,
        /// In whose name, as the application says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantName>,
        /// The trusted values.
        values: BTreeMap<ValueName, Value>,
    },
    /// A reviewer refused a held call: it is over, and is not asked of another one.
    ReviewerRefused {
        /// When.
        at: UnixMillis,
        /// The call's digest, as the reviewer's program took it.
        call: Digest,
        /// The record that held it.
        decision: Place,
        /// Who.
        reviewer: Reviewer,
        /// The session.
        session: SessionId,
        /// Why, in his words.
        why: Why,
    },
    /// A call was refused; nothing was performed.
    Refused {
        /// When.
        at: UnixMillis,
        /// Which argument, if one.
        argument: Option<ArgumentName>,
        /// What would change it; none where the gate's own state is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<Why>,
        /// The sessions that this one was delegated from, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<SessionId>,
        /// What it rests on; none where it was refused before anybody asked whose its values are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grounds: Option<Grounds>,
        /// The arguments as the agent wrote them; none if they could not be read.
        arguments: Option<Value>,
        /// The digest of the arguments' bytes.
        digest: Digest,
        /// The policy's digest.
        policy: Digest,
        /// The rule, by its stable name.
        rule: String,
        /// The session.
        session: SessionId,
        /// Why the session was tainted; empty if it was not.
        taint: BTreeSet<Taint>,
        /// The tool's name as the agent wrote it.
        tool: String,
        /// Why.
        why: Why,
    },
    /// The person or the operator said something, over the control socket: it is authoritative.
    Said {
        /// When.
        at: UnixMillis,
        /// The session.
        session: SessionId,
        /// The words.
        text: String,
    },
    /// The gate started. Every session of an earlier run is over.
    Started {
        /// When.
        at: UnixMillis,
        /// The id of the permit key of this run.
        permit_key: Digest,
        /// The program's version.
        version: String,
    },
    /// A lease that was opened is over.
    Streamed {
        /// When.
        at: UnixMillis,
        /// The call's digest.
        call: Digest,
        /// The record of the decision, which opened it.
        decision: Place,
        /// The receipt's digest.
        receipt: Digest,
        /// The session.
        session: SessionId,
        /// What came over it.
        stream: Streamed,
        /// The tool.
        tool: ToolName,
    },
    /// A turn ended: what was deferred in it was decided on.
    TurnEnded {
        /// When.
        at: UnixMillis,
        /// The session.
        session: SessionId,
    },
}

impl Body for Decision {
    const CHAIN: ChainName = ChainName::Decisions;
}

/// Who calls, when and under what: stands in every record of a session.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// When.
    pub at: UnixMillis,
    /// The session's facts.
    pub facts: &'a Facts,
    /// The sessions that it was delegated from, the nearest first.
    pub from: &'a [SessionId],
    /// Its policy's digest.
    pub policy: Digest,
    /// The session.
    pub session: SessionId,
}

impl Decision {
    /// The record of an allowed call, and with it of the lease that it opens.
    pub fn allowed(scene: &Scene<'_>, allowed: &Allowed) -> Self {
        Self::Allowed {
            at: scene.at,
            from: scene.from.into(),
            call: allowed.call().to_value(),
            credential: allowed.credential().clone(),
            digest: allowed.digest(),
            grounds: allowed.grounds().clone(),
            meaning: allowed.meaning().clone(),
            opens: allowed.opens().cloned(),
            policy: allowed.policy(),
            session: scene.session,
        }
    }

    /// The record of a call that is held until `expires`.
    pub fn held(scene: &Scene<'_>, held: &Held, expires: UnixMillis) -> Self {
        Self::Held {
            at: scene.at,
            from: scene.from.into(),
            call: held.call().to_value(),
            digest: held.digest(),
            expires,
            grounds: held.grounds().clone(),
            meaning: held.meaning().clone(),
            policy: held.policy(),
            reasons: held.reasons().into(),
            session: scene.session,
        }
    }

    /// The record of a call that is decided at the end of its turn.
    pub fn deferred(scene: &Scene<'_>, held: &Held) -> Self {
        Self::Deferred {
            at: scene.at,
            from: scene.from.into(),
            call: held.call().to_value(),
            digest: held.digest(),
            grounds: held.grounds().clone(),
            meaning: held.meaning().clone(),
            policy: held.policy(),
            reasons: held.reasons().into(),
            session: scene.session,
        }
    }

    /// The record of a refused call. `arguments` are the bytes as they came, `read` what they say.
    pub fn refused(
        scene: &Scene<'_>,
        tool: &str,
        arguments: &[u8],
        read: Option<&Value>,
        refusal: &Refusal,
    ) -> Self {
        Self::Refused {
            at: scene.at,
            from: scene.from.into(),
            argument: refusal.argument.clone(),
            arguments: read.cloned(),
            change: Some(Why::from(refusal.change.as_str())),
            digest: Digest::of(Domain::Call, arguments),
            grounds: refusal.grounds.as_deref().cloned(),
            policy: scene.policy,
            rule: refusal.rule.as_str().into(),
            session: scene.session,
            taint: scene.facts.taint().clone(),
            tool: written(tool),
            why: Why::from(refusal.why.as_str()),
        }
    }

    /// The record of a call that was refused by `rule` before it was read, or by the gate's own
    /// state.
    pub fn refused_by(
        scene: &Scene<'_>,
        tool: &str,
        arguments: &[u8],
        rule: &str,
        why: Why,
    ) -> Self {
        Self::Refused {
            at: scene.at,
            from: scene.from.into(),
            argument: None,
            arguments: None,
            change: None,
            digest: Digest::of(Domain::Call, arguments),
            grounds: None,
            policy: scene.policy,
            rule: rule.into(),
            session: scene.session,
            taint: scene.facts.taint().clone(),
            tool: written(tool),
            why,
        }
    }

    /// The record of a call that could not be read: rule `arguments`.
    pub fn unreadable(scene: &Scene<'_>, tool: &str, arguments: &[u8], why: Why) -> Self {
        Self::refused_by(scene, tool, arguments, Rule::Arguments.as_str(), why)
    }

    /// The record of a session's opening.
    pub fn opened(scene: &Scene<'_>, policy: &Policy, caller_uid: u32) -> Self {
        Self::Opened {
            at: scene.at,
            from: scene.from.into(),
            caller_uid,
            owned: scene
                .facts
                .owned_sizes()
                .into_iter()
                .map(|(set, size)| (set, u64::try_from(size).unwrap_or(u64::MAX)))
                .collect(),
            name: policy.name().clone(),
            policy: scene.policy,
            roles: scene.facts.roles().clone(),
            scope: scene.facts.scope().cloned(),
            session: scene.session,
            subject: scene.facts.subject().cloned(),
            taint: scene.facts.taint().clone(),
            task: scene.facts.task().map(String::from),
            tenant: scene.facts.tenant().cloned(),
            values: scene.facts.values().clone(),
        }
    }

    /// The session that the record is of; none for a start of the gate.
    pub const fn session(&self) -> Option<SessionId> {
        match self {
            Self::Allowed { session, .. }
            | Self::Approved { session, .. }
            | Self::Closed { session, .. }
            | Self::Deferred { session, .. }
            | Self::Done { session, .. }
            | Self::Failed { session, .. }
            | Self::HandedOff { session, .. }
            | Self::Held { session, .. }
            | Self::Lapsed { session, .. }
            | Self::Narrowed { session, .. }
            | Self::Opened { session, .. }
            | Self::Refused { session, .. }
            | Self::ReviewerRefused { session, .. }
            | Self::Said { session, .. }
            | Self::Streamed { session, .. }
            | Self::TurnEnded { session, .. } => Some(*session),
            Self::Started { .. } => None,
        }
    }
}

/// A tool's name as the agent wrote it: a NUL has no place in our JSON.
fn written(tool: &str) -> String {
    tool.replace('\0', "\u{fffd}")
}

//! What reviewers said in a session: approvals that stand, and calls that were refused.
//!
//! A standing approval lets through what it was given for, as often as the session asks, and is looked at
//! anew each time. It lifts what the reviewer was shown and nothing that came since. A call that a
//! reviewer refused is never approved in that session.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    approval::{Needs, Reach, needs},
    call::Call,
    chain::Place,
    decide::{Held, Rule},
    digest::Digest,
    id::ArgumentName,
    policy::{OriginClass, Policy, Role},
};

/// The most approvals of one session that stand at once.
pub const STANDING_MAX: usize = 64;

/// What a reviewer was shown of a call that is held, as far as an approval rests on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reviewed {
    origins: BTreeMap<ArgumentName, OriginClass>,
    reasons: BTreeSet<(Rule, Option<ArgumentName>)>,
}

impl Reviewed {
    /// What he is shown of `held`.
    pub fn of(held: &Held) -> Self {
        let grounds = held.grounds();
        Self {
            origins: grounds
                .arguments
                .iter()
                .filter_map(|(name, ground)| Some((name.clone(), ground.origin?)))
                .collect(),
            reasons: held
                .reasons()
                .iter()
                .map(|it| (it.rule, it.argument.clone()))
                .collect(),
        }
    }

    /// Whether what holds the call now was all shown: no other rule, and no value from a worse place.
    pub fn covers(&self, now: &Self) -> bool {
        now.reasons.is_subset(&self.reasons)
            && now.origins.iter().all(|(name, origin)| {
                // Where nobody had to ask then, nobody was shown an answer.
                self.origins.get(name).is_some_and(|then| origin <= then)
            })
    }

    /// The same without the origins of `names`: whatever is said there was approved.
    fn without(mut self, names: &BTreeSet<ArgumentName>) -> Self {
        self.origins.retain(|name, _| !names.contains(name));
        self
    }
}

/// An approval that stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The record of the approval.
    pub approval: Place,
    /// The call that was shown.
    pub call: Call,
    /// Which calls besides; [`Reach::Once`] stands for none.
    pub reach: Reach,
    /// What the reviewer was shown.
    pub reviewed: Reviewed,
    /// Until when, exclusive, in milliseconds of the clock that calls are decided by.
    pub until_ms: Option<u64>,
}

/// Why an approval does not stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StandingError {
    /// Too many do.
    #[error("{STANDING_MAX} approvals of this session stand already; approve this call once")]
    Full,
    /// It is signed for, and each call that is signed for is signed alone.
    #[error("a reviewer signs each call of this kind alone; approve this one once")]
    Signature,
}

/// What reviewers said in one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approvals {
    refused: BTreeMap<Digest, Place>,
    standing: Vec<Standing>,
}

impl Approvals {
    /// What was refused, without what stands.
    pub(super) fn refusals(&self) -> Self {
        Self {
            refused: self.refused.clone(),
            standing: Vec::new(),
        }
    }

    pub(super) fn room(&self, policy: &Policy, call: &Call) -> Result<(), StandingError> {
        if needs(policy, call) == Needs::Signature {
            return Err(StandingError::Signature);
        }
        if self.standing.len() >= STANDING_MAX {
            return Err(StandingError::Full);
        }
        Ok(())
    }

    pub(super) fn stand(&mut self, standing: Standing, now_ms: u64) {
        self.standing.retain(|it| it.is_good(now_ms));
        self.standing.push(standing);
    }

    pub(super) fn refuse(&mut self, call: Digest, record: Place) {
        self.refused.insert(call, record);
    }

    /// The record by which a reviewer refused exactly this call.
    pub(crate) fn refused(&self, call: Digest) -> Option<Place> {
        self.refused.get(&call).copied()
    }

    /// The approval that lets `held` through at `now_ms`, if one stands.
    pub(crate) fn covering(&self, policy: &Policy, held: &Held, now_ms: u64) -> Option<Place> {
        // What a standing approval cannot be given for, it does not let through either.
        if self.standing.is_empty() || needs(policy, held.call()) == Needs::Signature {
            return None;
        }
        let now = Reviewed::of(held);
        self.standing
            .iter()
            .find(|it| it.is_good(now_ms) && it.is_for(policy, held.call(), &now))
            .map(|it| it.approval)
    }
}

impl Standing {
    fn is_good(&self, now_ms: u64) -> bool {
        self.until_ms.is_none_or(|until| now_ms < until)
    }

    fn is_for(&self, policy: &Policy, call: &Call, now: &Reviewed) -> bool {
        match self.reach {
            Reach::Once => false,
            Reach::Call => self.call == *call && self.reviewed.covers(now),
            Reach::Target => {
                let Some(free) = payloads(policy, call) else {
                    return false;
                };
                let fixed = |call: &Call| {
                    let mut arguments = call.arguments.clone();
                    arguments.retain(|name, _| !free.contains(name));
                    arguments
                };
                self.call.tool == call.tool
                    && fixed(&self.call) == fixed(call)
                    && self.reviewed.covers(&now.clone().without(&free))
            }
        }
    }
}

/// The arguments of the call's tool that say what is said, and not on what or how much.
fn payloads(policy: &Policy, call: &Call) -> Option<BTreeSet<ArgumentName>> {
    let tool = policy.tools().get(&call.tool)?;
    let payloads = tool
        .arguments
        .iter()
        .filter(|(_, argument)| argument.role == Role::Payload)
        .map(|(name, _)| name.clone());
    Some(payloads.collect())
}

//! The decision on one call.
//!
//! In the order of [`Rule`], each answering before the next is asked. What refuses is asked before
//! anything holds: a call that is held was refused by nothing, and a refused call waits for nobody.
//! A call that is refused for what it says is refused for that, tainted or not.
//!
//! There is one function, for a call when it is made, at the end of its turn, and when a person has
//! approved it: what changed meanwhile is seen.

mod authority;
mod call;
mod limits;
mod meaning;
mod operator;
mod origins;
mod rule;
mod shape;
mod verdict;
mod write_gate;

use alloc::collections::BTreeSet;

pub use self::{
    operator::{About, Narrowing, OperatorRules},
    origins::class_of,
    rule::Rule,
    verdict::{Allowed, AnswerWord, Explanation, Ground, Grounds, Held, Reason, Refusal},
};
use crate::{
    json::Value,
    policy::{ActionClass, Policy},
    session::Facts,
};

/// What was decided on a call.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Verdict {
    /// It may be performed.
    Allow(Allowed),
    /// It waits for the end of the turn, and is decided again then.
    Defer(Held),
    /// It waits for a person.
    Hold(Held),
    /// It may be performed; of what comes back, only what the tool's result rules let through
    /// reaches the agent ([`crate::policy::ResultRules::limit`]).
    Limit(Allowed),
    /// It may not.
    Refuse(Refusal),
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The sessions that this one was delegated from, the nearest first: what they may no longer, it may
    /// not either.
    pub above: &'a [&'a Facts],
    /// The arguments, as the agent wrote them.
    pub arguments: &'a Value,
    /// Classes that the caller adds to this call. None is ever taken away.
    pub classes: BTreeSet<ActionClass>,
    /// When in the call's life.
    pub moment: Moment,
    /// Now, in milliseconds of a clock that does not run back.
    pub now_ms: u64,
    /// The tool's name, as the agent wrote it.
    pub tool: &'a str,
}

impl<'a> Ask<'a> {
    /// The call of `tool` with `arguments`, just made, at the clock's beginning.
    pub const fn new(tool: &'a str, arguments: &'a Value) -> Self {
        Self {
            above: &[],
            arguments,
            classes: BTreeSet::new(),
            moment: Moment::Call,
            now_ms: 0,
            tool,
        }
    }

    /// The same in a session that was delegated from these.
    #[must_use]
    pub const fn below(mut self, above: &'a [&'a Facts]) -> Self {
        self.above = above;
        self
    }

    /// The same at another moment.
    #[must_use]
    pub const fn at(mut self, moment: Moment, now_ms: u64) -> Self {
        self.moment = moment;
        self.now_ms = now_ms;
        self
    }
}

/// When in a call's life it is decided on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moment {
    /// A person approved exactly this call. Nothing holds it any more; what refuses, refuses.
    Approved,
    /// The agent makes it.
    Call,
    /// The turn that it was made in ends.
    Commit,
}

/// Decides on what is asked. Total and deterministic. Every rule is asked before anything is
/// allowed. Under a policy that names rules of the operator's nothing is: ask [`decide_by`] then.
pub fn decide(policy: &Policy, facts: &Facts, ask: &Ask<'_>) -> Verdict {
    decide_by(policy, &operator::NoRules, facts, ask)
}

/// The same, with what asks the rules of the operator's that the policy names: after all others, and
/// only narrowing.
pub fn decide_by(
    policy: &Policy,
    rules: &dyn OperatorRules,
    facts: &Facts,
    ask: &Ask<'_>,
) -> Verdict {
    match call::judge(policy, facts, ask) {
        Ok(verdict) => operator::narrowed(policy, rules, facts, ask, verdict),
        Err(refusal) => Verdict::Refuse(*refusal),
    }
}

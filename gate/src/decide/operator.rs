//! The operator's own rules, asked after all of ours.
//!
//! They only narrow, by construction: whatever they say, [`narrowed`] makes a verdict of it that lets no
//! more through than the one before. Who does not ask them, though the policy has some, lets nothing
//! through: they are never left out in silence.

use alloc::{boxed::Box, string::ToString as _, vec::Vec};

use super::{Ask, Grounds, Held, Moment, Reason, Refusal, Rule, Verdict, shape::because};
use crate::{call::Call, policy::Policy, session::Facts};

/// What can ask an operator's rules.
pub trait OperatorRules {
    /// What they say of a call that nothing else refuses.
    fn ask(&self, about: &About<'_>) -> Narrowing;
}

/// What the operator's rules are asked about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What was asked of the gate: the arguments as the agent wrote them, and the moment.
    pub ask: &'a Ask<'a>,
    /// The complete call.
    pub call: &'a Call,
    /// What the session is.
    pub facts: &'a Facts,
    /// What the decision rests on so far.
    pub grounds: &'a Grounds,
    /// The policy that names the rules.
    pub policy: &'a Policy,
}

/// What the operator's rules say: never more than was said before.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Narrowing {
    /// A person decides, for these reasons. A person's approval is enough then.
    Hold(Vec<Reason>),
    /// Nothing.
    Nothing,
    /// No, and no person changes that.
    Refuse(Reason),
}

/// For a policy that names no rules.
pub(super) struct NoRules;

impl OperatorRules for NoRules {
    fn ask(&self, _about: &About<'_>) -> Narrowing {
        let why = "the policy has rules of the operator's, and nobody asks them here";
        let change = "a program that knows them";
        Narrowing::Refuse(because(Rule::Operator, None, why.to_string(), change))
    }
}

/// `verdict`, and what the operator's rules say of it.
pub(super) fn narrowed(
    policy: &Policy,
    rules: &dyn OperatorRules,
    facts: &Facts,
    ask: &Ask<'_>,
    verdict: Verdict,
) -> Verdict {
    if policy.operator_rules().is_none() {
        return verdict;
    }
    let judged = match &verdict {
        Verdict::Allow(it) | Verdict::Limit(it) => &it.judged,
        Verdict::Defer(it) | Verdict::Hold(it) => &it.judged,
        Verdict::Refuse(_) => return verdict,
    };
    let narrowing = rules.ask(&About {
        ask,
        call: &judged.call,
        facts,
        grounds: &judged.grounds,
        policy,
    });
    match narrowing {
        Narrowing::Nothing => verdict,
        Narrowing::Refuse(reason) => Verdict::Refuse(Refusal {
            rule: Rule::Operator,
            argument: reason.argument,
            why: reason.why,
            change: reason.change,
            grounds: Some(Box::new(judged.grounds.clone())),
        }),
        // A person said yes to exactly this call.
        Narrowing::Hold(_) if ask.moment == Moment::Approved => verdict,
        Narrowing::Hold(reasons) => {
            let held = held(verdict.clone(), reasons);
            standing(policy, facts, ask, verdict, held)
        }
    }
}

/// `held`, unless an approval stands that was given when the rules held such a call.
fn standing(
    policy: &Policy,
    facts: &Facts,
    ask: &Ask<'_>,
    verdict: Verdict,
    held: Verdict,
) -> Verdict {
    let approval = match &held {
        Verdict::Hold(it) => facts.approvals().covering(policy, it, ask.now_ms),
        Verdict::Allow(_) | Verdict::Defer(_) | Verdict::Limit(_) | Verdict::Refuse(_) => None,
    };
    match (approval, verdict) {
        (Some(approval), Verdict::Allow(it)) => Verdict::Allow(it.resting_on(approval)),
        (Some(approval), Verdict::Limit(it)) => Verdict::Limit(it.resting_on(approval)),
        (Some(_), Verdict::Defer(it)) => Verdict::Defer(it),
        (Some(_), Verdict::Hold(_) | Verdict::Refuse(_)) | (None, _) => held,
    }
}

/// The call waits for a person, besides whatever else holds it.
fn held(verdict: Verdict, mut more: Vec<Reason>) -> Verdict {
    if more.is_empty() {
        let why = "a rule of the operator's holds it";
        let change = "a person's approval of exactly this call";
        more.push(because(Rule::Operator, None, why.to_string(), change));
    }
    for reason in &mut more {
        reason.rule = Rule::Operator;
    }
    let (judged, mut reasons) = match verdict {
        Verdict::Allow(it) | Verdict::Limit(it) => (it.judged, Vec::new()),
        // What a person decides on is not left to the end of the turn; it comes then.
        Verdict::Defer(it) => (it.judged, Vec::new()),
        Verdict::Hold(it) => (it.judged, it.reasons),
        Verdict::Refuse(_) => return verdict,
    };
    reasons.append(&mut more);
    Verdict::Hold(Held { judged, reasons })
}

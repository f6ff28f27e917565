//! Our gate, as a decider: the policy and the functions that custody-gate itself uses.

use gate::{
    call::Call,
    decide::{self, Ask, Verdict},
    json::Value,
    policy::Policy,
    session::Facts,
};

use crate::decider::{Answer, Decider, Opening, Recorded, Session};

/// The gate under a policy.
#[derive(Debug)]
pub struct Custody {
    policy: Policy,
}

impl Custody {
    /// Under `policy`.
    pub const fn new(policy: Policy) -> Self {
        Self { policy }
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }
}

impl Decider for Custody {
    fn name(&self) -> &str {
        "custody"
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Session + '_>, String> {
        let opening = gate::session::Opening {
            owned: opening.owned.clone(),
            task: opening.task.clone(),
            values: opening.values.clone(),
            workspace: opening.workspace,
            ..Default::default()
        };
        let facts = Facts::open(&self.policy, opening).map_err(|error| error.to_string())?;
        Ok(Box::new(Gated {
            facts,
            policy: &self.policy,
        }))
    }
}

struct Gated<'a> {
    facts: Facts,
    policy: &'a Policy,
}

impl Session for Gated<'_> {
    fn decide(&mut self, tool: &str, arguments: &Value) -> Answer {
        match decide::decide(self.policy, &self.facts, &Ask::new(tool, arguments)) {
            Verdict::Allow(_) | Verdict::Limit(_) => Answer::Allow,
            Verdict::Defer(held) | Verdict::Hold(held) => {
                let reasons = held.reasons().iter();
                let reasons: Vec<_> = reasons
                    .map(|it| format!("rule `{}`: {}", it.rule, it.why))
                    .collect();
                Answer::Hold(reasons.join("; "))
            }
            Verdict::Refuse(refusal) => {
                Answer::Refuse(format!("rule `{}`: {}", refusal.rule, refusal.why))
            }
        }
    }

    fn record(&mut self, tool: &str, arguments: &Value, result: &Recorded) {
        // A name that is none has no tool, and its call was refused.
        let Some(call) = Call::written(tool, arguments) else {
            return;
        };
        self.facts.record_call(self.policy, &call, 0, false);
        let _label = match result {
            Recorded::Failed(words) => self.facts.record_words(self.policy, &call, words),
            Recorded::Result(result) => self.facts.record_result(self.policy, &call, result),
        };
    }
}

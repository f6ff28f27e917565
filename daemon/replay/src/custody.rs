//! Our gate, as a decider: the policy and the functions that custody-gate itself uses.

use gate::{
    decide::{self, Verdict},
    id::ToolName,
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
        let facts = Facts::open(
            &self.policy,
            opening.values.clone(),
            opening.owned.clone(),
            opening.task.clone(),
            opening.workspace,
        )
        .map_err(|error| error.to_string())?;
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
        match decide::decide(self.policy, &self.facts, tool, arguments) {
            Verdict::Allow(_) => Answer::Allow,
            Verdict::Refuse(refusal) => {
                Answer::Refuse(format!("rule `{}`: {}", refusal.rule, refusal.why))
            }
        }
    }

    fn record(&mut self, tool: &str, _arguments: &Value, _result: &Recorded) {
        // A name that is none has no tool, and its call was refused.
        if let Ok(tool) = ToolName::parse(tool) {
            let _label = self.facts.record_result(self.policy, &tool);
        }
    }
}

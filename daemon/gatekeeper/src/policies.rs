//! The compiled policies, each with what is made of it once.

use std::{collections::BTreeMap, path::Path, rc::Rc};

use custody_rules::{Rules, RulesError};
use custody_service::policies;
use custody_wire::{
    agent::{Answer, ToolView},
    frame,
};
use gate::{
    decide::{Ask, Verdict},
    digest::Digest,
    id::PolicyName,
    policy::Policy,
    session::Facts,
};

use crate::keeper::GateError;

/// A policy with what is made of it once.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) policy: Policy,
    pub(crate) hash: Digest,
    /// The operator's own, which only [`Loaded::decide`] asks.
    rules: Rules,
    /// Each tool as the agent sees it.
    pub(crate) tools: Vec<ToolView>,
}

impl Loaded {
    /// Decides on a call: by the policy, and by the operator's rules that it names.
    pub(crate) fn decide(&self, facts: &Facts, ask: &Ask<'_>) -> Verdict {
        self.rules.decide(&self.policy, facts, ask)
    }
}

/// The policies by name. One whose rules are not good is not loaded, and no other one notices: custodyd,
/// which compiled it, runs as root and reads no Cedar.
pub(crate) type Policies = BTreeMap<PolicyName, Result<Rc<Loaded>, RulesError>>;

/// Loads every policy in `folder`, which must be `owner`'s.
pub(crate) fn load(folder: &Path, owner: u32) -> Result<Policies, GateError> {
    policies::load(folder, owner)
        .map_err(GateError::Policies)?
        .into_iter()
        .map(|(name, policy)| {
            let rules = match Rules::load(&policy) {
                Ok(rules) => rules,
                Err(error) => {
                    tracing::error!(policy = %name, %error, "not loaded: no session starts under it");
                    return Ok((name, Err(error)));
                }
            };
            let tools = views(&policy);
            // Seen now, not when an agent asks.
            let answer = Answer::Tools {
                number: u64::MAX,
                tools: tools.clone(),
            };
            let hash = policy.hash();
            match frame::frame(&answer) {
                Ok(_fits) => Ok((
                    name,
                    Ok(Rc::new(Loaded {
                        policy,
                        hash,
                        rules,
                        tools,
                    })),
                )),
                Err(source) => Err(GateError::Tools { name, source }),
            }
        })
        .collect()
}

fn views(policy: &Policy) -> Vec<ToolView> {
    policy
        .tools()
        .iter()
        .map(|(name, tool)| ToolView {
            name: name.clone(),
            description: tool.description.clone(),
            input_schema: policy.input_schema(name).unwrap_or_default(),
            read_only: tool.hints.read_only,
            destructive: tool.hints.destructive,
            idempotent: tool.hints.idempotent,
        })
        .collect()
}

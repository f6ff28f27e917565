//! The compiled policies, each with what is made of it once.

use std::{collections::BTreeMap, path::Path, rc::Rc};

use custody_service::policies;
use custody_wire::{
    agent::{Answer, ToolView},
    frame,
};
use gate::{digest::Digest, id::PolicyName, policy::Policy};

use crate::keeper::GateError;

/// A policy with what is made of it once.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) policy: Policy,
    pub(crate) hash: Digest,
    /// Each tool as the agent sees it.
    pub(crate) tools: Vec<ToolView>,
}

/// The policies by name.
pub(crate) type Policies = BTreeMap<PolicyName, Rc<Loaded>>;

/// Loads every policy in `folder`, which must be `owner`'s.
pub(crate) fn load(folder: &Path, owner: u32) -> Result<Policies, GateError> {
    policies::load(folder, owner)
        .map_err(GateError::Policies)?
        .into_iter()
        .map(|(name, policy)| {
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
                    Rc::new(Loaded {
                        policy,
                        hash,
                        tools,
                    }),
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

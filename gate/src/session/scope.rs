//! What one task needs of all that a policy has. It is given before the agent starts, and only
//! narrows: whatever happens later, nothing that it left out comes back.

use alloc::{collections::BTreeMap, vec::Vec};

use serde::{Deserialize, Serialize};

use super::amount;
use crate::{
    id::{ArgumentName, ToolName},
    json::Value,
    policy::Policy,
};

/// The tools that a task needs, and how far each.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// By their names; no other one is called.
    pub tools: BTreeMap<ToolName, ToolScope>,
}

/// How far a task needs a tool.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolScope {
    /// The most calls.
    pub calls: Option<u32>,
    /// The most that an argument's values may be together.
    pub sums: BTreeMap<ArgumentName, Value>,
    /// The values that an argument may have, or each item of it.
    pub targets: BTreeMap<ArgumentName, Vec<Value>>,
}

/// Why a scope is none.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ScopeError {
    /// The tool has no such argument.
    #[error("the scope names argument `{argument}` of `{tool}`, which it has not")]
    Argument {
        /// The tool.
        tool: ToolName,
        /// The argument.
        argument: ArgumentName,
    },
    /// A sum that no amount meets.
    #[error(
        "the scope's sum of `{argument}` of `{tool}` is not a number from 0, or the argument is none"
    )]
    Sum {
        /// The tool.
        tool: ToolName,
        /// The argument.
        argument: ArgumentName,
    },
    /// The policy has no such tool.
    #[error("the scope names tool `{tool}`, which the policy has not")]
    Tool {
        /// The tool.
        tool: ToolName,
    },
}

fn is_amount(value: &Value) -> bool {
    amount(value).is_some_and(|it| it >= 0.0)
}

impl Scope {
    /// Whether it speaks of what the policy has.
    ///
    /// # Errors
    /// When it names a tool or an argument that the policy has not.
    pub fn check(&self, policy: &Policy) -> Result<(), ScopeError> {
        for (name, it) in &self.tools {
            let Some(tool) = policy.tools().get(name) else {
                return Err(ScopeError::Tool { tool: name.clone() });
            };
            for argument in it.sums.keys().chain(it.targets.keys()) {
                if !tool.arguments.contains_key(argument) {
                    return Err(ScopeError::Argument {
                        tool: name.clone(),
                        argument: argument.clone(),
                    });
                }
            }
            let counted = |argument: &ArgumentName, most: &Value| {
                let argument = tool.arguments.get(argument);
                is_amount(most) && argument.is_some_and(|it| it.kind.is_amount())
            };
            if let Some((argument, _)) = it.sums.iter().find(|(name, most)| !counted(name, most)) {
                return Err(ScopeError::Sum {
                    tool: name.clone(),
                    argument: argument.clone(),
                });
            }
        }
        Ok(())
    }

    /// What both admit.
    pub(super) fn narrow(&mut self, other: Self) {
        let mut other = other.tools;
        self.tools.retain(|name, mine| match other.remove(name) {
            None => false,
            Some(theirs) => {
                mine.narrow(theirs);
                true
            }
        });
    }
}

impl ToolScope {
    fn narrow(&mut self, other: Self) {
        self.calls = match (self.calls, other.calls) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        for (name, theirs) in other.sums {
            let mine = self.sums.entry(name).or_insert_with(|| theirs.clone());
            if amount(&theirs) < amount(mine) {
                *mine = theirs;
            }
        }
        for (name, theirs) in other.targets {
            match self.targets.get_mut(&name) {
                Some(mine) => mine.retain(|it| theirs.contains(it)),
                None => {
                    self.targets.insert(name, theirs);
                }
            }
        }
    }
}

//! Tools whose effects were not there when they were read back: they are performed no more until
//! an operator has looked.

use std::{cell::RefCell, collections::BTreeSet};

use gate::id::{PolicyName, ToolName};

/// The tools that are locked, of each policy.
#[derive(Debug, Default)]
pub(crate) struct Locks(RefCell<BTreeSet<(PolicyName, ToolName)>>);

impl Locks {
    /// Locks a tool for every session of its policy. False if it was locked before.
    pub(crate) fn lock(&self, policy: &PolicyName, tool: &ToolName) -> bool {
        self.0.borrow_mut().insert((policy.clone(), tool.clone()))
    }

    /// An operator has looked: the tool goes on, in every policy that has it.
    pub(crate) fn unlock(&self, tool: &ToolName) {
        self.0.borrow_mut().retain(|(_policy, name)| name != tool);
    }

    /// Whether a tool is locked.
    pub(crate) fn holds(&self, policy: &PolicyName, tool: &ToolName) -> bool {
        // No tuple of clones for a set that is nearly always empty.
        self.0
            .borrow()
            .iter()
            .any(|(of, name)| of == policy && name == tool)
    }
}

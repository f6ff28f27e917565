//! What it takes to let a call through, by the policy alone: the gate and the vault ask the same.

use alloc::collections::BTreeSet;

use super::Needs;
use crate::{
    call::Call,
    policy::{ActionClass, Confirm, Policy, Risk, Tool},
};

/// What it takes to let this call through, if it is held. The session's facts say nothing to it: what
/// needs a signature always waits, and the vault knows no facts.
pub fn needs(policy: &Policy, call: &Call) -> Needs {
    let Some(tool) = policy.tools().get(&call.tool) else {
        // Nothing is known of it.
        return Needs::Signature;
    };
    let branch = tool.branch(&call.arguments);
    let (classes, risk) = tool.stakes(policy.domains(), branch, &call.arguments);
    needs_of(policy, tool, &classes, risk)
}

/// The same, where classes and risk are known.
pub(crate) fn needs_of(
    policy: &Policy,
    tool: &Tool,
    classes: &BTreeSet<ActionClass>,
    risk: Risk,
) -> Needs {
    let signed = &policy.confirmation().signature;
    let by_tool = match tool.confirm {
        Confirm::Signature => true,
        Confirm::Always | Confirm::First | Confirm::Never => false,
    };
    if by_tool || signed.risks.contains(&risk) || !signed.classes.is_disjoint(classes) {
        Needs::Signature
    } else {
        Needs::Approval
    }
}

//! Roles, boundary, recipients, rates and totals; and what a person confirms.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{
    Reason, Rule,
    shape::{Arguments, because},
};
use crate::{
    approval::{self, Needs},
    id::ToolName,
    policy::{ActionClass, Confirm, Policy, Recipients, Risk, Tool, listed},
    session::{Facts, amount},
};

/// What refuses a call of this tool, whatever its values.
pub(super) fn refuse(
    facts: &Facts,
    name: &ToolName,
    tool: &Tool,
    classes: &BTreeSet<ActionClass>,
    complete: &Arguments,
    now_ms: u64,
) -> Result<(), Reason> {
    role(facts, tool)?;
    if tool.boundary > facts.boundary() {
        let why = alloc::format!(
            "`{name}` reaches data of the `{}`, and this session those of the `{}`",
            tool.boundary.as_str(),
            facts.boundary().as_str()
        );
        let change = "start a session whose boundary reaches as far";
        return Err(because(Rule::Boundary, None, why, change));
    }
    if tool.recipients == Recipients::Own && classes.contains(&ActionClass::External) {
        let why = alloc::format!("`{name}` goes to the operator's own domains only");
        let change = "name recipients of the operator's own domains";
        return Err(because(Rule::Recipients, None, why, change));
    }
    let wait = facts.history().wait(name, tool, now_ms);
    if let (Some(rate), 1..) = (&tool.rate, wait) {
        let why = alloc::format!(
            "`{name}` is called at most {} times in {} s; the next call is possible in {} s",
            rate.calls,
            rate.seconds,
            wait.div_ceil(1_000)
        );
        return Err(because(Rule::Rate, None, why, "wait"));
    }
    total(facts, name, tool, complete)
}

fn role(facts: &Facts, tool: &Tool) -> Result<(), Reason> {
    match &tool.roles {
        Some(roles) if roles.is_disjoint(facts.roles()) => {
            let needed: Vec<String> = roles.iter().map(|it| alloc::format!("`{it}`")).collect();
            let why = if needed.is_empty() {
                "no role may call this tool".to_string()
            } else {
                alloc::format!("this tool needs a role of {}", needed.join(", "))
            };
            let change = "start the session with a role that the tool admits";
            Err(because(Rule::Role, None, why, change))
        }
        Some(_) | None => Ok(()),
    }
}

fn total(facts: &Facts, name: &ToolName, tool: &Tool, complete: &Arguments) -> Result<(), Reason> {
    let change = "start a new session, or have the operator widen the total";
    if let Some(most) = tool.total.calls.filter(|most| facts.calls(name) >= *most) {
        let why = alloc::format!("a session calls `{name}` at most {most} times, and this one did");
        return Err(because(Rule::Total, None, why, change));
    }
    for (argument, most) in &tool.total.sums {
        let spent = facts.history().sum(name, argument);
        let more = complete.get(argument).and_then(amount).unwrap_or(0.0);
        if spent + more > *most {
            let why = alloc::format!(
                "the values of `{argument}` are at most {most} in a session; with this call they \
                 would be {}",
                spent + more
            );
            return Err(because(Rule::Total, Some(argument), why, change));
        }
    }
    Ok(())
}

/// What a person confirms, tainted session or not.
pub(super) fn confirmation(
    policy: &Policy,
    facts: &Facts,
    name: &ToolName,
    tool: &Tool,
    classes: &BTreeSet<ActionClass>,
    risk: Risk,
) -> Option<Reason> {
    let confirmed = policy.confirmation();
    let caught: Vec<&ActionClass> = classes.intersection(&confirmed.classes).collect();
    let first = tool.confirm == Confirm::First && facts.history().approved(name) == 0;
    let why = if approval::needs_of(policy, tool, classes, risk) == Needs::Signature {
        alloc::format!("a reviewer signs each call of this kind of `{name}`")
    } else if tool.confirm == Confirm::Always {
        alloc::format!("a person confirms each call of `{name}`")
    } else if first {
        alloc::format!("a person confirms the first call of `{name}` in a session")
    } else if confirmed.risks.contains(&risk) {
        alloc::format!(
            "a person confirms each call whose risk is `{}`",
            risk.as_str()
        )
    } else if caught.is_empty() {
        return None;
    } else {
        alloc::format!(
            "a person confirms each call of the class {}",
            listed(caught)
        )
    };
    let change = "a person's approval of exactly this call";
    Some(because(Rule::Confirmation, None, why, change))
}

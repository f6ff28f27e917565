//! What a call looks like: its tool, its fields, its branch, their types and bounds.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Reason, Rule};
use crate::{
    excerpt::excerpt,
    id::{ArgumentName, ToolName},
    json::Value,
    mutant::Mutant,
    policy::{Branch, Policy, Tool},
};

pub(super) type Arguments = BTreeMap<ArgumentName, Value>;

/// A reason, from its parts.
pub(super) fn because(
    rule: Rule,
    argument: Option<&ArgumentName>,
    why: String,
    change: impl Into<String>,
) -> Reason {
    Reason {
        argument: argument.cloned(),
        change: change.into(),
        rule,
        why,
    }
}

pub(super) fn tool<'p>(policy: &'p Policy, name: &str) -> Result<(&'p ToolName, &'p Tool), Reason> {
    let found = policy.tools().get_key_value(name);
    found.or_else(|| lenient(policy, name)).ok_or_else(|| {
        let known: Vec<String> = policy
            .tools()
            .keys()
            .map(|it| alloc::format!("`{it}`"))
            .collect();
        let known = if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        };
        because(
            Rule::UnknownTool,
            None,
            alloc::format!(
                "there is no tool `{}`; this session has {known}",
                excerpt(name)
            ),
            "call one of those; the operator's policy alone registers a tool",
        )
    })
}

/// No name but its own finds a tool.
#[cfg(not(custody_mutants))]
const fn lenient<'p>(_: &'p Policy, _: &str) -> Option<(&'p ToolName, &'p Tool)> {
    None
}

#[cfg(custody_mutants)]
fn lenient<'p>(policy: &'p Policy, name: &str) -> Option<(&'p ToolName, &'p Tool)> {
    let folded = crate::mutant::folded(name);
    let by_folded = |(name, _): &(&ToolName, _)| name.as_str() == folded;
    let found = policy.tools().iter().find(by_folded);
    found.filter(|_| Mutant::GateRegistry.is_on())
}

/// The arguments that the agent may author: exactly those.
pub(super) fn exact_fields(tool: &Tool, arguments: &Value) -> Result<Arguments, Reason> {
    let Value::Object(members) = arguments else {
        let why = alloc::format!("arguments must be an object, not {}", arguments.kind());
        return Err(because(Rule::Arguments, None, why, "write an object"));
    };
    let mut given = Arguments::new();
    for (key, value) in members {
        match tool.arguments.get_key_value(key.as_str()) {
            Some((name, argument)) if argument.authority.in_call() => {
                given.insert(name.clone(), value.clone());
            }
            Some((name, _)) => {
                let why = alloc::format!("`{name}` is supplied by the application; leave it out");
                return Err(because(Rule::Arguments, Some(name), why, "leave it out"));
            }
            None if Mutant::GateExactArguments.is_on() => {}
            None => {
                let why =
                    alloc::format!("there is no argument `{}`; {}", excerpt(key), wanted(tool));
                return Err(because(Rule::Arguments, None, why, "leave it out"));
            }
        }
    }
    let branch = branch(tool, &given)?;
    for (name, argument) in &tool.arguments {
        let active = Tool::is_active(branch, name);
        if !active && given.contains_key(name) {
            let (word, branch) = branch.map_or(("", None), |(word, it)| (word, Some(it)));
            let takes: Vec<String> = branch
                .iter()
                .flat_map(|it| &it.arguments)
                .map(|it| alloc::format!("`{it}`"))
                .collect();
            let why = alloc::format!(
                "`{name}` has no meaning with `{word}`; that takes {}",
                takes.join(", ")
            );
            return Err(because(Rule::Branch, Some(name), why, "leave it out"));
        }
        if active && argument.authority.in_call() && !argument.optional && !given.contains_key(name)
        {
            let why = alloc::format!("`{name}` is missing; {}", wanted(tool));
            return Err(because(Rule::Arguments, Some(name), why, "add it"));
        }
    }
    Ok(given)
}

/// The branch that the call takes. Where there are branches, no call goes without one.
fn branch<'p>(tool: &'p Tool, given: &Arguments) -> Result<Option<(&'p str, &'p Branch)>, Reason> {
    let Some(selector) = &tool.selector else {
        return Ok(None);
    };
    match tool.branch(given) {
        Some(branch) => Ok(Some(branch)),
        None => {
            let name = &selector.argument;
            let values: Vec<String> = selector
                .cases
                .keys()
                .map(|it| alloc::format!("`{it}`"))
                .collect();
            let why = alloc::format!("`{name}` must be one of {}", values.join(", "));
            let rule = match given.get(name) {
                None => Rule::Arguments,
                Some(Value::Text(_)) => Rule::Bounds,
                Some(_) => Rule::Type,
            };
            Err(because(rule, Some(name), why, "write one of those"))
        }
    }
}

fn wanted(tool: &Tool) -> String {
    let names: Vec<String> = tool
        .arguments
        .iter()
        .filter(|(_, it)| it.authority.in_call())
        .map(|(name, it)| {
            let optional = if it.optional { " (optional)" } else { "" };
            alloc::format!("`{name}`{optional}")
        })
        .collect();
    if names.is_empty() {
        "this tool takes no arguments".into()
    } else {
        alloc::format!("this tool takes exactly {}", names.join(", "))
    }
}

pub(super) fn types_and_bounds(tool: &Tool, given: &Arguments) -> Result<(), Reason> {
    for (name, value) in given {
        let Some(argument) = tool.arguments.get(name) else {
            continue;
        };
        argument.kind.check(value).map_err(|misfit| {
            let rule = if misfit.is_type() {
                Rule::Type
            } else {
                Rule::Bounds
            };
            let change = misfit.to_string();
            because(
                rule,
                Some(name),
                alloc::format!("`{name}` {misfit}"),
                change,
            )
        })?;
    }
    Ok(())
}

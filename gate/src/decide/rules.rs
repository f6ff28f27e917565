//! The rules, in their order.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use super::{Allowed, Grounds, Refusal, Rule};
use crate::{
    call::Call,
    excerpt::excerpt,
    floor,
    id::ArgumentName,
    json::{self, Value},
    policy::{Authority, OnTaint, Policy, Tool},
    request,
    session::Facts,
};

pub(super) fn allow(
    policy: &Policy,
    facts: &Facts,
    name: &str,
    arguments: &Value,
) -> Result<Allowed, Refusal> {
    let (name, tool) = policy
        .tools()
        .get_key_value(name)
        .ok_or_else(|| unknown_tool(policy, name))?;
    let given = exact_fields(tool, arguments)?;
    types_and_bounds(tool, &given)?;
    let complete = authority(tool, facts, given)?;
    taint(tool, facts, &complete)?;
    let call = Call {
        arguments: complete,
        tool: name.clone(),
    };
    on_floor(policy, tool, &call)?;
    let bytes = call.to_bytes();
    if bytes.len() > Call::LIMITS.bytes {
        let why = alloc::format!(
            "the complete call has {} bytes; at most {} are allowed: shorten what you write",
            bytes.len(),
            Call::LIMITS.bytes
        );
        return Err(refuse(Rule::Request, None, why));
    }
    Ok(Allowed {
        digest: Call::digest_of(&bytes),
        bytes,
        credential: tool.credential.clone(),
        grounds: grounds(tool, facts, &call),
        idempotent: tool.idempotent,
        policy: policy.hash(),
        call,
    })
}

type Arguments = BTreeMap<ArgumentName, Value>;

fn refuse(rule: Rule, argument: Option<&ArgumentName>, why: String) -> Refusal {
    Refusal {
        rule,
        argument: argument.cloned(),
        why,
    }
}

fn unknown_tool(policy: &Policy, name: &str) -> Refusal {
    let known: Vec<String> = policy
        .tools()
        .keys()
        .map(|it| alloc::format!("`{it}`"))
        .collect();
    let why = alloc::format!(
        "there is no tool `{}`; this session has {}",
        excerpt(name),
        if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        }
    );
    refuse(Rule::UnknownTool, None, why)
}

fn exact_fields(tool: &Tool, arguments: &Value) -> Result<Arguments, Refusal> {
    let Value::Object(members) = arguments else {
        let why = alloc::format!("arguments must be an object, not {}", arguments.kind());
        return Err(refuse(Rule::Arguments, None, why));
    };
    let mut given = Arguments::new();
    for (key, value) in members {
        match tool.arguments.get_key_value(key.as_str()) {
            Some((name, argument)) if argument.authority.in_call() => {
                given.insert(name.clone(), value.clone());
            }
            Some((name, _)) => {
                let why = alloc::format!("`{name}` is supplied by the application; leave it out");
                return Err(refuse(Rule::Arguments, Some(name), why));
            }
            None => {
                let why =
                    alloc::format!("there is no argument `{}`; {}", excerpt(key), wanted(tool));
                return Err(refuse(Rule::Arguments, None, why));
            }
        }
    }
    for (name, argument) in &tool.arguments {
        if argument.authority.in_call() && !argument.optional && !given.contains_key(name) {
            let why = alloc::format!("`{name}` is missing; {}", wanted(tool));
            return Err(refuse(Rule::Arguments, Some(name), why));
        }
    }
    Ok(given)
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

fn types_and_bounds(tool: &Tool, given: &Arguments) -> Result<(), Refusal> {
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
            refuse(rule, Some(name), alloc::format!("`{name}` {misfit}"))
        })?;
    }
    Ok(())
}

/// Holds each argument to who may author it, and puts the injected ones in.
fn authority(tool: &Tool, facts: &Facts, given: Arguments) -> Result<Arguments, Refusal> {
    let mut complete = given;
    for (name, argument) in &tool.arguments {
        match (&argument.authority, complete.get(name)) {
            (Authority::Injected { value }, _) => {
                let Some(held) = facts.value(value) else {
                    return Err(refuse(
                        Rule::TrustedValue,
                        Some(name),
                        no_value(value.as_str()),
                    ));
                };
                complete.insert(name.clone(), held.clone());
            }
            (Authority::Verified { value }, Some(found)) => match facts.value(value) {
                Some(held) if held == found => {}
                Some(_) => {
                    let why = alloc::format!(
                        "`{name}` must be exactly the value `{value}` that the application gave \
                         for this session; `{}` is not, wherever it came from",
                        shown(found)
                    );
                    return Err(refuse(Rule::TrustedValue, Some(name), why));
                }
                None => {
                    return Err(refuse(
                        Rule::TrustedValue,
                        Some(name),
                        no_value(value.as_str()),
                    ));
                }
            },
            (Authority::Owned { set }, Some(found)) => match facts.owns(set, found) {
                Some(true) => {}
                Some(false) => {
                    let why = alloc::format!(
                        "`{name}` must be one of the set `{set}` that the application holds for \
                         this session; `{}` is not",
                        shown(found)
                    );
                    return Err(refuse(Rule::OwnedSet, Some(name), why));
                }
                None => {
                    let why = alloc::format!(
                        "this session has no set `{set}`; the operator gives it when the session \
                         is started"
                    );
                    return Err(refuse(Rule::OwnedSet, Some(name), why));
                }
            },
            (Authority::Payload, _)
            | (Authority::Owned { .. } | Authority::Verified { .. }, None) => {}
        }
    }
    Ok(complete)
}

fn no_value(name: &str) -> String {
    alloc::format!(
        "this session has no value `{name}`; the operator gives it when the session is started \
         (`--value {name}=...`)"
    )
}

/// A value of the agent's, for a sentence of ours.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => excerpt(text),
        other @ (Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Object(_)
        | Value::Real(_)) => excerpt(&String::from_utf8_lossy(&json::canonical(other))),
    }
}

fn taint(tool: &Tool, facts: &Facts, complete: &Arguments) -> Result<(), Refusal> {
    if facts.taint().is_empty() {
        return Ok(());
    }
    let reasons = || {
        let reasons: Vec<String> = facts.taint().iter().map(ToString::to_string).collect();
        reasons.join(" and ")
    };
    match tool.on_taint {
        OnTaint::Pass => Ok(()),
        OnTaint::Refuse => {
            let why = alloc::format!(
                "the session has seen untrusted content ({}), and this tool is not called after \
                 that; start a new session for it",
                reasons()
            );
            Err(refuse(Rule::Taint, None, why))
        }
        OnTaint::TrustedSinks => {
            // A member of an owned set is an approved value, but untrusted content may have chosen
            // which.
            let chosen = complete.keys().find(|name| {
                tool.arguments
                    .get(*name)
                    .is_some_and(|it| matches!(it.authority, Authority::Owned { .. }))
            });
            match chosen {
                None => Ok(()),
                Some(name) => {
                    let why = alloc::format!(
                        "the session has seen untrusted content ({}), and after that `{name}` must \
                         be a trusted value, not a choice; start a new session for it",
                        reasons()
                    );
                    Err(refuse(Rule::Taint, Some(name), why))
                }
            }
        }
    }
}

/// The vault asks the same again; here the agent still gets a reason.
fn on_floor(policy: &Policy, tool: &Tool, call: &Call) -> Result<(), Refusal> {
    let rendered = request::render(policy, call)
        .map_err(|why| refuse(Rule::Request, why.argument(), why.to_string()))?;
    let Some(credential) = policy.credential(&tool.credential) else {
        let why = alloc::format!("the policy has no credential `{}`", tool.credential);
        return Err(refuse(Rule::Request, None, why));
    };
    floor::check(&credential.floor, &rendered)
        .map_err(|why| refuse(Rule::Request, None, why.to_string()))
}

fn grounds(tool: &Tool, facts: &Facts, call: &Call) -> Grounds {
    Grounds {
        arguments: tool
            .arguments
            .iter()
            .filter(|(name, _)| call.arguments.contains_key(*name))
            .map(|(name, it)| (name.clone(), it.authority.clone()))
            .collect(),
        on_taint: tool.on_taint,
        taint: facts.taint().clone(),
    }
}

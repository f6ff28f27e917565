//! The decision on one call.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    digest::Digest,
    excerpt::excerpt,
    floor,
    id::{ArgumentName, CredentialLabel, ToolName},
    json::{self, Value},
    policy::{Authority, OnTaint, Policy, Tool},
    request,
    session::{Facts, Taint},
};

/// What was decided on a call.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Verdict {
    /// It may be performed.
    Allow(Allowed),
    /// It may not.
    Refuse(Refusal),
}

/// Proof that a call was allowed, and the only thing that a permit is made of. It carries the call
/// that was decided, so that what is performed cannot differ from what was judged.
///
/// ```compile_fail,E0451
/// # fn forge(call: gate::call::Call, digest: gate::digest::Digest) {
/// let forged = gate::decide::Allowed { call, digest, ..todo!() };
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Allowed {
    bytes: Vec<u8>,
    call: Call,
    credential: CredentialLabel,
    digest: Digest,
    grounds: Grounds,
    idempotent: bool,
    policy: Digest,
}

impl Allowed {
    /// The complete call, injected values in.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// The complete call in RFC 8785 form: what the vault gets beside the permit.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The tool.
    pub const fn tool(&self) -> &ToolName {
        &self.call.tool
    }

    /// The digest of the complete call.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The credential that it is performed with.
    pub const fn credential(&self) -> &CredentialLabel {
        &self.credential
    }

    /// Whether it may be repeated without another effect.
    pub const fn idempotent(&self) -> bool {
        self.idempotent
    }

    /// The policy that it was decided by.
    pub const fn policy(&self) -> Digest {
        self.policy
    }

    /// What the decision rests on.
    pub const fn grounds(&self) -> &Grounds {
        &self.grounds
    }
}

/// What an allowance rests on: enough to say later why.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grounds {
    /// Who supplied each argument of the call.
    pub arguments: BTreeMap<ArgumentName, Authority>,
    /// What the policy says of this tool in a tainted session.
    pub on_taint: OnTaint,
    /// Why the session was tainted; empty if it was not.
    pub taint: BTreeSet<Taint>,
}

/// A refusal, with a reason that the agent or the operator can act on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The rule.
    pub rule: Rule,
    /// The argument, if it is one that the policy names.
    pub argument: Option<ArgumentName>,
    /// Why, and what to do. Never repeats more than [`crate::excerpt::EXCERPT_MAX`] bytes of what
    /// the agent wrote, escaped.
    pub why: String,
}

/// The rules, in the order in which they are asked. The names are stable.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The tool's name is registered, byte for byte.
    UnknownTool,
    /// The call carries exactly the arguments that the agent may author.
    Arguments,
    /// Each argument has its type.
    Type,
    /// Each argument is within its bounds.
    Bounds,
    /// What must be a trusted value is it.
    TrustedValue,
    /// What must be of an owned set is of it.
    OwnedSet,
    /// A tainted session calls only what its policy lets it.
    Taint,
    /// The call has a request, and it stands on the credential's floor.
    Request,
}

impl Rule {
    /// The rule's stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::Arguments => "arguments",
            Self::Type => "type",
            Self::Bounds => "bounds",
            Self::TrustedValue => "trusted_value",
            Self::OwnedSet => "owned_set",
            Self::Taint => "taint",
            Self::Request => "request",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides on the call of `tool` with `arguments`, as the agent wrote them. Total and
/// deterministic. Every rule is asked before anything is allowed, and the first that says no is
/// the answer.
pub fn decide(policy: &Policy, facts: &Facts, tool: &str, arguments: &Value) -> Verdict {
    match allow(policy, facts, tool, arguments) {
        Ok(allowed) => Verdict::Allow(allowed),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

fn allow(
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

//! Who may author each argument: the application's values, its sets, a closed catalogue, the agent.

use alloc::string::{String, ToString as _};

use super::{
    Reason, Rule,
    shape::{Arguments, because},
};
use crate::{
    excerpt::excerpt,
    id::{ArgumentName, OwnedName, ToolName},
    json::{self, Value},
    mutant::Mutant,
    policy::{Authority, Branch, Catalogue, Found, Policy, Tool},
    session::{Facts, amount},
};

/// The arguments of a call, and what the agent wrote where something else is sent.
pub(super) struct Complete {
    pub(super) sent: Arguments,
    pub(super) written: Arguments,
}

/// Holds each argument to who may author it, puts the injected ones in, and a catalogue's value in
/// the place of its name.
pub(super) fn complete(
    policy: &Policy,
    facts: &Facts,
    tool: &Tool,
    branch: Option<(&str, &Branch)>,
    given: Arguments,
) -> Result<Complete, Reason> {
    let mut complete = given;
    let mut written = Arguments::new();
    for (name, argument) in &tool.arguments {
        match (&argument.authority, complete.get_mut(name)) {
            (Authority::Injected { value }, _) => {
                if Tool::is_active(branch, name) {
                    let held = facts
                        .value(value)
                        .ok_or_else(|| no_value(name, value.as_str()))?;
                    complete.insert(name.clone(), held.clone());
                }
            }
            (Authority::Verified { value }, Some(found)) => match facts.value(value) {
                Some(held) if held == found || Mutant::GateAuthority.is_on() => {}
                Some(_) => {
                    let why = alloc::format!(
                        "`{name}` must be exactly the value `{value}` that the application gave \
                         for this session; `{}` is not, wherever it came from",
                        shown(found)
                    );
                    let change = "write the application's value, type and all";
                    return Err(because(Rule::TrustedValue, Some(name), why, change));
                }
                None => return Err(no_value(name, value.as_str())),
            },
            (Authority::Owned { set }, Some(found)) => owned(facts, name, set, found)?,
            (Authority::Catalogue { catalogue }, Some(found)) => {
                written.insert(name.clone(), found.clone());
                let entries = policy.catalogues().get(catalogue);
                let words = catalogue.as_str();
                match (entries, found) {
                    (Some(entries), Value::List(items)) => items
                        .iter_mut()
                        .try_for_each(|it| resolve(name, words, entries, it))?,
                    (Some(entries), one) => resolve(name, words, entries, one)?,
                    (None, _) => return Err(no_entry(name, words, "nothing")),
                }
            }
            (Authority::Agent, _)
            | (
                Authority::Catalogue { .. } | Authority::Owned { .. } | Authority::Verified { .. },
                None,
            ) => {}
        }
    }
    Ok(Complete {
        sent: complete,
        written,
    })
}

fn no_value(name: &ArgumentName, value: &str) -> Reason {
    let why = alloc::format!(
        "this session has no value `{value}`; the operator gives it when the session is started \
         (`--value {value}=...`)"
    );
    because(
        Rule::TrustedValue,
        Some(name),
        why,
        "start the session with the value",
    )
}

fn owned(facts: &Facts, name: &ArgumentName, set: &OwnedName, found: &Value) -> Result<(), Reason> {
    let refuse = |why, change: &str| Err(because(Rule::OwnedSet, Some(name), why, change));
    // Of a list each item is one of the set; a set of lists holds it whole.
    let items = if let Value::List(items) = found
        && facts.owns(set, found) != Some(true)
    {
        items.as_slice()
    } else {
        core::slice::from_ref(found)
    };
    for item in items {
        match facts.owns(set, item) {
            Some(true) => {}
            Some(false) => {
                let why = alloc::format!(
                    "`{name}` must be one of the set `{set}` that the application holds for this \
                     session; `{}` is not",
                    shown(item)
                );
                return refuse(
                    why,
                    "name one of the set; the application says what is in it",
                );
            }
            None => {
                let why = alloc::format!(
                    "this session has no set `{set}`; the operator gives it when the session is \
                     started"
                );
                return refuse(why, "start the session with the set");
            }
        }
    }
    Ok(())
}

fn resolve(
    name: &ArgumentName,
    catalogue: &str,
    entries: &Catalogue,
    written: &mut Value,
) -> Result<(), Reason> {
    let Value::Text(text) = written else {
        return Err(no_entry(name, catalogue, &shown(written)));
    };
    match entries.find(text) {
        Found::Value(value) => {
            *text = value.to_string();
            Ok(())
        }
        Found::Nothing => Err(no_entry(name, catalogue, &excerpt(text))),
        Found::Ambiguous => {
            let why = alloc::format!(
                "`{name}`: `{}` is more than one entry of the catalogue `{catalogue}`",
                excerpt(text)
            );
            let change = "the operator gives each entry a name of its own, case and blanks aside";
            Err(because(Rule::Catalogue, Some(name), why, change))
        }
    }
}

fn no_entry(name: &ArgumentName, catalogue: &str, found: &str) -> Reason {
    because(
        Rule::Catalogue,
        Some(name),
        alloc::format!(
            "`{name}` must name an entry of the catalogue `{catalogue}`; `{found}` is none"
        ),
        "write an entry's name; the operator's policy says which there are",
    )
}

/// A value of the agent's, for a sentence of ours.
pub(super) fn shown(value: &Value) -> String {
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

/// What the task needs: the tool, so often, for so much, on these targets.
pub(super) fn scope(facts: &Facts, name: &ToolName, complete: &Arguments) -> Result<(), Reason> {
    let Some(scope) = facts.scope() else {
        return Ok(());
    };
    let refuse = |argument, why| {
        let change = "only the person who gave the task can start a session with a wider scope";
        Err(because(Rule::Scope, argument, why, change))
    };
    let Some(tool) = scope.tools.get(name) else {
        return refuse(
            None,
            alloc::format!("this session's task does not need `{name}`"),
        );
    };
    if let Some(most) = tool.calls.filter(|most| facts.calls(name) >= *most) {
        let why = alloc::format!("this session's task needs `{name}` {most} times, and had them");
        return refuse(None, why);
    }
    for (argument, most) in &tool.sums {
        let most = amount(most).unwrap_or(0.0);
        let spent = facts.history().sum(name, argument);
        let more = complete.get(argument).and_then(amount).unwrap_or(0.0);
        if spent + more > most {
            let why = alloc::format!(
                "this session's task needs {most} of `{argument}` in all; with this call it would \
                 be {}",
                spent + more
            );
            return refuse(Some(argument), why);
        }
    }
    for (argument, targets) in &tool.targets {
        let Some(value) = complete.get(argument) else {
            continue;
        };
        let fits = targets.contains(value)
            || matches!(value, Value::List(items) if items.iter().all(|it| targets.contains(it)));
        if !fits {
            let why = alloc::format!(
                "this session's task does not need `{argument}` to be `{}`",
                shown(value)
            );
            return refuse(Some(argument), why);
        }
    }
    Ok(())
}

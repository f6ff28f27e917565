//! Reads the rules of a policy, holds each to the schema of every tool that it can speak of, and sorts them
//! by tool: the decision on a call asks those alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr as _,
};

use cedar_policy::{
    ActionConstraint, Authorizer, Effect, EntityUid, Policy as Written, PolicyId, PolicySet,
    ResourceConstraint, Schema, ValidationMode, ValidationWarning, Validator,
};
use gate::{
    digest::Digest,
    id::{PolicyName, ToolName},
    policy::{Policy, Tool},
};
use miette::Diagnostic;

use crate::{
    Fault, Listed, RulesError,
    context::Types,
    reads::Reads,
    schema::{self, ACTION, CALL, TOOL, UNATTENDED},
};

/// The most bytes of an annotation: agents and operators are shown it.
const SAID_MAX: usize = 500;

/// What a rule may say of itself.
const ANNOTATIONS: [&str; 3] = ["id", "reason", "advice"];

/// The rules of a policy, loaded.
#[derive(Debug)]
pub struct Rules {
    pub(crate) authorizer: Authorizer,
    pub(crate) call: EntityUid,
    /// The digest of the policy that names them.
    pub(crate) policy: Digest,
    pub(crate) said: BTreeMap<PolicyId, Said>,
    /// Only tools that a rule can speak of.
    pub(crate) tools: BTreeMap<ToolName, Slice>,
    pub(crate) types: Types,
    pub(crate) unattended: EntityUid,
}

/// The rules that can speak of one tool.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Those of the first question. There is no `permit` among them: Cedar denies then, and names who
    /// forbids, which is all that is asked.
    pub(crate) call: PolicySet,
    pub(crate) reads: Reads,
    pub(crate) tool: EntityUid,
    /// Those whose answer to the second question can be another.
    pub(crate) unattended: Option<PolicySet>,
}

/// What is said of a call that a rule catches.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) advice: Option<String>,
    pub(crate) listed: Listed,
    pub(crate) reason: Option<String>,
}

/// One rule as it stands in the file.
struct One {
    actions: Actions,
    reads: Reads,
    said: Said,
    tool: Option<ToolName>,
    written: Written,
}

/// Which questions the head of a rule admits.
#[derive(Clone, Copy)]
struct Actions {
    call: bool,
    unattended: bool,
}

impl Rules {
    /// The rules that `policy` names, if it names some.
    ///
    /// # Errors
    /// When a rule is none, or speaks of what the policy has not. Everything that is wrong is said.
    pub fn load(policy: &Policy) -> Result<Self, RulesError> {
        let (file, text) = match policy.operator_rules() {
            Some(rules) => (rules.file.as_str(), rules.text.as_str()),
            None => ("", ""),
        };
        load(policy, text).map_err(|mut faults| {
            faults.sort();
            RulesError {
                policy: policy.name().clone(),
                file: file.into(),
                faults,
            }
        })
    }

    /// The rules, in the order of the file.
    pub fn list(&self) -> Vec<Listed> {
        let mut all: Vec<Listed> = self.said.values().map(|it| it.listed.clone()).collect();
        all.sort_by_key(|it| it.line);
        all
    }
}

fn load(policy: &Policy, text: &str) -> Result<Rules, Vec<Fault>> {
    let written = PolicySet::from_str(text).map_err(|errors| {
        let faults = errors.iter().map(|error| Fault {
            line: line(text, offset(error)),
            rule: None,
            what: said(error),
        });
        faults.collect::<Vec<_>>()
    })?;
    let mut faults: Vec<Fault> = written
        .templates()
        .map(|_| Fault {
            line: 1,
            rule: None,
            what: "a rule has no slots such as `?principal`; write what it speaks of".into(),
        })
        .collect();
    let mut rules: Vec<One> = Vec::new();
    for rule in written.policies() {
        match one(policy, text, rule) {
            Ok(one) => rules.push(one),
            Err(fault) => faults.push(fault),
        }
    }
    rules.sort_by_key(|it| it.said.listed.line);
    faults.extend(twice(&rules));
    if faults.is_empty() {
        faults.extend(check(policy, text, &rules));
    }
    if faults.is_empty() {
        assemble(policy, rules).map_err(|error| vec![fault(1, None, error)])
    } else {
        Err(faults)
    }
}

fn fault(line: usize, rule: Option<&str>, what: impl Into<String>) -> Fault {
    Fault {
        line,
        rule: rule.map(String::from),
        what: what.into(),
    }
}

/// What can be said of a rule without any schema.
fn one(policy: &Policy, text: &str, rule: &Written) -> Result<One, Fault> {
    let start = rule.as_ref().loc().map(|it| it.start());
    let line = line(text, start);
    let named = rule
        .annotation("id")
        .filter(|it| PolicyName::parse(it).is_ok());
    let bad = |what: String| fault(line, named, what);
    if rule.effect() == Effect::Permit {
        return Err(bad(
            "rules only narrow, and a `permit` says nothing here; write what is not allowed: \
             `forbid (...) unless { ... };`"
                .into(),
        ));
    }
    for (key, value) in rule.annotations() {
        if !ANNOTATIONS.contains(&key) {
            let known = ANNOTATIONS.map(|it| format!("`@{it}`")).join(", ");
            let key = gate::excerpt::excerpt(key);
            return Err(bad(format!("`@{key}` is not known; there are {known}")));
        }
        if value.len() > SAID_MAX || value.trim().is_empty() || value.chars().any(char::is_control)
        {
            return Err(bad(format!(
                "`@{key}` is one line of 1 to {SAID_MAX} bytes"
            )));
        }
    }
    let name = match rule.annotation("id") {
        // A name of the form that every name in a policy has.
        Some(id) => match named {
            Some(name) => name.into(),
            None => {
                let id = gate::excerpt::excerpt(id);
                return Err(bad(format!(
                    "`@id`: `{id}` is no name; a name is 1 to 64 of `a-z 0-9 _ -`, a letter first"
                )));
            }
        },
        None => format!("line {line}"),
    };
    let tool = tool(policy, rule).map_err(bad)?;
    let actions = actions(rule).map_err(bad)?;
    let reads = Reads::of(rule).map_err(|error| bad(error.to_string()))?;
    let of = |key| rule.annotation(key).map(String::from);
    Ok(One {
        actions,
        reads,
        said: Said {
            advice: of("advice"),
            listed: Listed {
                name,
                line,
                holds: !actions.call,
                tool: tool.clone().map(String::from),
            },
            reason: of("reason"),
        },
        tool,
        written: rule.clone(),
    })
}

/// The tool that the head of a rule names; none if it speaks of all.
fn tool(policy: &Policy, rule: &Written) -> Result<Option<ToolName>, String> {
    let (kind, uid) = match rule.resource_constraint() {
        ResourceConstraint::Any => return Ok(None),
        ResourceConstraint::Is(kind) => (kind, None),
        ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) => {
            (uid.type_name().clone(), Some(uid))
        }
        ResourceConstraint::IsIn(kind, uid) => (kind, Some(uid)),
    };
    if kind.to_string() != TOOL {
        return Err(format!(
            "the resource is a `{kind}`; it is always a tool: `resource == {TOOL}::\"...\"`"
        ));
    }
    let Some(uid) = uid else {
        return Ok(None);
    };
    let id = uid.id().unescaped();
    match policy.tools().get_key_value(id) {
        Some((name, _)) => Ok(Some(name.clone())),
        None => {
            let tools: Vec<&str> = policy.tools().keys().map(ToolName::as_str).collect();
            Err(format!(
                "the policy has no tool `{}`; it has {}",
                gate::excerpt::excerpt(id),
                tools.join(", ")
            ))
        }
    }
}

fn actions(rule: &Written) -> Result<Actions, String> {
    let named = match rule.action_constraint() {
        ActionConstraint::Any => {
            return Ok(Actions {
                call: true,
                unattended: true,
            });
        }
        ActionConstraint::Eq(uid) => vec![uid],
        ActionConstraint::In(uids) => uids,
    };
    let mut actions = Actions {
        call: false,
        unattended: false,
    };
    for uid in &named {
        match uid.id().unescaped() {
            _ if uid.type_name().to_string() != ACTION => {}
            CALL => {
                actions.call = true;
                continue;
            }
            UNATTENDED => {
                actions.unattended = true;
                continue;
            }
            _ => {}
        }
        return Err(format!(
            "there is no action `{uid}`; there are {ACTION}::\"{CALL}\", which refuses, and \
             {ACTION}::\"{UNATTENDED}\", which holds for a person"
        ));
    }
    Ok(actions)
}

/// Names that stand for two rules.
fn twice(rules: &[One]) -> Vec<Fault> {
    let mut seen = BTreeSet::new();
    rules
        .iter()
        .map(|it| &it.said.listed)
        .filter(|it| !seen.insert(it.name.as_str()))
        .map(|it| {
            let what = "two rules have this name, or begin in this line";
            fault(it.line, Some(&it.name), what)
        })
        .collect()
}

/// What is wrong with the rules for each tool that they can speak of, by its schema.
fn check(policy: &Policy, text: &str, rules: &[One]) -> Vec<Fault> {
    let mut found: BTreeMap<Fault, Vec<&ToolName>> = BTreeMap::new();
    let mut asked: BTreeMap<&PolicyId, usize> = BTreeMap::new();
    let mut idle: BTreeMap<&PolicyId, usize> = BTreeMap::new();
    for (name, tool) in policy.tools() {
        let of: Vec<&One> = of_tool(rules, name).collect();
        if of.is_empty() {
            continue;
        }
        let validator = match schema(policy, tool) {
            Ok(schema) => Validator::new(schema),
            Err(error) => return vec![fault(1, None, error)],
        };
        let set = match PolicySet::from_policies(of.iter().map(|it| it.written.clone())) {
            Ok(set) => set,
            Err(error) => return vec![fault(1, None, error.to_string())],
        };
        let result = validator.validate(&set, ValidationMode::Strict);
        for it in &of {
            *asked.entry(it.written.id()).or_default() += 1;
        }
        let at = |id: &PolicyId| of.iter().find(|it| it.written.id() == id);
        let mut push = |id: &PolicyId, error: &dyn Diagnostic| {
            let listed = at(id).map(|it| &it.said.listed);
            let line = match (offset(error), listed) {
                (Some(at), _) => line(text, Some(at)),
                (None, Some(listed)) => listed.line,
                (None, None) => 1,
            };
            let fault = fault(line, listed.map(|it| it.name.as_str()), said(error));
            let tools = found.entry(fault).or_default();
            if tools.last() != Some(&name) {
                tools.push(name);
            }
        };
        for error in result.validation_errors() {
            push(error.policy_id(), error);
        }
        for warning in result.validation_warnings() {
            let never = matches!(
                warning,
                ValidationWarning::ImpossiblePolicy(_)
                    | ValidationWarning::InvalidActionApplication(_)
            );
            // A text of two scripts is somebody's name. Whatever else Cedar warns of is an error.
            if let (true, Some(it)) = (never, at(warning.policy_id())) {
                *idle.entry(it.written.id()).or_default() += 1;
            } else if !matches!(warning, ValidationWarning::MixedScriptString(_)) {
                push(warning.policy_id(), warning);
            }
        }
    }
    let mut faults: Vec<Fault> = found
        .into_iter()
        .map(|(mut fault, tools)| {
            let names: Vec<String> = tools.iter().take(3).map(|it| format!("`{it}`")).collect();
            let more = tools.len().saturating_sub(names.len());
            fault
                .what
                .push_str(&format!(" (for calls of {}", names.join(", ")));
            if more > 0 {
                fault.what.push_str(&format!(" and {more} more"));
            }
            fault.what.push(')');
            fault
        })
        .collect();
    // What can never apply to any tool was meant otherwise.
    faults.extend(rules.iter().filter_map(|it| {
        let id = it.written.id();
        let never = idle.get(id).is_some_and(|idle| asked.get(id) == Some(idle));
        let listed = &it.said.listed;
        let what = "it can never apply: no call makes what it asks for true";
        never.then(|| fault(listed.line, Some(&listed.name), what))
    }));
    faults
}

fn of_tool<'a>(rules: &'a [One], name: &'a ToolName) -> impl Iterator<Item = &'a One> {
    rules
        .iter()
        .filter(move |it| it.tool.as_ref().is_none_or(|it| it == name))
}

fn schema(policy: &Policy, tool: &Tool) -> Result<Schema, String> {
    let text = schema::of(policy, tool);
    match Schema::from_cedarschema_str(&text) {
        Ok((schema, _warnings)) => Ok(schema),
        Err(error) => Err(format!("no schema can be made of the policy: {error}")),
    }
}

fn assemble(policy: &Policy, rules: Vec<One>) -> Result<Rules, String> {
    let text = |error: &dyn ToString| error.to_string();
    let types = Types::new().map_err(|it| text(&it))?;
    let uid = |of, id: &str| types.uid(of, id).map_err(|it| text(&it));
    let set = |of: Vec<&One>| {
        let of = of.into_iter().map(|it| it.written.clone());
        PolicySet::from_policies(of).map_err(|it| text(&it))
    };
    let mut tools = BTreeMap::new();
    for name in policy.tools().keys() {
        let of: Vec<&One> = of_tool(&rules, name).collect();
        if of.is_empty() {
            continue;
        }
        let mut reads = Reads::default();
        for it in &of {
            reads.add(&it.reads);
        }
        let first = of.iter().copied().filter(|it| it.actions.call).collect();
        // A rule of both questions that does not speak of the question was answered with the first.
        let second: Vec<&One> = of
            .iter()
            .copied()
            .filter(|it| it.actions.unattended && (!it.actions.call || it.reads.action))
            .collect();
        let slice = Slice {
            call: set(first)?,
            reads,
            tool: uid(TOOL, name.as_str())?,
            unattended: if second.is_empty() {
                None
            } else {
                Some(set(second)?)
            },
        };
        tools.insert(name.clone(), slice);
    }
    Ok(Rules {
        authorizer: Authorizer::new(),
        call: uid(ACTION, CALL)?,
        policy: policy.hash(),
        said: rules
            .into_iter()
            .map(|it| (it.written.id().clone(), it.said))
            .collect(),
        tools,
        unattended: uid(ACTION, UNATTENDED)?,
        types,
    })
}

/// What an error says, in one line, without Cedar's own name for the rule.
fn said(error: &dyn Diagnostic) -> String {
    const OWN: &str = "for policy `";
    let mut text = error.to_string();
    if let Some(help) = error.help() {
        text.push_str(&format!("; {help}"));
    }
    while let Some((before, rest)) = text.split_once(OWN) {
        // It ends with a backtick, and a comma or a colon.
        let Some((_, after)) = rest.split_once('`') else {
            break;
        };
        let after = after.trim_start_matches([',', ':']).trim_start();
        text = format!("{before}{after}");
    }
    // Most rules are of both questions, and what is wrong with one is so for each.
    for action in [CALL, UNATTENDED] {
        text = text.replace(&format!(" for {ACTION}::\"{action}\""), "");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    // What of the file it repeats does nothing to a terminal.
    let shown = words.join(" ");
    shown
        .chars()
        .flat_map(|it| -> Box<dyn Iterator<Item = char>> {
            if it == ' ' || it.is_alphanumeric() || it.is_ascii_graphic() {
                Box::new(std::iter::once(it))
            } else {
                Box::new(it.escape_default())
            }
        })
        .collect()
}

fn offset(error: &dyn Diagnostic) -> Option<usize> {
    error.labels()?.next().map(|it| it.offset())
}

/// The line of a byte, from 1.
fn line(text: &str, at: Option<usize>) -> usize {
    let before = text.bytes().take(at.unwrap_or_default());
    before.filter(|it| *it == b'\n').count().saturating_add(1)
}

//! What of the context the rules of a tool read. No more of it is made for a call: a rule that looks at one
//! amount costs no look-up of where a text of 4 KB comes from.

use std::collections::BTreeMap;

use cedar_policy::{Policy, PolicyToJsonError, PrincipalConstraint};
use serde_json::Value;

/// What is read of a record: all of it, or these of its members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    whole: bool,
    within: BTreeMap<String, Part>,
}

impl Part {
    /// What is read of a member; none if nothing is.
    pub(crate) fn of(&self, name: &str) -> Option<&Self> {
        if self.whole {
            Some(self)
        } else {
            self.within.get(name)
        }
    }

    fn insert(&mut self, path: &[String]) {
        match path {
            [] => self.whole = true,
            [first, rest @ ..] => self.within.entry(first.clone()).or_default().insert(rest),
        }
    }

    fn add(&mut self, other: &Self) {
        self.whole |= other.whole;
        for (name, part) in &other.within {
            self.within.entry(name.clone()).or_default().add(part);
        }
    }
}

/// What rules read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Whether a condition speaks of the action: then it may differ from question to question.
    pub(crate) action: bool,
    /// Of the context.
    pub(crate) context: Part,
    /// Whether a rule speaks of the principal, whose roles have to be there then.
    pub(crate) principal: bool,
}

impl Reads {
    /// What one rule reads.
    pub(crate) fn of(rule: &Policy) -> Result<Self, Box<PolicyToJsonError>> {
        let mut reads = Self {
            principal: rule.principal_constraint() != PrincipalConstraint::Any,
            ..Self::default()
        };
        let written = rule.to_json()?;
        if let Some(conditions) = written.get("conditions") {
            reads.walk(conditions);
        }
        Ok(reads)
    }

    /// What both read.
    pub(crate) fn add(&mut self, other: &Self) {
        self.context.add(&other.context);
        self.action |= other.action;
        self.principal |= other.principal;
    }

    fn walk(&mut self, written: &Value) {
        match written {
            Value::Array(items) => items.iter().for_each(|it| self.walk(it)),
            Value::Object(members) => {
                if let Some(path) = path(written) {
                    self.context.insert(&path);
                    return;
                }
                match members.get("Var").and_then(Value::as_str) {
                    Some("action") => self.action = true,
                    Some("principal") => self.principal = true,
                    Some(_) | None => members.values().for_each(|it| self.walk(it)),
                }
            }
            Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The path of an expression that is the context, or a member of a member of it.
fn path(written: &Value) -> Option<Vec<String>> {
    let members = written.as_object()?;
    if members.get("Var").and_then(Value::as_str) == Some("context") {
        return Some(Vec::new());
    }
    let step = members.get(".").or_else(|| members.get("has"))?;
    let mut path = path(step.get("left")?)?;
    path.push(step.get("attr")?.as_str()?.into());
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Read(Reads);

    impl Read {
        fn has(&self, path: &[&str]) -> bool {
            let mut part = Some(&self.0.context);
            for step in path {
                part = part.and_then(|it| it.of(step));
            }
            part.is_some()
        }
    }

    fn reads(condition: &str) -> Read {
        let text = format!("forbid (principal, action, resource) when {{ {condition} }};");
        Read(Reads::of(&Policy::parse(None, text).unwrap()).unwrap())
    }

    #[test]
    fn what_is_read_is_what_a_rule_names_and_what_is_around_it() {
        let reads = reads("context.args has to && context.args.to.value like \"*@a.test\"");
        assert!(reads.has(&["args"]));
        assert!(reads.has(&["args", "to", "value"]));
        assert!(
            reads.has(&["args", "to", "origin"]),
            "`has` stands for all of it"
        );
        assert!(!reads.has(&["args", "body"]));
        assert!(!reads.has(&["session"]));
        assert!(!reads.0.action && !reads.0.principal);
    }

    #[test]
    fn a_record_that_is_used_whole_is_read_whole() {
        for condition in [
            "context == {\".\": 1}",
            "[context].contains({})",
            "(if true then context else context).session.tainted",
        ] {
            let reads = reads(condition);
            assert!(reads.has(&["session", "tainted"]), "{condition}");
            assert!(reads.has(&["args", "to", "origin"]), "{condition}");
        }
        assert!(reads("context.args == {}").has(&["args", "to", "value"]));
    }

    #[test]
    fn a_rule_that_speaks_of_the_action_or_the_principal_is_seen() {
        assert!(reads("action == Action::\"call\"").0.action);
        assert!(reads("principal in Role::\"a\"").0.principal);
        let scope = "forbid (principal in Role::\"a\", action, resource);";
        assert!(
            Reads::of(&Policy::parse(None, scope).unwrap())
                .unwrap()
                .principal
        );
    }
}

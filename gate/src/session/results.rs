//! What a result brings in, field by field: whose words each is, and which records the person's words
//! selected ([`crate::selection`]).

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Facts, Taint, origins};
use crate::{
    call::Call,
    id::ToolName,
    json::Value,
    lineage::{self, Source},
    policy::{FieldLabel, Label, OriginClass, Place, Policy, Risk, Tool},
    selection::{Performed, Step},
};

/// The shortest text of an argument that makes a field an echo of it.
const ECHO: usize = 3;

impl Facts {
    /// The result of `call` reaches the agent. Says how it is labelled; an untrusted one taints the
    /// session, and so does the result of a tool that the policy has not.
    pub fn record_result(&mut self, policy: &Policy, call: &Call, result: &Value) -> Label {
        let source = Source::Result {
            call: call.digest(),
            digest: origins::digest(result),
            tool: call.tool.clone(),
        };
        let Some(tool) = policy.tools().get(&call.tool) else {
            let labels = lineage::Labels::all(lineage::Label::Untrusted);
            self.note(source, result, &labels);
            return self.record_taint(&call.tool);
        };
        let echoes = self.echoes(tool, call);
        let echoed = |text: &str| echoes.iter().any(|it| text.contains(it.as_str()));
        let mut labels = origins::labels(&tool.result);
        if !echoes.is_empty() {
            each_text(result, &mut String::new(), &mut |pointer, text| {
                if echoed(text) {
                    labels = origins::with(labels.clone(), pointer, lineage::Label::Untrusted);
                }
            });
        }
        self.select(tool, call, result, &echoed);
        self.note(source, result, &labels);
        if tool.result.taints() {
            self.record_taint(&call.tool)
        } else {
            Label::Trusted
        }
    }

    /// Words in which a call failed reach the agent: as its result would.
    pub fn record_words(&mut self, policy: &Policy, call: &Call, words: &str) -> Label {
        self.record_result(policy, call, &Value::Text(words.replace('\0', "\u{fffd}")))
    }

    fn record_taint(&mut self, tool: &ToolName) -> Label {
        self.taint.insert(Taint::Result { tool: tool.clone() });
        Label::Untrusted
    }

    fn select(&mut self, tool: &Tool, call: &Call, result: &Value, echoed: &dyn Fn(&str) -> bool) {
        let risk = tool
            .branch(&call.arguments)
            .map_or(tool.risk, |(_, branch)| branch.risk);
        // What the application supplied is as good as said.
        let arguments = Value::List(
            call.arguments
                .iter()
                .filter(|(name, _)| {
                    tool.arguments
                        .get(*name)
                        .is_none_or(|it| !it.authority.is_trusted_value())
                })
                .map(|(_, value)| value.clone())
                .collect(),
        );
        let mut selection = core::mem::take(&mut self.selection);
        selection.record(&Performed {
            arguments: &arguments,
            effect: risk != Risk::Read,
            is_system: &|path| {
                let path: Vec<Place<'_>> = path
                    .iter()
                    .map(|step| match step {
                        Step::Item(index) => Place::Item(*index),
                        Step::Member(name) => Place::Member(name),
                    })
                    .collect();
                let echo = match find(result, &path) {
                    Some(Value::Text(text)) => echoed(text),
                    Some(_) | None => false,
                };
                !echo && tool.result.of(&path) <= FieldLabel::System
            },
            is_said: &|value| self.is_said(value),
            result,
        });
        self.selection = selection;
    }

    /// What the agent put into the call that nobody trusted supplied: a system that repeats it does
    /// not make it its own.
    fn echoes(&self, tool: &Tool, call: &Call) -> Vec<String> {
        let mut echoes = Vec::new();
        if self.taint.is_empty() {
            return echoes;
        }
        for (name, value) in &call.arguments {
            let trusted = tool
                .arguments
                .get(name)
                .is_some_and(|it| it.authority.is_trusted_value());
            if trusted {
                continue;
            }
            each_leaf(value, &mut |leaf| {
                if let Value::Text(text) = leaf
                    && text.chars().count() >= ECHO
                    && self.origin(leaf).class > OriginClass::System
                {
                    echoes.push(text.clone());
                }
            });
        }
        echoes
    }
}

/// What stands at `path`.
fn find<'v>(value: &'v Value, path: &[Place<'_>]) -> Option<&'v Value> {
    path.iter().try_fold(value, |at, place| match place {
        Place::Member(name) => match at {
            Value::Object(members) => members.get(*name),
            Value::Bool(_)
            | Value::Int(_)
            | Value::List(_)
            | Value::Null
            | Value::Real(_)
            | Value::Text(_) => None,
        },
        Place::Item(index) => match at {
            Value::List(items) => items.get(*index),
            Value::Bool(_)
            | Value::Int(_)
            | Value::Null
            | Value::Object(_)
            | Value::Real(_)
            | Value::Text(_) => None,
        },
    })
}

/// Calls `act` with each text in `value`, and the pointer (RFC 6901) to it.
fn each_text(value: &Value, pointer: &mut String, act: &mut impl FnMut(&str, &str)) {
    let mut inner = |step: &str, value: &Value, pointer: &mut String| {
        let len = pointer.len();
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        each_text(value, pointer, act);
        pointer.truncate(len);
    };
    match value {
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                inner(&index.to_string(), item, pointer);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                inner(name, member, pointer);
            }
        }
        Value::Text(text) => act(pointer, text),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) => {}
    }
}

/// Calls `act` with each value in `value` that holds no other.
pub(crate) fn each_leaf(value: &Value, act: &mut impl FnMut(&Value)) {
    match value {
        Value::List(items) => items.iter().for_each(|it| each_leaf(it, act)),
        Value::Object(members) => members.values().for_each(|it| each_leaf(it, act)),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {
            act(value);
        }
    }
}

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
    mutant::Mutant,
    policy::{FieldLabel, Label, OriginClass, Place, Policy, Risk, Tool},
    selection::{Performed, Step},
};

/// The shortest text of an argument that makes a field an echo of it.
const ECHO: usize = 3;

/// The shortest text of a field that is an echo where it is a part of an argument.
const CUT: usize = 6;

/// What the agent put into a call that nobody trusted supplied: a system that repeats it, whole or in
/// part, does not make it its own.
#[derive(Default)]
struct Echoes {
    numbers: Vec<Value>,
    texts: Vec<String>,
}

impl Echoes {
    const fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.texts.is_empty()
    }

    fn has_text(&self, text: &str) -> bool {
        let cut = text.chars().count() >= CUT;
        self.texts
            .iter()
            .any(|it| text.contains(it.as_str()) || (cut && it.contains(text)))
    }

    /// The pointer (RFC 6901) to each part of `value` that is an echo. Of an object with a name that is
    /// one, nothing is the system's.
    fn pointers(&self, value: &Value, pointer: &mut String, found: &mut Vec<String>) {
        match value {
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    within(&index.to_string(), pointer, |it| {
                        self.pointers(item, it, found);
                    });
                }
            }
            Value::Object(members) if members.keys().any(|it| self.has_text(it)) => {
                found.push(pointer.clone());
            }
            Value::Object(members) => {
                for (name, member) in members {
                    within(name, pointer, |it| self.pointers(member, it, found));
                }
            }
            Value::Text(text) if self.has_text(text) => found.push(pointer.clone()),
            Value::Int(_) | Value::Real(_) if self.numbers.contains(value) => {
                found.push(pointer.clone());
            }
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
        }
    }
}

/// One step further in.
fn within(step: &str, pointer: &mut String, act: impl FnOnce(&mut String)) {
    let len = pointer.len();
    pointer.push('/');
    pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    act(pointer);
    pointer.truncate(len);
}

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
        let mut echoes = Vec::new();
        let said = self.echoes(tool, call);
        if !said.is_empty() {
            said.pointers(result, &mut String::new(), &mut echoes);
        }
        let labels = echoes
            .iter()
            .fold(origins::labels(&tool.result), |labels, pointer| {
                origins::with(labels, pointer, lineage::Label::Untrusted)
            });
        self.select(tool, call, result, &echoes);
        if self.taint.is_empty() || !Mutant::GateFirstResult.is_on() {
            self.note(source, result, &labels);
        }
        if let Value::Text(text) = result
            && Mutant::GateUntrustedWords.is_on()
        {
            self.record_message(text);
        }
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

    fn select(&mut self, tool: &Tool, call: &Call, result: &Value, echoes: &[String]) {
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
                let mut pointer = String::new();
                let mut places = Vec::new();
                let mut echo = is_echo(echoes, &pointer);
                for step in path {
                    let (place, name) = match step {
                        Step::Item(index) => (Place::Item(*index), index.to_string()),
                        Step::Member(name) => (Place::Member(name), String::from(*name)),
                    };
                    places.push(place);
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    echo |= is_echo(echoes, &pointer);
                }
                !echo && tool.result.of(&places) <= FieldLabel::System
            },
            is_said: &|value| self.is_said(value),
            result,
        });
        self.selection = selection;
    }

    fn echoes(&self, tool: &Tool, call: &Call) -> Echoes {
        let mut echoes = Echoes::default();
        if self.taint.is_empty() || Mutant::GateEcho.is_on() {
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
            each_leaf(value, &mut |leaf| match leaf {
                Value::Text(text) => {
                    if text.chars().count() >= ECHO && self.find(leaf).class > OriginClass::System {
                        echoes.texts.push(text.clone());
                    }
                }
                Value::Int(_) | Value::Real(_) => {
                    if self.find(leaf).class > OriginClass::System {
                        echoes.numbers.push(leaf.clone());
                    }
                }
                Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) => {}
            });
        }
        echoes
    }
}

fn is_echo(echoes: &[String], pointer: &str) -> bool {
    echoes.iter().any(|it| it == pointer)
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

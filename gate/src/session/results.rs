//! What a result brings in, field by field: whose words each is, and which records the person's words
//! selected ([`crate::selection`]).

use alloc::{
    collections::BTreeSet,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Facts, Taint, origins};
use crate::{
    call::Call,
    id::ToolName,
    json::{self, Value},
    lineage::{self, Source, squash},
    mutant::Mutant,
    policy::{FieldLabel, Label, Place, Policy, Risk, Tool},
    record::Opening,
    selection::{Performed, Step},
    task_words::TaskWords,
};

/// The shortest text of an argument that makes a field an echo of it.
const ECHO: usize = 3;

/// The shortest text of a field that is an echo where it is a part of an argument.
const CUT: usize = 6;

/// The most texts and numbers of a call that are looked for, and the most fields that are found to be an
/// echo. Beyond either nothing of the result is the system's: the time that this takes is the agent's to
/// waste, and there is one gate.
const MOST: usize = 64;

/// What the agent put into a call that nobody trusted supplied: a system that repeats it, whole or in
/// part, or in another spelling, does not make it its own.
#[derive(Default)]
struct Echoes {
    numbers: BTreeSet<String>,
    /// In what their spellings have in common.
    texts: BTreeSet<String>,
}

/// Where a result repeats the call.
enum Echoed {
    /// Perhaps everywhere.
    All,
    /// At these pointers (RFC 6901), and inside.
    At(BTreeSet<String>),
}

impl Echoed {
    fn has(&self, pointer: &str) -> bool {
        match self {
            Self::All => true,
            Self::At(pointers) => pointers.contains(pointer),
        }
    }
}

impl Echoes {
    fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.texts.is_empty()
    }

    fn has_text(&self, text: &str) -> bool {
        let text = squash(text);
        let cut = text.len() >= CUT;
        let in_number = |it: &String| it.len() >= ECHO && text.contains(it.as_str());
        self.numbers.contains(&text)
            || self.numbers.iter().any(in_number)
            || self
                .texts
                .iter()
                .any(|it| text.contains(it.as_str()) || (cut && it.contains(&text)))
    }

    fn has_number(&self, number: &Value) -> bool {
        let number = digits(number);
        let in_text = |it: &String| *it == number || (number.len() >= ECHO && it.contains(&number));
        self.numbers.contains(&number) || self.texts.iter().any(in_text)
    }

    /// Where `value` has an echo. Of an object with a name that is one, nothing is the system's.
    fn find(&self, value: &Value) -> Echoed {
        let mut found = BTreeSet::new();
        if self.numbers.len().max(self.texts.len()) > MOST {
            return Echoed::All;
        }
        self.pointers(value, &mut String::new(), &mut found);
        if found.len() > MOST {
            Echoed::All
        } else {
            Echoed::At(found)
        }
    }

    fn pointers(&self, value: &Value, pointer: &mut String, found: &mut BTreeSet<String>) {
        if found.len() > MOST {
            return;
        }
        match value {
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    within(&index.to_string(), pointer, |it| {
                        self.pointers(item, it, found);
                    });
                }
            }
            Value::Object(members) if members.keys().any(|it| self.has_text(it)) => {
                found.insert(pointer.clone());
            }
            Value::Object(members) => {
                for (name, member) in members {
                    within(name, pointer, |it| self.pointers(member, it, found));
                }
            }
            Value::Text(text) if self.has_text(text) => {
                found.insert(pointer.clone());
            }
            Value::Int(_) | Value::Real(_) if self.has_number(value) => {
                found.insert(pointer.clone());
            }
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
        }
    }
}

/// The digits of a number: what a text has of it, however it is written there.
fn digits(number: &Value) -> String {
    squash(&String::from_utf8_lossy(&json::canonical(number)))
}

/// The labels of a result, of which nothing is a system's where it repeats the call.
fn labels(tool: &Tool, echoed: &Echoed) -> lineage::Labels {
    let untrusted = lineage::Labels::all(lineage::Label::Untrusted);
    let Echoed::At(pointers) = echoed else {
        return untrusted;
    };
    pointers
        .iter()
        .try_fold(origins::labels(&tool.result), |labels, pointer| {
            // And what is inside, whatever a rule of the policy says of it.
            let inside = alloc::format!("{pointer}/**");
            labels.with(&inside, lineage::Label::Untrusted)
        })
        .unwrap_or(untrusted)
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
        let echoes = self.echoes(tool, call);
        let echoed = if echoes.is_empty() {
            Echoed::At(BTreeSet::new())
        } else {
            echoes.find(result)
        };
        let labels = labels(tool, &echoed);
        self.select(tool, call, result, &echoed);
        if self.taint.is_empty() || !Mutant::GateFirstResult.is_on() {
            self.note(source, result, &labels);
        }
        if let Value::Text(text) = result
            && Mutant::GateUntrustedWords.is_on()
        {
            self.record_message(text, 0);
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

    /// A stream of `opening` begins to reach the agent. Its text passes by: an untrusted one taints the
    /// session, and from then on a value that nothing has may be that text's.
    pub fn record_stream(&mut self, tool: &ToolName, opening: &Opening) -> Label {
        if opening.label == Label::Trusted || Mutant::GateLeaseLabel.is_on() {
            return Label::Trusted;
        }
        self.blind = true;
        self.record_taint(tool)
    }

    fn record_taint(&mut self, tool: &ToolName) -> Label {
        self.taint.insert(Taint::Result { tool: tool.clone() });
        Label::Untrusted
    }

    fn select(&mut self, tool: &Tool, call: &Call, result: &Value, echoed: &Echoed) {
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
                let mut echo = echoed.has(&pointer);
                for step in path {
                    let (place, name) = match step {
                        Step::Item(index) => (Place::Item(*index), index.to_string()),
                        Step::Member(name) => (Place::Member(name), String::from(*name)),
                    };
                    places.push(place);
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    echo |= echoed.has(&pointer);
                }
                !echo && tool.result.of(&places) <= FieldLabel::System
            },
            is_said: &|value| self.is_said(value) && !is_nothing(value),
            result,
            whole: !tool.result.may_have_cut(result),
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
            each_leaf(value, &mut |leaf| {
                let full = echoes.numbers.len().max(echoes.texts.len()) > MOST;
                match leaf {
                    _ if full => {}
                    Value::Text(text) => {
                        let folded = squash(text);
                        if folded.len() >= ECHO && !self.is_known(leaf) {
                            echoes.texts.insert(folded);
                        }
                    }
                    Value::Int(_) | Value::Real(_) => {
                        if !self.is_known(leaf) {
                            echoes.numbers.insert(digits(leaf));
                        }
                    }
                    Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) => {}
                }
            });
        }
        echoes
    }
}

/// A word that every task has selects nothing.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Text(text) if TaskWords::is_nothing(text))
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

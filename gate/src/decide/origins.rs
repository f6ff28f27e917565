//! Where the values of a call come from, once untrusted content has come into its session.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use super::{
    Ground, Reason, Rule,
    authority::shown,
    shape::{Arguments, because},
};
use crate::{
    id::ArgumentName,
    json::Value,
    lineage::{Link, LinkKind, links},
    mutant::Mutant,
    policy::{Answer, Argument, Authority, Kind, Links, OriginClass, Role, Tool},
    session::{Facts, Found, each_leaf},
    task_words::TaskWords,
};

/// What was found of one call's values.
pub(super) struct Looked {
    /// Whether something in the call shows whose will it is: a target or an anchor that passed.
    pub(super) anchored: bool,
    /// What catches the call, each with its answer.
    pub(super) caught: Vec<(Answer, Reason)>,
    /// Whether each target is a trusted value or named by authoritative text, and there is one.
    pub(super) named: bool,
    /// Whether there is a target.
    pub(super) targets: bool,
}

/// Looks at each argument of a call in a tainted session. What it finds is put into `grounds`.
pub(super) fn look(
    facts: &Facts,
    tool: &Tool,
    written: &Arguments,
    complete: &Arguments,
    external: External,
    grounds: &mut BTreeMap<ArgumentName, Ground>,
) -> Looked {
    let mut looked = Looked {
        anchored: false,
        caught: Vec::new(),
        named: true,
        targets: false,
    };
    // Asked where it matters: every word of every payload is looked up.
    let own_words = || payloads_are_own(facts, tool, complete);
    for (name, value) in complete {
        let Some(argument) = tool.arguments.get(name) else {
            continue;
        };
        // A catalogue's value is what is sent, and its name is what the agent wrote.
        let written = written.get(name).unwrap_or(value);
        if argument.role.is_target() || argument.is_constrained() {
            target(
                facts,
                name,
                argument,
                written,
                &own_words,
                grounds,
                &mut looked,
            );
        }
        if argument.anchor && !argument.role.is_target() {
            anchor(facts, name, value, &mut looked);
        }
        let leaves = external == External::Yes && argument.links == Links::Known;
        if leaves {
            known_links(facts, name, value, &mut looked);
        }
    }
    looked.named &= looked.targets;
    looked
}

/// Whether what the call says goes beyond the operator's own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum External {
    No,
    Yes,
}

/// Whether every payload of the call is the person's own words.
fn payloads_are_own(facts: &Facts, tool: &Tool, complete: &Arguments) -> bool {
    complete.iter().all(|(name, value)| {
        let payload = tool
            .arguments
            .get(name)
            .is_some_and(|it| it.role == Role::Payload);
        let mut own = true;
        if payload {
            each_leaf(value, &mut |leaf| match leaf {
                Value::Text(text) => own &= facts.words().beyond(text).is_none(),
                Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) => {}
                Value::List(_) | Value::Object(_) => own = false,
            });
        }
        own
    })
}

fn target(
    facts: &Facts,
    name: &ArgumentName,
    argument: &Argument,
    written: &Value,
    own_words: &dyn Fn() -> bool,
    grounds: &mut BTreeMap<ArgumentName, Ground>,
    looked: &mut Looked,
) {
    let is_target = argument.role.is_target();
    if argument.authority.is_trusted_value() {
        looked.targets |= is_target;
        looked.anchored |= is_target;
        return;
    }
    let mut worst: Option<(Found, Value)> = None;
    each_target(&argument.kind, written, &mut |leaf| {
        let found = of(facts, argument, leaf);
        if worst.as_ref().is_none_or(|(it, _)| it.class < found.class) {
            worst = Some((found, leaf.clone()));
        }
    });
    // An empty list names nothing, and shows nobody's will.
    let Some((found, leaf)) = worst else {
        return;
    };
    let class = found.class;
    let said_by = facts.said_by(&found);
    if let Some(ground) = grounds.get_mut(name) {
        ground.in_untrusted = class < OriginClass::Untrusted && found.is_in_untrusted();
        ground.origin = Some(class);
        ground.said_by = said_by.clone();
    }
    looked.targets |= is_target;
    looked.named &= !is_target || class == OriginClass::Authoritative;
    // What nothing has may stand in a stream's text, which nobody indexed: it has to pass as either.
    let either = class != OriginClass::Unknown
        || !facts.is_blind()
        || argument.origins.contains(&OriginClass::Untrusted);
    let member = argument.member && class == OriginClass::System && own_words();
    if (argument.origins.contains(&class) && either) || member || Mutant::GateOrigins.is_on() {
        looked.anchored |= is_target;
    } else {
        let why = if either {
            unaccepted(name, argument, &leaf, class, said_by.first())
        } else {
            alloc::format!(
                "the session has read untrusted text that is not kept (a stream, or what a session above \
                 it read): `{}` is found nowhere, so it may stand there, and `{name}` is not accepted from \
                 untrusted content",
                shown(&leaf)
            )
        };
        let change = alloc::format!(
            "a person's approval, or a value that comes from one of: {}",
            words(argument)
        );
        let reason = because(Rule::Origin, Some(name), why, change);
        looked.caught.push((argument.on_origin, reason));
    }
}

/// Where the value of an argument comes from, as the agent wrote it; of several values, the worst. The
/// same that a tainted session's call is judged by.
pub fn class_of(facts: &Facts, argument: &Argument, written: &Value) -> OriginClass {
    if argument.authority.is_trusted_value() {
        return OriginClass::Authoritative;
    }
    let mut worst = None;
    each_target(&argument.kind, written, &mut |leaf| {
        worst = worst.max(Some(of(facts, argument, leaf).class));
    });
    // What says nothing comes from nowhere.
    worst.unwrap_or(OriginClass::Unknown)
}

/// Calls `act` with each value in `value` that says what an effect is on. A member of an object that is
/// one of a few listed words, or yes or no, says of what kind its neighbours are.
fn each_target(kind: &Kind, value: &Value, act: &mut impl FnMut(&Value)) {
    match (kind, value) {
        (Kind::Object { members }, Value::Object(found)) => {
            for (name, value) in found {
                match members.get(name.as_str()).map(|it| &it.kind) {
                    Some(Kind::Boolean | Kind::Enum { .. }) => {}
                    Some(kind) => each_target(kind, value, act),
                    None => each_leaf(value, act),
                }
            }
        }
        (Kind::List { items, .. }, Value::List(found)) => {
            found.iter().for_each(|it| each_target(items, it, act));
        }
        (_, value) => each_leaf(value, act),
    }
}

/// Where `leaf` was found, for this argument.
/// Where the value of an argument comes from; of several, the worst. None where there is none.
pub(super) fn worst(facts: &Facts, argument: &Argument, value: &Value) -> Option<OriginClass> {
    let mut worst = None;
    each_target(&argument.kind, value, &mut |leaf| {
        worst = worst.max(Some(of(facts, argument, leaf).class));
    });
    worst
}

fn of(facts: &Facts, argument: &Argument, leaf: &Value) -> Found {
    let mut found = match argument.role {
        Role::Identifier => facts.find_identifier(leaf),
        Role::Payload | Role::Sink | Role::Typed => facts.find(leaf),
    };
    // The task says `the`, but not as a password or a recipient.
    if let Value::Text(text) = leaf
        && found.class == OriginClass::Authoritative
        && TaskWords::is_nothing(text)
    {
        found.class = OriginClass::Unknown;
    }
    // A member of a set or a catalogue is there, whoever else says it; who chose it is open.
    let listed = match &argument.authority {
        Authority::Catalogue { .. } | Authority::Owned { .. } => true,
        Authority::Agent | Authority::Injected { .. } | Authority::Verified { .. } => false,
    };
    if listed && found.class > OriginClass::System {
        found.class = OriginClass::System;
    }
    found
}

fn unaccepted(
    name: &ArgumentName,
    argument: &Argument,
    leaf: &Value,
    class: OriginClass,
    by: Option<&String>,
) -> String {
    let leaf = shown(leaf);
    let from = match class {
        OriginClass::Authoritative => "the person's words",
        OriginClass::Derived => "a record that the person's words select",
        OriginClass::System => "a system's own field, of a record that nobody trusted selected",
        OriginClass::Untrusted => "untrusted content",
        OriginClass::Unknown => "nowhere that is known",
    };
    let by = match by {
        Some(by) => alloc::format!(" ({by})"),
        None => String::new(),
    };
    alloc::format!(
        "the session has seen untrusted content, and after that `{name}` must come from one of: \
         {}; `{leaf}` comes from {from}{by}",
        words(argument)
    )
}

fn words(argument: &Argument) -> String {
    let words: Vec<&str> = argument.origins.iter().map(|it| it.as_str()).collect();
    words.join(", ")
}

/// An argument whose words show whose will the call is: they are the person's, or those of one value
/// that a system has.
fn anchor(facts: &Facts, name: &ArgumentName, value: &Value, looked: &mut Looked) {
    let mut own = true;
    let mut any = false;
    each_leaf(value, &mut |leaf| match leaf {
        Value::Text(text) if text.trim().is_empty() => {}
        Value::Text(text) => {
            any = true;
            own &= match facts.words().beyond(text) {
                None => true,
                Some(rest) => facts.is_known_value(text) || facts.is_known_value(rest),
            };
        }
        Value::Null => {}
        Value::Bool(_) | Value::Int(_) | Value::List(_) | Value::Object(_) | Value::Real(_) => {
            own &= facts.find(leaf).class <= OriginClass::System;
            any = true;
        }
    });
    if any && own {
        looked.anchored = true;
    } else if any {
        let why = alloc::format!(
            "the session has seen untrusted content, and after that the words of `{name}` must be \
             the person's, or those of one value that a system has; `{}` says more",
            shown(value)
        );
        let change = "a person's approval, or words that the task has";
        looked
            .caught
            .push((Answer::Hold, because(Rule::Anchor, Some(name), why, change)));
    }
}

/// Each address and link in what leaves comes from where a sink may come from.
fn known_links(facts: &Facts, name: &ArgumentName, value: &Value, looked: &mut Looked) {
    let mut strange = None;
    each_leaf(value, &mut |leaf| {
        if let (Value::Text(text), None) = (leaf, &strange) {
            // An account or a telephone number leads nobody anywhere.
            let leads = |it: &Link<'_>| it.kind != LinkKind::Code;
            strange = links(text).into_iter().filter(leads).find_map(|link| {
                let class = facts.find(&Value::Text(link.text.into())).class;
                (class > OriginClass::Derived).then(|| (String::from(link.text), class))
            });
        }
    });
    if let Some((link, class)) = strange {
        let why = alloc::format!(
            "the session has seen untrusted content, and `{name}` leaves with `{}`, which comes \
             from {}",
            shown(&Value::Text(link)),
            match class {
                OriginClass::Untrusted => "untrusted content",
                OriginClass::Authoritative
                | OriginClass::Derived
                | OriginClass::System
                | OriginClass::Unknown => "nobody trusted",
            }
        );
        let change = "a person's approval, or a text without it";
        looked
            .caught
            .push((Answer::Hold, because(Rule::Links, Some(name), why, change)));
    }
}

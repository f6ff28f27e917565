//! Which records the person's own words selected.
//!
//! A value may be genuine, an entry of a catalogue, and still be an attacker's choice: his text says
//! which of the entries to take. So it is not enough for a sink that a system of record says the value; the
//! *record* must have been selected by somebody with authority. It was when
//!
//! 1. the call that brought it had arguments, all of them authored by the person (or selected in their turn), and
//!    what came is one record: no list on the way to the value has two items, and no object two records; or
//! 2. another of the record's own system fields is a text that the person's words have (`name: "Ada
//!    Quill"` selects `email`), and no other record of the list says the same there: of two of a name
//!    somebody has to choose; a field that anyone may write never selects, since anyone may write the
//!    person's words there; or
//! 3. the session made it: it is the result of an effect that was itself allowed or approved.
//!
//! A value that stands in no record (a bare text, an item of a list of texts) is selected by nothing but 3.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use crate::{
    json::{self, Value},
    lineage::squash,
};

/// The most bytes of selected values of a session together. What is beyond is not selected: a question
/// more, never one less.
pub const SELECTED_MAX: usize = 1 << 20;

/// The longest value that is kept: sinks and identifiers are short.
pub const VALUE_MAX: usize = 1 << 10;

/// Texts of so few characters name nothing: initials, flags, codes of two letters.
const NAME_MIN: usize = 3;

/// A step from the outside of a result inwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step<'a> {
    /// Into the item of this number.
    Item(usize),
    /// Into the member of this name.
    Member(&'a str),
}

/// A call that was performed, and what came of it.
#[derive(Clone, Copy)]
pub struct Performed<'a> {
    /// The complete arguments.
    pub arguments: &'a Value,
    /// Whether it had an effect.
    pub effect: bool,
    /// Whether a scalar of the result is the system's own, by its place.
    pub is_system: &'a dyn Fn(&[Step<'_>]) -> bool,
    /// Whether the person's words have a value.
    pub is_said: &'a dyn Fn(&Value) -> bool,
    /// The result.
    pub result: &'a Value,
    /// Whether nothing beside what is here may have been left out: another record of the same name, or
    /// another answer to the same words.
    pub whole: bool,
}

impl core::fmt::Debug for Performed<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Performed")
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

/// The values of records that were selected.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    bytes: usize,
    values: BTreeSet<Vec<u8>>,
}

impl Selection {
    /// Whether `value`, type and all, stands in a system field of a record that was selected.
    pub fn has(&self, value: &Value) -> bool {
        is_scalar(value) && self.values.contains(&json::canonical(value))
    }

    /// How many values were selected.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing was selected.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Takes in what a call brought.
    pub fn record(&mut self, performed: &Performed<'_>) {
        let mut new = Vec::new();
        let walk = Walk {
            by_call: performed.whole && self.is_asked(performed),
            performed,
        };
        walk.descend(
            performed.result,
            &mut Vec::new(),
            true,
            performed.effect,
            &mut new,
        );
        for value in new {
            self.keep(value);
        }
    }

    /// Whether every argument of the call was authored by the person, or selected.
    fn is_asked(&self, performed: &Performed<'_>) -> bool {
        let mut any = false;
        let mut all = true;
        scalars(performed.arguments, &mut |value| {
            any = true;
            all = all && ((performed.is_said)(value) || self.has(value));
        });
        any && all
    }

    fn keep(&mut self, value: &Value) {
        let bytes = json::canonical(value);
        let sum = self.bytes.saturating_add(bytes.len());
        if bytes.len() <= VALUE_MAX && sum <= SELECTED_MAX && self.values.insert(bytes) {
            self.bytes = sum;
        }
    }
}

struct Walk<'a> {
    by_call: bool,
    performed: &'a Performed<'a>,
}

impl<'a> Walk<'a> {
    /// `alone`: no list on the way here has two items. `selected`: the record that this is directly in
    /// was.
    fn descend(
        &self,
        value: &'a Value,
        path: &mut Vec<Step<'a>>,
        alone: bool,
        selected: bool,
        new: &mut Vec<&'a Value>,
    ) {
        match value {
            Value::List(items) => {
                let alone = alone && items.len() == 1;
                // Texts of a list are no record, but what the session made is its own whole.
                let inside = items.iter().enumerate();
                let inside = inside.map(|(index, it)| (Step::Item(index), it));
                self.siblings(
                    &inside.collect::<Vec<_>>(),
                    path,
                    alone,
                    self.performed.effect,
                    new,
                );
            }
            Value::Object(members) => {
                let mut names = members.iter();
                let selected = names.any(|(name, member)| self.names(name, member, path));
                self.record(members, path, alone, selected, new);
            }
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {
                if selected && (self.performed.is_system)(path) {
                    new.push(value);
                }
            }
        }
    }

    /// One record: `selected` if something in it says so.
    fn record(
        &self,
        members: &'a BTreeMap<String, Value>,
        path: &mut Vec<Step<'a>>,
        alone: bool,
        selected: bool,
        new: &mut Vec<&'a Value>,
    ) {
        let selected = selected || self.performed.effect || (self.by_call && alone);
        // Records by their ids, or two lists, are several records.
        let alone = alone && members.values().filter(|it| holds_record(it)).count() < 2;
        let inside = members.iter().map(|(name, it)| (Step::Member(name), it));
        self.siblings(&inside.collect::<Vec<_>>(), path, alone, selected, new);
    }

    /// What stands side by side in a list or a record, which is `selected` itself or not.
    fn siblings(
        &self,
        all: &[(Step<'a>, &'a Value)],
        path: &mut Vec<Step<'a>>,
        alone: bool,
        selected: bool,
        new: &mut Vec<&'a Value>,
    ) {
        let named = self.named(all, path);
        for (index, (step, value)) in all.iter().enumerate() {
            path.push(*step);
            if let Value::Object(members) = value {
                self.record(members, path, alone, named.contains(&index), new);
            } else {
                self.descend(value, path, alone, selected, new);
            }
            path.pop();
        }
    }

    /// The numbers of the records side by side that the person's words name, each by a text that no other
    /// one has in the same place.
    fn named(&self, all: &[(Step<'a>, &'a Value)], path: &mut Vec<Step<'a>>) -> BTreeSet<usize> {
        let mut by: BTreeMap<(&str, String), Option<usize>> = BTreeMap::new();
        for (index, (step, value)) in all.iter().enumerate() {
            let Value::Object(members) = value else {
                continue;
            };
            path.push(*step);
            for (name, member) in members {
                if let Value::Text(text) = member
                    && self.names(name, member, path)
                {
                    by.entry((name, squash(text)))
                        .and_modify(|it| *it = None)
                        .or_insert(Some(index));
                }
            }
            path.pop();
        }
        by.into_values().flatten().collect()
    }

    /// Whether this member is a system's own text that the person's words have.
    fn names(&self, name: &'a str, member: &Value, path: &mut Vec<Step<'a>>) -> bool {
        let Value::Text(text) = member else {
            return false;
        };
        if !self.performed.whole || text.chars().count() < NAME_MIN {
            return false;
        }
        path.push(Step::Member(name));
        let system = (self.performed.is_system)(path);
        path.pop();
        system && (self.performed.is_said)(member)
    }
}

/// Whether a record stands in `value`, or directly in a list that it is.
fn holds_record(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::List(items) => items.iter().any(|it| matches!(it, Value::Object(_))),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => false,
    }
}

const fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Real(_) | Value::Text(_) => true,
        Value::List(_) | Value::Null | Value::Object(_) => false,
    }
}

/// Every scalar inside, but for `null`: what is left out.
fn scalars(value: &Value, each: &mut dyn FnMut(&Value)) {
    match value {
        Value::List(items) => items.iter().for_each(|it| scalars(it, each)),
        Value::Object(members) => members.values().for_each(|it| scalars(it, each)),
        Value::Null => {}
        Value::Bool(_) | Value::Int(_) | Value::Real(_) | Value::Text(_) => each(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    fn json(text: &str) -> Value {
        parse(text.as_bytes(), &Limits::RESULT).unwrap()
    }

    /// Of a result whose members `id`, `mail` and `name` are the system's own, and of a person who said
    /// `Ada Quill` and `7`: whether `value` is selected.
    fn selected(arguments: &str, effect: bool, result: &str, value: &str) -> bool {
        let mut selection = Selection::default();
        selection.record(&Performed {
            arguments: &json(arguments),
            effect,
            is_system: &|path| {
                matches!(path.last(), Some(Step::Member("id" | "mail" | "name")))
                    || matches!(path, [Step::Item(_)] | [])
            },
            is_said: &|value| [json("\"Ada Quill\""), json("7"), json("\"A\"")].contains(value),
            result: &json(result),
            whole: true,
        });
        selection.has(&json(value))
    }

    #[test]
    fn one_record_for_the_persons_words_is_selected() {
        let asked = r#"{"q":"Ada Quill"}"#;
        assert!(selected(asked, false, r#"{"id":1}"#, "1"));
        assert!(selected(asked, false, r#"[{"id":1}]"#, "1"));
        assert!(selected(asked, false, r#"{"items":[{"id":1}]}"#, "1"));
        // Two: somebody has to choose.
        assert!(!selected(asked, false, r#"[{"id":1},{"id":2}]"#, "1"));
        assert!(!selected(
            asked,
            false,
            r#"{"items":[{"id":1},{"id":2}]}"#,
            "1"
        ));
        // A query in which the person did not say everything, and one that says nothing.
        assert!(!selected(r#"{"q":"Eve"}"#, false, r#"{"id":1}"#, "1"));
        assert!(!selected(
            r#"{"q":["Ada Quill","Eve"]}"#,
            false,
            r#"{"id":1}"#,
            "1"
        ));
        assert!(!selected("{}", false, r#"{"id":1}"#, "1"));
        assert!(selected(
            r#"{"q":"Ada Quill","page":null}"#,
            false,
            r#"{"id":1}"#,
            "1"
        ));
    }

    #[test]
    fn a_system_field_that_the_person_named_selects_its_record_and_no_other() {
        let all = r#"[{"id":1,"name":"Ada Quill"},{"id":2,"name":"Eve"}]"#;
        assert!(selected("{}", false, all, "1"));
        assert!(!selected("{}", false, all, "2"));
        // Anyone may write a subject; initials name nothing; numbers name nothing.
        assert!(!selected(
            "{}",
            false,
            r#"[{"id":1,"subject":"Ada Quill"}]"#,
            "1"
        ));
        assert!(!selected(
            "{}",
            false,
            r#"[{"mail":"a@b.example","name":"A"}]"#,
            "\"a@b.example\""
        ));
        assert!(!selected(
            "{}",
            false,
            r#"[{"id":7,"mail":"a@b.example"}]"#,
            "\"a@b.example\""
        ));
        // The record, not what it is in or what is in it.
        let nested = r#"{"id":1,"of":{"name":"Ada Quill","id":2,"in":{"id":3}}}"#;
        assert!(selected("{}", false, nested, "2"));
        assert!(!selected("{}", false, nested, "1") && !selected("{}", false, nested, "3"));
    }

    #[test]
    fn only_system_fields_of_a_record_are_selected() {
        let asked = r#"{"q":"Ada Quill"}"#;
        assert!(!selected(
            asked,
            false,
            r#"{"id":1,"subject":"x"}"#,
            "\"x\""
        ));
        assert!(!selected(asked, false, r#"["x"]"#, "\"x\""));
        assert!(!selected(asked, false, "\"x\"", "\"x\""));
    }

    #[test]
    fn what_the_session_made_is_selected() {
        assert!(selected(
            r#"{"n":"Eve"}"#,
            true,
            r#"{"id":26,"text":"x"}"#,
            "26"
        ));
        assert!(!selected(
            r#"{"n":"Eve"}"#,
            true,
            r#"{"id":26,"text":"x"}"#,
            "\"x\""
        ));
        assert!(selected("{}", true, r#"["x","y"]"#, "\"y\""));
    }

    #[test]
    fn a_value_is_compared_type_and_all() {
        let asked = r#"{"q":"Ada Quill"}"#;
        assert!(!selected(asked, false, r#"{"id":1}"#, "\"1\""));
        assert!(!selected(asked, false, r#"{"id":"1"}"#, "1"));
        assert!(!selected(asked, false, r#"{"id":1}"#, "[1]"));
    }

    #[test]
    fn beyond_its_bounds_nothing_more_is_selected() {
        let mut selection = Selection::default();
        let long = Value::Text("a".repeat(VALUE_MAX));
        selection.keep(&long);
        assert!(selection.is_empty());
        for n in 0..2_000 {
            selection.keep(&Value::Text(alloc::format!("{n:0>1000}")));
        }
        assert!(selection.len() < 2_000 && selection.bytes <= SELECTED_MAX);
        assert!(selection.has(&Value::Text(alloc::format!("{:0>1000}", 0))));
        assert!(!selection.has(&Value::Text(alloc::format!("{:0>1000}", 1_999))));
    }
}

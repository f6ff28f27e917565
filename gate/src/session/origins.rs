//! Where a value comes from, in the words of a policy: the index of everything that the session was
//! told ([`crate::lineage`]), and which records the person's words selected ([`crate::selection`]).

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use super::{Facts, each_leaf};
use crate::{
    digest::{Digest, Domain},
    json::{self, Value},
    lineage::{self, Budget, Class, Ground, Key, Lineage, Source},
    policy::{FieldLabel, Label, OriginClass, ResultRules},
};

/// Where a value comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin {
    /// In a word.
    pub class: OriginClass,
    /// What said it: a few places, the best first.
    pub by: Vec<String>,
}

/// A place that said a value, for a person who is to judge it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Said {
    /// Which, in words.
    pub place: String,
    /// The text around it, as it was told: anyone's words. None where it is the value and nothing more.
    pub around: Option<String>,
}

/// The most places that an origin names.
const PLACES: usize = 3;

/// The most places of one argument that a person is shown, and the most values in it that are looked up.
const SAID_MAX: usize = 6;
const LEAVES_MAX: usize = 16;

/// The most bytes of text around a value, and how many of them before it: a line of a terminal or two.
const AROUND_MAX: usize = 200;
const BEFORE_MAX: usize = 80;

/// An empty index, for so many bytes of text.
pub(super) fn index(key: &Key, bytes: u64) -> Lineage {
    let text = usize::try_from(bytes)
        .unwrap_or(Budget::TEXT_MAX)
        .min(Budget::TEXT_MAX);
    let memory = text.saturating_mul(3);
    Lineage::new(key, Budget { memory, text })
}

pub(super) fn digest(value: &Value) -> Digest {
    Digest::of(Domain::Result, &json::canonical(value))
}

/// The labels of a result's fields. What a whole tool is vouched for counts word by word; a single
/// field only whole.
pub(super) fn labels(rules: &ResultRules) -> lineage::Labels {
    let rest = match rules.label {
        Label::Trusted => lineage::Label::Derived,
        Label::Untrusted => lineage::Label::Untrusted,
    };
    let mut labels = lineage::Labels::all(rest);
    for (pointer, label) in &rules.fields {
        let label = match label {
            FieldLabel::Authoritative => lineage::Label::Authoritative,
            FieldLabel::System => lineage::Label::Minted,
            FieldLabel::Untrusted => lineage::Label::Untrusted,
        };
        // A pattern that is none labels nothing: the rest says what the field is.
        let _no_pattern = labels.add(&pointer.to_string(), label).is_err();
    }
    labels
}

/// Where a value was found, before anybody asks for it in words.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) class: OriginClass,
    grounds: Vec<Ground>,
}

impl Found {
    /// Whether untrusted text has it, whatever else has it.
    pub(crate) fn is_in_untrusted(&self) -> bool {
        let untrusted = |it: &Ground| it.label == lineage::Label::Untrusted;
        self.grounds.iter().any(untrusted)
    }
}

impl Facts {
    /// Where a value comes from that holds no other.
    pub fn origin(&self, leaf: &Value) -> Origin {
        let found = self.find(leaf);
        Origin {
            class: found.class,
            by: self.said_by(&found),
        }
    }

    /// What said a value: a few places, the best first.
    pub(crate) fn said_by(&self, found: &Found) -> Vec<String> {
        // The best first, and of what untrusted text has the place there, however much is better.
        let last = found.grounds.iter().skip(PLACES).last();
        let first = PLACES.saturating_sub(usize::from(last.is_some()));
        let told = found.grounds.iter().take(first).chain(last).map(|ground| {
            let pointer = self.lineage.pointer(ground);
            self.lineage.told(ground, &pointer).to_string()
        });
        told.collect()
    }

    /// What said an argument's values, with the text around each: the worst values first. Nothing of it is
    /// kept beside the index, which has every text once already.
    pub fn said_of(&self, value: &Value) -> Vec<Said> {
        let mut leaves = Vec::new();
        each_leaf(value, &mut |leaf| {
            if leaves.len() < LEAVES_MAX {
                leaves.push((self.find(leaf), leaf.clone()));
            }
        });
        leaves.sort_by_key(|(found, _)| core::cmp::Reverse(found.class));
        let mut all: Vec<Said> = Vec::new();
        for (found, leaf) in &leaves {
            for ground in found.grounds.iter().take(PLACES) {
                let pointer = self.lineage.pointer(ground);
                let around = self.lineage.around(ground, BEFORE_MAX, AROUND_MAX);
                let said = Said {
                    place: self.lineage.told(ground, &pointer).to_string(),
                    around: around
                        .filter(|it| !matches!(leaf, Value::Text(text) if text == it))
                        .map(String::from),
                };
                if all.len() < SAID_MAX && !all.contains(&said) {
                    all.push(said);
                }
            }
        }
        all
    }

    /// Where a value was found that holds no other.
    pub(crate) fn find(&self, leaf: &Value) -> Found {
        let found = self.lineage.origin(leaf);
        self.found(leaf, found.class, found.grounds)
    }

    /// Where an identifier was found: a short bare number is the person's only where he spoke of an
    /// id; elsewhere it says a time or an amount.
    pub(crate) fn find_identifier(&self, leaf: &Value) -> Found {
        let named = match leaf {
            Value::Text(text) => self.named.has(text),
            Value::Int(n) => self.named.has(&n.get().to_string()),
            Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Real(_) => {
                true
            }
        };
        let mut found = self.lineage.origin(leaf);
        if !named && found.class == Class::Authoritative {
            let said = |it: &Ground| it.label == lineage::Label::Authoritative;
            found.grounds.retain(|it| !said(it));
            found.class = match found.grounds.first().map(|it| it.label) {
                None | Some(lineage::Label::Authoritative) => Class::Novel,
                Some(lineage::Label::Derived) => Class::Derived,
                Some(lineage::Label::Minted) => Class::Minted,
                Some(lineage::Label::Untrusted) => Class::Untrusted,
            };
        }
        self.found(leaf, found.class, found.grounds)
    }

    fn found(&self, leaf: &Value, class: Class, grounds: Vec<Ground>) -> Found {
        let class = match class {
            Class::Authoritative => OriginClass::Authoritative,
            // What stands in a record that the person's words selected.
            _ if self.selection.has(leaf) => OriginClass::Derived,
            Class::Derived | Class::Minted => OriginClass::System,
            Class::Untrusted => OriginClass::Untrusted,
            Class::Novel | Class::Saturated => OriginClass::Unknown,
        };
        Found { class, grounds }
    }

    /// Whether the person's words have the value.
    pub(super) fn is_said(&self, leaf: &Value) -> bool {
        self.lineage.known(leaf) == Some(Class::Authoritative)
    }

    /// Whether a value that holds no other comes from the person, or is a system's own.
    pub(super) fn is_known(&self, leaf: &Value) -> bool {
        self.lineage.known(leaf).is_some() || self.selection.has(leaf)
    }

    /// Whether the text is one value that the person or a system has.
    pub(crate) fn is_known_value(&self, text: &str) -> bool {
        let value = Value::Text(text.into());
        self.is_known(&value)
    }

    pub(super) fn note_text(&mut self, source: Source, text: &str) {
        // Over its budget the index is closed, and says so of itself.
        let _number = self
            .lineage
            .record_text(source, text, lineage::Label::Authoritative);
    }

    pub(super) fn note(&mut self, source: Source, value: &Value, labels: &lineage::Labels) {
        let _number = self.lineage.record_value(source, value, labels);
    }

    /// What the index of everything that the session was told takes.
    pub fn usage(&self) -> lineage::Usage {
        self.lineage.usage()
    }

    /// Whether untrusted text came in that the index does not have, over a stream or into a session above: then
    /// what nothing has may be of it.
    pub const fn is_blind(&self) -> bool {
        self.blind
    }

    /// Why the session takes no more calls, if so.
    pub fn saturated(&self) -> Option<String> {
        self.lineage.saturated().map(|it| it.to_string())
    }
}

//! One place in a call: every schema that speaks of it, and what stands inside.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gate::json::Value;

use super::{Obligation, Words, obligation::Kind};

/// When a schema speaks of a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum When {
    Always,
    Sometimes,
}

/// What stands inside a place.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Child {
    /// Every item of an array.
    Item,
    /// A member of an object.
    Member(String),
    /// A member whose name the caller chooses.
    Named,
    /// A position of a tuple.
    Position(usize),
}

/// A schema that speaks of a child.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    pub(super) schema: &'a Value,
    pub(super) pointer: String,
    pub(super) when: When,
}

/// What was gathered at one place.
#[derive(Debug, Default)]
pub(super) struct Place<'a> {
    /// Every schema that speaks of it, references followed.
    pub(super) schemas: Vec<&'a Value>,
    /// Those that are being followed: one of them again is a circle.
    pub(super) open: Vec<&'a Value>,
    pub(super) children: BTreeMap<Child, Vec<Source<'a>>>,
    pub(super) required: BTreeMap<&'a str, When>,
    /// Whether members that are not named are refused.
    pub(super) closed: bool,
    pub(super) words: Words,
    /// Every `format`, and every `pattern`, of a branch too.
    pub(super) formats: BTreeSet<Arc<str>>,
    pub(super) obligations: BTreeSet<Obligation>,
}

impl<'a> Place<'a> {
    pub(super) fn oblige(&mut self, kind: Kind, pointer: &str, about: &str) {
        self.obligations.insert(Obligation {
            kind,
            pointer: pointer.to_owned(),
            about: about.to_owned(),
        });
    }

    pub(super) fn add(&mut self, child: Child, source: Source<'a>) {
        self.children.entry(child).or_default().push(source);
    }
}

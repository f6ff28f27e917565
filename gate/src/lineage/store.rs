//! What is kept: every text once, where it came from, and a table of where everything is in it.
//!
//! Lists in the table have up to [`MOST`] places. Where one is full, the row of tokens is noted
//! with the next token, and so on up to [`ROW_MAX`] tokens: a row is looked for by its first token,
//! and only where that is common by the first two, three, and so on. So each token costs one entry
//! at most, and no repetition makes a list long.

use alloc::{string::String, vec::Vec};
use core::hint::black_box;

use super::{
    Coding, Label, Source,
    answer::{Ground, How, Place},
    atom::{self, Atom},
    budget::{Budget, Saturated, Usage},
    decode,
    fold::{self, Memo},
    hash::{Domain, Hasher, Key, row, within},
    table::Table,
    words::{Words, lower},
};

/// The most places of one fingerprint.
pub(super) const MOST: usize = 8;

/// The longest row of tokens that has a fingerprint.
pub(super) const ROW_MAX: usize = 8;

/// What a leaf is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Bool,
    Int,
    Key,
    Null,
    Real,
    Text,
}

impl Kind {
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Bool => 0,
            Self::Int => 1,
            Self::Key => 2,
            Self::Null => 3,
            Self::Real => 4,
            Self::Text => 5,
        }
    }
}

/// One kept text.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// Where it starts.
    at: u32,
    /// The container that it is in.
    node: u32,
    /// Its step from there.
    step: u32,
    /// Kind (3 bits), label (2), two codings (2 each).
    tag: u32,
}

/// A container, or a source.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The container around it; [`NOWHERE`] for a source.
    parent: u32,
    /// The step from there, or the number of the source.
    step: u32,
}

/// A container that is found whole.
#[derive(Clone, Copy, Debug)]
struct Whole {
    digest: [u8; 16],
    label: Label,
    node: u32,
}

/// No container.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A step to a member whose key is kept at the rest of the bits; otherwise to an element.
const MEMBER: u32 = 1 << 31;

/// A step to what is the same place.
const HERE: u32 = MEMBER - 1;

#[derive(Clone, Debug)]
pub(super) struct Store {
    budget: Budget,
    pub(super) hasher: Hasher,
    leaves: Vec<Leaf>,
    pub(super) memo: Memo,
    nodes: Vec<Node>,
    recorded: usize,
    rows: Vec<(u64, u32)>,
    scratch: Vec<u8>,
    sources: Vec<Source>,
    pub(super) table: Table,
    /// Every leaf, with a NUL before and behind it.
    text: String,
    wholes: Vec<Whole>,
}

impl Store {
    pub(super) fn new(key: &Key, budget: Budget) -> Self {
        Self {
            budget: Budget {
                text: budget.text.min(Budget::TEXT_MAX),
                ..budget
            },
            hasher: Hasher::new(key),
            leaves: Vec::new(),
            memo: Memo::default(),
            nodes: Vec::new(),
            recorded: 0,
            rows: Vec::new(),
            scratch: Vec::new(),
            sources: Vec::new(),
            table: Table::default(),
            text: String::new(),
            wholes: Vec::new(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let of = |count: usize, size: usize| count.saturating_mul(size);
        let memory = [
            self.text.capacity(),
            of(self.leaves.capacity(), size_of::<Leaf>()),
            of(self.nodes.capacity(), size_of::<Node>()),
            of(self.wholes.capacity(), size_of::<Whole>()),
            // A tool's name is kept with each.
            of(
                self.sources.capacity(),
                size_of::<Source>().saturating_add(16),
            ),
            self.table.bytes(),
        ];
        Usage {
            memory: memory.into_iter().fold(0, usize::saturating_add),
            recorded: self.recorded,
            text: self.text.len(),
        }
    }

    pub(super) fn source(&self, number: u32) -> Option<&Source> {
        self.sources.get(at(number))
    }

    /// Notes a source, and gives its number and the node that stands for it.
    pub(super) fn add_source(&mut self, source: Source) -> (u32, u32) {
        let number = count(self.sources.len());
        push(&mut self.sources, source);
        (number, self.add_node(NOWHERE, number))
    }

    pub(super) fn add_node(&mut self, parent: u32, step: u32) -> u32 {
        let number = count(self.nodes.len());
        push(&mut self.nodes, Node { parent, step });
        number
    }

    /// Whether all is within the budget.
    pub(super) fn check(&self) -> Result<(), Saturated> {
        let memory = self.usage().memory;
        if memory > self.budget.memory {
            return Err(Saturated::Memory {
                most: self.budget.memory,
            });
        }
        Ok(())
    }

    /// The step to the member `key`, which is kept if it is not yet.
    pub(super) fn key_step(
        &mut self,
        key: &str,
        label: Label,
        node: u32,
    ) -> Result<u32, Saturated> {
        let at = match self.leaf_at(Kind::Key, key, label) {
            Some(at) => at,
            None => self.keep(Kind::Key, key, label, (node, HERE), &[])?,
        };
        Ok(MEMBER | at)
    }

    /// The step to the element `index`.
    pub(super) fn index_step(index: usize) -> u32 {
        u32::try_from(index).unwrap_or(HERE).min(HERE)
    }

    /// The step to a source's outermost value.
    pub(super) const fn own_step() -> u32 {
        HERE
    }

    /// Counts text that was given.
    pub(super) fn count_recorded(&mut self, bytes: usize) {
        self.recorded = self.recorded.saturating_add(bytes);
    }

    /// Where the leaf is that is just this under this label, written plainly.
    pub(super) fn leaf_at(&self, kind: Kind, text: &str, label: Label) -> Option<u32> {
        self.leaf_of(self.leaf_hash(kind, text), kind, text, label)
    }

    pub(super) fn leaf_hash(&self, kind: Kind, text: &str) -> u64 {
        row(self.hasher.of(text.as_bytes()), u64::from(kind.bits()))
    }

    /// The same, with [`Store::leaf_hash`] at hand.
    pub(super) fn leaf_of(&self, hash: u64, kind: Kind, text: &str, label: Label) -> Option<u32> {
        self.table
            .places(within(hash, Domain::Leaf, label.bits()))
            .find(|place| {
                let from = at(*place);
                let to = from.saturating_add(text.len());
                self.text.as_bytes().get(from..to) == Some(text.as_bytes())
                    && self.text.as_bytes().get(to) == Some(&0)
                    && self
                        .leaf(*place)
                        .is_some_and(|leaf| leaf.at == *place && leaf.tag == tag(kind, label, &[]))
            })
    }

    /// Keeps a leaf that is not kept yet, and notes where everything in it is.
    pub(super) fn keep(
        &mut self,
        kind: Kind,
        text: &str,
        label: Label,
        (node, step): (u32, u32),
        codings: &[Coding],
    ) -> Result<u32, Saturated> {
        let more = text.len().saturating_add(2);
        if self.text.len().saturating_add(more) > self.budget.text {
            return Err(Saturated::Text {
                most: self.budget.text,
            });
        }
        if self.text.is_empty() {
            self.text.push('\0');
        }
        let start = self.text.len();
        if self.text.capacity().saturating_sub(start) < more {
            self.text.reserve_exact(more.saturating_add(start >> 4));
        }
        self.text.push_str(text);
        self.text.push('\0');
        let place = count(start);
        push(
            &mut self.leaves,
            Leaf {
                at: place,
                node,
                step,
                tag: tag(kind, label, codings),
            },
        );
        if codings.is_empty() {
            let hash = within(self.leaf_hash(kind, text), Domain::Leaf, label.bits());
            self.table.push(hash, place, MOST);
        }
        self.note(kind, text, label, place);
        if label == Label::Untrusted && codings.len() < decode::LAYERS {
            self.keep_decoded(text, (node, step), codings)?;
        }
        Ok(place)
    }

    fn note(&mut self, kind: Kind, text: &str, label: Label, place: u32) {
        let words = match kind {
            Kind::Bool | Kind::Null => return,
            Kind::Int | Kind::Real => false,
            Kind::Key | Kind::Text => true,
        };
        match label {
            Label::Authoritative if words => {
                self.note_words(text, label, place);
                self.note_tokens(text, label, place);
            }
            Label::Derived if words => self.note_words(text, label, place),
            Label::Untrusted => self.note_tokens(text, label, place),
            Label::Authoritative | Label::Derived | Label::Minted => {}
        }
        // Only what is an atom as a whole is the system's own: a name may have a number in it.
        if label == Label::Minted && atom::whole(text).is_none_or(|it| it.len() > 2) {
            return;
        }
        let mut found = Vec::new();
        atom::scan(text, |written| {
            found.push((self.atom_hash(&written.atom, label), written.from));
        });
        for (hash, from) in found {
            self.table.push(hash, place.saturating_add(count(from)), 1);
        }
    }

    pub(super) fn atom_hash(&self, atom: &Atom, label: Label) -> u64 {
        within(self.hasher.of(&atom.bytes()), Domain::Atom, label.bits())
    }

    fn note_words(&mut self, text: &str, label: Label, place: u32) {
        let mut rows = core::mem::take(&mut self.rows);
        rows.clear();
        for (from, to) in Words::new(text) {
            let word = lower(text.get(from..to).unwrap_or(""), &mut self.scratch);
            rows.push((self.hasher.of(word), place.saturating_add(count(from))));
        }
        self.note_rows(&rows, Domain::Words, label);
        self.rows = rows;
    }

    fn note_tokens(&mut self, text: &str, label: Label, place: u32) {
        let mut rows = core::mem::take(&mut self.rows);
        rows.clear();
        let hasher = &self.hasher;
        fold::tokens(text, &mut self.memo, |token, from| {
            rows.push((hasher.of(token), place.saturating_add(count(from))));
            true
        });
        self.note_rows(&rows, Domain::Tokens, label);
        self.rows = rows;
    }

    /// Level by level, and each level twice: the processor fetches many buckets at once as long as
    /// nothing waits for one.
    fn note_rows(&mut self, rows: &[(u64, u32)], domain: Domain, label: Label) {
        let within = |hash| within(hash, domain, label.bits());
        // How far from its first token each row has come, and its fingerprint so far.
        let mut left: Vec<(usize, u64)> = rows.iter().map(|(hash, _)| *hash).enumerate().collect();
        for length in 1..=ROW_MAX {
            let touched = left
                .iter()
                .fold(0, |all, (_, hash)| all ^ self.table.touch(within(*hash)));
            black_box(touched);
            let table = &mut self.table;
            left.retain_mut(|(index, hash)| {
                let place = rows.get(*index).map_or(0, |(_, place)| *place);
                if table.push(within(*hash), place, MOST) {
                    return false;
                }
                match rows.get(index.saturating_add(length)) {
                    Some((next, _)) => {
                        *hash = row(*hash, *next);
                        true
                    }
                    None => false,
                }
            });
        }
    }

    fn keep_decoded(
        &mut self,
        text: &str,
        place: (u32, u32),
        codings: &[Coding],
    ) -> Result<(), Saturated> {
        let mut found = Vec::new();
        decode::runs(text, |coding, plain| found.push((coding, plain)));
        for (coding, plain) in found {
            let mut all = codings.to_vec();
            all.push(coding);
            self.keep(Kind::Text, &plain, Label::Untrusted, place, &all)?;
        }
        Ok(())
    }

    /// Notes a container that has `digest`.
    pub(super) fn keep_whole(&mut self, digest: u128, label: Label, node: u32) {
        if self.whole_at(digest, label).is_some() {
            return;
        }
        let number = count(self.wholes.len());
        let hash = within(narrow(digest), Domain::Container, label.bits());
        if self.table.push(hash, number, MOST) {
            let digest = digest.to_le_bytes();
            push(
                &mut self.wholes,
                Whole {
                    digest,
                    label,
                    node,
                },
            );
        }
    }

    /// The container that has `digest` under `label`.
    pub(super) fn whole_at(&self, digest: u128, label: Label) -> Option<u32> {
        let hash = within(narrow(digest), Domain::Container, label.bits());
        self.table.places(hash).find(|number| {
            self.wholes
                .get(at(*number))
                .is_some_and(|it| it.label == label && it.digest == digest.to_le_bytes())
        })
    }

    fn leaf(&self, place: u32) -> Option<&Leaf> {
        let after = self.leaves.partition_point(|leaf| leaf.at <= place);
        self.leaves.get(after.checked_sub(1)?)
    }

    /// All that is kept.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text from `place` on, beyond its leaf: a NUL stands where the leaf ends.
    pub(super) fn tail(&self, place: u32) -> &str {
        self.text.get(at(place)..).unwrap_or("")
    }

    /// What was found at a place in a leaf.
    pub(super) fn ground(&self, place: u32, how: How) -> Ground {
        let leaf = self.leaf(place);
        let tag = leaf.map_or(0, |it| it.tag);
        Ground {
            decoded: codings(tag),
            how,
            label: leaf.map_or(Label::Untrusted, |it| Label::from_bits(it.tag >> 3)),
            source: leaf.map_or(NOWHERE, |it| self.source_of(it.node)),
            place: Place::Leaf(place),
        }
    }

    /// That a container was found.
    pub(super) fn whole_ground(&self, number: u32) -> Ground {
        let whole = self.wholes.get(at(number));
        Ground {
            decoded: Vec::new(),
            how: How::Container,
            label: whole.map_or(Label::Untrusted, |it| it.label),
            source: whole.map_or(NOWHERE, |it| self.source_of(it.node)),
            place: Place::Container(number),
        }
    }

    fn source_of(&self, node: u32) -> u32 {
        let mut now = node;
        while let Some(node) = self.nodes.get(at(now)) {
            if node.parent == NOWHERE {
                return node.step;
            }
            now = node.parent;
        }
        NOWHERE
    }

    /// The text around a place, within its leaf: up to `before` bytes before it and `most` in all. A whole
    /// container has none.
    pub(super) fn around(&self, place: Place, before: usize, most: usize) -> Option<&str> {
        let Place::Leaf(place) = place else {
            return None;
        };
        let place = at(place);
        let leaf = |it: &str| it.rfind('\0').map_or(0, |nul| nul.saturating_add(1));
        let head = self.text.get(..place)?;
        let start = leaf(head).max(place.saturating_sub(before));
        let start = (start..=place).find(|it| self.text.is_char_boundary(*it))?;
        let rest = self.text.get(start..)?;
        let own = place.saturating_sub(start);
        let end = rest.get(own..)?.find('\0').unwrap_or(0);
        let end = own.saturating_add(end).min(most);
        let end = (0..=end).rev().find(|it| rest.is_char_boundary(*it))?;
        rest.get(..end)
    }

    /// The JSON pointer (RFC 6901) of a place in its source.
    pub(super) fn pointer(&self, place: Place) -> String {
        let (mut node, mut step) = match place {
            Place::Container(number) => match self.wholes.get(at(number)) {
                Some(whole) => (whole.node, HERE),
                None => return String::new(),
            },
            Place::Leaf(place) => match self.leaf(place) {
                Some(leaf) => (leaf.node, leaf.step),
                None => return String::new(),
            },
        };
        let mut steps = Vec::new();
        loop {
            if step != HERE {
                steps.push(step);
            }
            match self.nodes.get(at(node)) {
                Some(next) if next.parent != NOWHERE => {
                    (node, step) = (next.parent, next.step);
                }
                Some(_) | None => break,
            }
        }
        let mut out = String::new();
        for step in steps.into_iter().rev() {
            out.push('/');
            if step & MEMBER == 0 {
                out.push_str(&alloc::format!("{step}"));
            } else {
                let key = self.tail(step & !MEMBER).split('\0').next().unwrap_or("");
                out.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
        }
        out
    }
}

const fn tag_of(kind: u8, label: u8) -> u32 {
    kind as u32 | (label as u32) << 3
}

fn tag(kind: Kind, label: Label, codings: &[Coding]) -> u32 {
    let mut tag = tag_of(kind.bits(), label.bits());
    for (layer, coding) in (0_u32..).zip(codings) {
        let bits = match coding {
            Coding::Base64 => 1,
            Coding::Escapes => 2,
            Coding::Hex => 3,
        };
        tag |= bits << (5 + 2 * layer);
    }
    tag
}

fn codings(tag: u32) -> Vec<Coding> {
    [tag >> 5 & 3, tag >> 7 & 3]
        .into_iter()
        .filter_map(|bits| match bits {
            1 => Some(Coding::Base64),
            2 => Some(Coding::Escapes),
            3 => Some(Coding::Hex),
            _ => None,
        })
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "half of a fingerprint is one"
)]
const fn narrow(digest: u128) -> u64 {
    digest as u64
}

/// A place or number as an index. Never past the end of `usize` on what Rust's `std` runs on.
pub(super) fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A length as a place or number: the budget keeps it below 2^24.
pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Pushes, with a sixteenth in reserve: the index is to be small, not to grow seldom.
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() >> 4).max(8));
    }
    list.push(item);
}

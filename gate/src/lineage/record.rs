//! Recording: a value is taken apart, each leaf under its label.

use alloc::{string::String, vec::Vec};

use super::{
    Label, Labels, Source,
    budget::Saturated,
    label::{Matching, STEPS_MAX},
    store::{Kind, Store},
};
use crate::json::Value;

/// Records `value` from `source`.
pub(super) fn value(
    store: &mut Store,
    source: Source,
    value: &Value,
    labels: &Labels,
) -> Result<u32, Saturated> {
    let (number, node) = store.add_source(source);
    let matching = labels.start();
    let label = labels.outermost(&matching);
    let mut walk = Walk {
        labels,
        shape: Vec::new(),
        store,
        trail: Vec::new(),
        known: 0,
        root: node,
    };
    walk.value(value, Step::Own, &matching, label)?;
    store.check()?;
    Ok(number)
}

/// Records `text` from `source`, all of it under `label`.
pub(super) fn text(
    store: &mut Store,
    source: Source,
    text: &str,
    label: Label,
) -> Result<u32, Saturated> {
    let (number, node) = store.add_source(source);
    store.count_recorded(text.len());
    if store.leaf_at(Kind::Text, text, label).is_none() {
        store.keep(Kind::Text, text, label, (node, Store::own_step()), &[])?;
    }
    store.check()?;
    Ok(number)
}

/// A step of the way from the source to where the walk is.
#[derive(Clone, Copy)]
enum Step<'v> {
    Element(usize),
    Member(&'v str, Label),
    Own,
}

struct Walk<'s, 'v> {
    labels: &'s Labels,
    /// How many steps of `trail` have a node.
    known: usize,
    root: u32,
    /// What the digest of each open container is made of.
    shape: Vec<u8>,
    store: &'s mut Store,
    /// The containers around, each with its node once something in it was kept.
    trail: Vec<(Step<'v>, u32)>,
}

/// What was found in a value: the least trusted label in it, and how many leaves.
struct Seen {
    label: Label,
    leaves: usize,
}

impl<'v> Walk<'_, 'v> {
    fn value(
        &mut self,
        value: &'v Value,
        step: Step<'v>,
        matching: &Matching,
        label: Label,
    ) -> Result<Seen, Saturated> {
        let mut buffer = String::new();
        match scalar(value, &mut buffer) {
            Some((kind, text)) => {
                shape_scalar(&mut self.shape, kind, text);
                self.leaf(kind, text, step, label)?;
                Ok(Seen { label, leaves: 1 })
            }
            None => self.container(value, step, matching, label),
        }
    }

    fn container(
        &mut self,
        value: &'v Value,
        step: Step<'v>,
        matching: &Matching,
        label: Label,
    ) -> Result<Seen, Saturated> {
        if self.trail.len() >= STEPS_MAX {
            return Err(Saturated::Depth);
        }
        self.trail.push((step, self.root));
        let start = self.shape.len();
        let mut seen = Seen { label, leaves: 0 };
        match value {
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let (inner, of) = self.labels.step(matching, None, index, label);
                    let found = self.value(item, Step::Element(index), &inner, of)?;
                    seen = seen.and(&found);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.key(key, label)?;
                    shape_key(&mut self.shape, key);
                    let (inner, of) = self.labels.step(matching, Some(key), 0, label);
                    let found = self.value(member, Step::Member(key, label), &inner, of)?;
                    seen = seen.and(&found);
                }
            }
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
        }
        let digest = close(self.store, &mut self.shape, start, value);
        if seen.leaves > 1 && self.store.whole_at(digest, seen.label).is_none() {
            let node = self.node()?;
            self.store.keep_whole(digest, seen.label, node);
        }
        self.trail.pop();
        self.known = self.known.min(self.trail.len());
        Ok(seen)
    }

    fn key(&mut self, key: &'v str, label: Label) -> Result<(), Saturated> {
        self.store.count_recorded(key.len());
        if self.store.leaf_at(Kind::Key, key, label).is_none() {
            let node = self.node()?;
            self.store.key_step(key, label, node)?;
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        kind: Kind,
        text: &str,
        step: Step<'v>,
        label: Label,
    ) -> Result<(), Saturated> {
        self.store.count_recorded(text.len());
        if self.store.leaf_at(kind, text, label).is_none() {
            let node = self.node()?;
            let step = self.step(step, node)?;
            self.store.keep(kind, text, label, (node, step), &[])?;
        }
        Ok(())
    }

    /// The node of the innermost container, and of those around it.
    fn node(&mut self) -> Result<u32, Saturated> {
        let mut node = match self.known.checked_sub(1) {
            Some(last) => self.trail.get(last).map_or(self.root, |(_, node)| *node),
            None => self.root,
        };
        while let Some((step, _)) = self.trail.get(self.known).copied() {
            let step = self.step(step, node)?;
            node = self.store.add_node(node, step);
            if let Some((_, slot)) = self.trail.get_mut(self.known) {
                *slot = node;
            }
            self.known = self.known.saturating_add(1);
        }
        Ok(node)
    }

    fn step(&mut self, step: Step<'_>, node: u32) -> Result<u32, Saturated> {
        match step {
            Step::Element(index) => Ok(Store::index_step(index)),
            Step::Member(key, label) => self.store.key_step(key, label, node),
            Step::Own => Ok(Store::own_step()),
        }
    }
}

impl Seen {
    fn and(&self, other: &Self) -> Self {
        Self {
            label: self.label.join(other.label),
            leaves: self.leaves.saturating_add(other.leaves),
        }
    }
}

/// `value` as a leaf: its kind, and its one written form.
pub(super) fn scalar<'a>(value: &'a Value, buffer: &'a mut String) -> Option<(Kind, &'a str)> {
    Some(match value {
        Value::Bool(true) => (Kind::Bool, "true"),
        Value::Bool(false) => (Kind::Bool, "false"),
        Value::Int(n) => {
            *buffer = alloc::format!("{}", n.get());
            (Kind::Int, buffer)
        }
        Value::Null => (Kind::Null, "null"),
        Value::Real(x) => {
            buffer.push_str(ryu_js::Buffer::new().format_finite(x.get()));
            (Kind::Real, buffer)
        }
        Value::Text(text) => (Kind::Text, text),
        Value::List(_) | Value::Object(_) => return None,
    })
}

/// The digest of a container, as [`Walk`] makes it.
pub(super) fn digest(store: &Store, value: &Value) -> u128 {
    shape_value(store, &mut Vec::new(), value, STEPS_MAX).unwrap_or_default()
}

fn shape_value(store: &Store, shape: &mut Vec<u8>, value: &Value, depth: usize) -> Option<u128> {
    let mut buffer = String::new();
    if let Some((kind, text)) = scalar(value, &mut buffer) {
        shape_scalar(shape, kind, text);
        return None;
    }
    let deeper = depth.checked_sub(1)?;
    let start = shape.len();
    match value {
        Value::List(items) => {
            for item in items {
                shape_value(store, shape, item, deeper);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                shape_key(shape, key);
                shape_value(store, shape, member, deeper);
            }
        }
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
    }
    Some(close(store, shape, start, value))
}

/// Replaces what `shape` has from `start` by its digest.
fn close(store: &Store, shape: &mut Vec<u8>, start: usize, value: &Value) -> u128 {
    let list = matches!(value, Value::List(_));
    shape.push(if list { b'[' } else { b'{' });
    let digest = store.hasher.wide(shape.get(start..).unwrap_or_default());
    shape.truncate(start);
    shape.push(b'#');
    shape.extend_from_slice(&digest.to_le_bytes());
    digest
}

fn shape_scalar(shape: &mut Vec<u8>, kind: Kind, text: &str) {
    shape.push(kind.bits());
    shape_text(shape, text);
}

fn shape_key(shape: &mut Vec<u8>, key: &str) {
    shape.push(b':');
    shape_text(shape, key);
}

fn shape_text(shape: &mut Vec<u8>, text: &str) {
    shape.extend_from_slice(&text.len().to_le_bytes());
    shape.extend_from_slice(text.as_bytes());
}

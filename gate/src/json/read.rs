//! The parser: `serde_json` reads tokens (RFC 8259), every rule of ours sits in the visitor.

use alloc::{
    borrow::ToOwned as _,
    collections::{BTreeMap, btree_map::Entry},
    string::String,
    vec::Vec,
};
use core::{cell::Cell, cell::RefCell, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use super::{JsonError, Limits, Located, Value, number};
use crate::mutant::Mutant;

pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Located> {
    if bytes.len() > limits.bytes {
        return Err(Located {
            pointer: String::new(),
            error: JsonError::Bytes {
                found: bytes.len(),
                most: limits.bytes,
            },
        });
    }
    let budget = Budget::new(limits);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = Node {
        budget: &budget,
        depth: 0,
    }
    .deserialize(&mut deserializer)
    .and_then(|value| deserializer.end().map(|()| value));
    read.map_err(|error| Located {
        pointer: budget.pointer(),
        error: budget.why.take().unwrap_or_else(|| JsonError::Syntax {
            line: error.line(),
            column: error.column(),
        }),
    })
}

pub(super) fn from_deserializer<'de, D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
    let budget = Budget::new(&Limits::LINE);
    Node {
        budget: &budget,
        depth: 0,
    }
    .deserialize(d)
}

/// What is left, and why it was refused: serde carries our reason as text only.
struct Budget {
    depth: usize,
    nodes: usize,
    spent: Cell<usize>,
    /// The steps to the place of an error, innermost first: taken on the way out, so that a text without
    /// one pays nothing.
    trail: RefCell<Vec<String>>,
    why: RefCell<Option<JsonError>>,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        Self {
            depth: limits.depth.min(Limits::DEPTH_MAX),
            nodes: limits.nodes,
            spent: Cell::new(0),
            trail: RefCell::new(Vec::new()),
            why: RefCell::new(None),
        }
    }

    fn step(&self, step: String) {
        self.trail.borrow_mut().push(step);
    }

    /// The trail as a JSON pointer (RFC 6901).
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.trail.borrow().iter().rev() {
            pointer.push('/');
            pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        }
        pointer
    }

    fn refuse<E: Error>(&self, why: JsonError) -> E {
        let error = E::custom(&why);
        self.why.replace(Some(why));
        error
    }

    fn spend<E: Error>(&self) -> Result<(), E> {
        let spent = self.spent.get().saturating_add(1);
        self.spent.set(spent);
        if spent > self.nodes {
            return Err(self.refuse(JsonError::Nodes { most: self.nodes }));
        }
        Ok(())
    }

    fn text<E: Error>(&self, text: String) -> Result<String, E> {
        if text.contains('\0') {
            return Err(self.refuse(JsonError::Nul));
        }
        Ok(text)
    }
}

/// One value, `depth` arrays and objects deep.
#[derive(Clone, Copy)]
struct Node<'b> {
    budget: &'b Budget,
    depth: usize,
}

impl Node<'_> {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.saturating_add(1);
        if depth > self.budget.depth {
            return Err(self.budget.refuse(JsonError::Depth {
                most: self.budget.depth,
            }));
        }
        Ok(Self { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.budget.spend()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Value, E> {
        Value::try_from(n).map_err(|why| self.budget.refuse(why))
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Value, E> {
        i64::try_from(n)
            .map_err(|_too_great| self.budget.refuse(JsonError::Magnitude))
            .and_then(|n| self.visit_i64(n))
    }

    fn visit_f64<E: Error>(self, x: f64) -> Result<Value, E> {
        number::from_f64(x).map_err(|why| self.budget.refuse(why))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.budget.text(text).map(Value::Text)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        loop {
            match items.next_element_seed(inner) {
                Ok(Some(item)) => list.push(item),
                Ok(None) => return Ok(Value::List(list)),
                Err(error) => {
                    self.budget.step(alloc::format!("{}", list.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut object = BTreeMap::new();
        while let Some(key) = members.next_key::<String>()? {
            self.budget.spend()?;
            let mut value = |key: &String| {
                members
                    .next_value_seed(inner)
                    .inspect_err(|_| self.budget.step(key.clone()))
            };
            match object.entry(self.budget.text(key)?) {
                Entry::Occupied(mut place) if Mutant::FrontStrictJson.is_on() => {
                    let value = value(place.key())?;
                    place.insert(value);
                }
                Entry::Occupied(place) => {
                    self.budget.step(place.key().clone());
                    return Err(self.budget.refuse(JsonError::DuplicateKey));
                }
                Entry::Vacant(place) => {
                    let value = value(place.key())?;
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

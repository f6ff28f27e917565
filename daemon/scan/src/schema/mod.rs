//! What a tool's schema says of its arguments: each with its place in a call, its types, bounds and words.
//!
//! What JSON Schema can say and this does not decide on becomes an [`Obligation`]: something for a person to look
//! at. What is said sometimes (a branch, a condition) counts where it adds an argument, and is not relied on where it
//! narrows one. References are followed within the tool's own schema; nothing is fetched.

mod argument;
mod collision;
mod facts;
mod gather;
mod inside;
mod keyword;
mod moved;
mod obligation;
mod place;
mod reference;
mod shared;
mod types;
mod walk;

use std::collections::BTreeMap;

use gate::{
    digest::{Digest, Running},
    json::{self, Value},
};

pub use argument::{Argument, Bounds, Choice, Named, Presence, Words};
pub use moved::Moved;
pub use obligation::{Kind, Obligation};
pub use types::Types;

use crate::input::{At, Export, Fault, InputError, Tool, limits};
use walk::Walk;

/// What a tool takes.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Every argument, nested ones too, in the order of their paths.
    pub arguments: Vec<Argument>,
    /// What becomes of arguments that the schema does not name.
    pub unknown: Unknown,
    /// What a person has to look at of the tool as a whole.
    pub obligations: Vec<Obligation>,
    /// SHA-256 over the RFC 8785 form of the whole schema.
    pub sha256: Digest,
    /// SHA-256 over the RFC 8785 form of what is not modelled, by its place; none if everything is.
    pub unmodelled_sha256: Option<Digest>,
}

/// What becomes of arguments that a schema does not name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unknown {
    /// The schema refuses them.
    Refused,
    /// The schema lets them through.
    Taken,
}

/// The schemas of an export's tools, in their order.
///
/// # Errors
/// When one cannot be read within the limits.
pub fn read(export: &Export) -> Result<Vec<Schema>, InputError> {
    let mut steps = limits::STEPS;
    let collide = collision::tools(&export.tools);
    let schemas = export.tools.iter().zip(collide).map(|(tool, collides)| {
        let mut schema = of(tool, &mut steps)?;
        if collides {
            schema.obligations.push(Obligation {
                kind: Kind::Collision,
                pointer: tool.pointer.clone(),
                about: tool.name.clone(),
            });
        }
        Ok(schema)
    });
    schemas
        .collect::<Result<Vec<_>, At>>()
        .map_err(|(at, fault)| InputError::new(&export.file, at, fault))
}

fn of(tool: &Tool, steps: &mut usize) -> Result<Schema, At> {
    let mut walk = Walk::new(&tool.input, &tool.input_pointer, *steps);
    let (mut place, facts, mut arguments) = walk.arguments()?;
    *steps = walk.steps();
    if !facts.types.has_object() {
        let wanted = "the schema of an object";
        let found = "that of another type";
        let at = tool.input_pointer.clone();
        return Err((at, Fault::Type { wanted, found }));
    }
    if facts.types == Types::ANY {
        place.oblige(Kind::Untyped, &tool.input_pointer, "");
    } else if facts.types.count() > 1 {
        place.oblige(Kind::UnionType, &tool.input_pointer, "");
    }
    let mut unmodelled = walk.unmodelled;
    for (key, value) in &tool.unknown {
        place.oblige(Kind::Unmodelled, &tool.pointer, key);
        unmodelled.insert(key.clone(), value);
    }
    collision::flag(&mut arguments);
    let maps = arguments.iter().any(|it| it.path == "/*");
    Ok(Schema {
        arguments,
        unknown: if place.closed && !maps {
            Unknown::Refused
        } else {
            Unknown::Taken
        },
        obligations: place.obligations.into_iter().collect(),
        sha256: fingerprint(&tool.input),
        unmodelled_sha256: unmodelled_digest(&unmodelled),
    })
}

fn unmodelled_digest(unmodelled: &BTreeMap<String, &Value>) -> Option<Digest> {
    if unmodelled.is_empty() {
        return None;
    }
    let members = unmodelled
        .iter()
        .map(|(place, value)| (place.clone(), (*value).clone()));
    Some(fingerprint(&Value::Object(members.collect())))
}

/// SHA-256 over the RFC 8785 form of a value, as `sha256sum` says it.
fn fingerprint(value: &Value) -> Digest {
    let mut sha256 = Running::default();
    sha256.update(&json::canonical(value));
    sha256.so_far()
}

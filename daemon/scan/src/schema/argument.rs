//! What an argument is, by its schema.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gate::{digest::Digest, json::Value};

use super::{Obligation, Types};

/// An argument, or one inside it.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Where it stands in a call's arguments: a JSON pointer in which `*` is each item or each member of a map.
    pub path: String,
    /// Its name: the last step of the path. `*` of a map's values, a number of a tuple's position.
    pub name: String,
    /// How its name came about.
    pub named: Named,
    /// Where its schema stands in the file.
    pub pointer: String,
    /// Whether a call must have it.
    pub presence: Presence,
    /// Which types it may have.
    pub types: Types,
    /// Which types the items of an array may have, the items' items and so on behind it.
    pub items: Vec<Types>,
    /// The values that it is one of, where they are listed.
    pub choice: Option<Choice>,
    /// Its bounds.
    pub bounds: Bounds,
    /// What stands in it for people: foreign text.
    pub words: Words,
    /// What a person has to look at.
    pub obligations: Vec<Obligation>,
    /// SHA-256 over the RFC 8785 form of its schema; where several speak of it (references, branches), over their
    /// fingerprints, a line each.
    pub sha256: Digest,
}

impl Argument {
    /// Whether it stands inside another.
    pub fn is_nested(&self) -> bool {
        self.path.bytes().filter(|b| *b == b'/').count() > 1
    }

    /// Its type in one line: `string`, `array of string`, `enum of string`.
    pub fn kind(&self) -> String {
        let mut kind = self.types.to_string();
        if self.choice.is_some() {
            kind.insert_str(0, "enum of ");
        }
        for items in &self.items {
            kind.push_str(" of ");
            kind.push_str(&items.to_string());
        }
        kind
    }
}

/// How an argument's name came about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Named {
    /// The caller chooses it: a map's values.
    ByCaller,
    /// By its place in a tuple.
    ByPosition,
    /// By the schema.
    BySchema,
}

/// Whether a call must have an argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// It may leave it out.
    Optional,
    /// It must have it.
    Required,
}

/// The values that an argument is one of.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice(pub Vec<Arc<Value>>);

/// The bounds of an argument that hold always.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Numbers by their keyword, the tightest where it stands more than once.
    pub numbers: BTreeMap<&'static str, Value>,
    /// Every `pattern`.
    pub patterns: BTreeSet<Arc<str>>,
    /// Every `format`, also of a branch that holds sometimes.
    pub formats: BTreeSet<Arc<str>>,
}

/// What stands in a schema for people, and hints at what a value is. Texts are cut after
/// [`Words::MOST`] bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    /// `title`.
    pub titles: BTreeSet<Arc<str>>,
    /// `description`, and `$comment`.
    pub descriptions: BTreeSet<Arc<str>>,
    /// Texts in `default`, `examples` and `const`.
    pub samples: BTreeSet<Arc<str>>,
    /// `contentMediaType`, `contentEncoding` and `x-mcp-header`, as `keyword: text`.
    pub carriage: BTreeSet<Arc<str>>,
}

impl Words {
    /// The most bytes of one text: more than any description that a person reads.
    pub const MOST: usize = 4_096;
}

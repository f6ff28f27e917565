//! What a person has to look at, because the schema says it in a way that is not decided on here.

use serde::Serialize;

/// What kind of thing is to be looked at.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `true` or `false` instead of a schema.
    BooleanSchema,
    /// Two names that differ by case or normal form alone.
    Collision,
    /// `anyOf`, `oneOf`, `allOf`, `if`, `not` and their like.
    Composite,
    /// No value fits.
    Contradiction,
    /// A keyword's value is not what the keyword takes.
    Malformed,
    /// A reference to nothing.
    MissingReference,
    /// Arguments inside the argument.
    Nested,
    /// An object inside takes members that the schema does not name.
    OpenObject,
    /// A map: names that the caller chooses.
    PropertyMap,
    /// A schema inside itself.
    Recursive,
    /// A reference out of the file. It is never fetched.
    RemoteReference,
    /// Positions of an array that mean different things: fields that are good each by itself do not
    /// authorise the tuple.
    Tuple,
    /// Required, and declared nowhere.
    Undeclared,
    /// More than one type.
    UnionType,
    /// A key of the tool, or a keyword of the schema, that is not modelled.
    Unmodelled,
    /// No type is said.
    Untyped,
}

impl Kind {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BooleanSchema => "boolean_schema",
            Self::Collision => "collision",
            Self::Composite => "composite",
            Self::Contradiction => "contradiction",
            Self::Malformed => "malformed",
            Self::MissingReference => "missing_reference",
            Self::Nested => "nested",
            Self::OpenObject => "open_object",
            Self::PropertyMap => "property_map",
            Self::Recursive => "recursive",
            Self::RemoteReference => "remote_reference",
            Self::Tuple => "tuple",
            Self::Undeclared => "undeclared",
            Self::UnionType => "union_type",
            Self::Unmodelled => "unmodelled",
            Self::Untyped => "untyped",
        }
    }

    /// What a person is asked.
    pub const fn ask(self) -> &'static str {
        match self {
            Self::BooleanSchema => "the schema says nothing of the value; what may it be?",
            Self::Collision => "names differ by case or form alone; which of them is read?",
            Self::Composite => "the schema is put together of others; which of them holds when?",
            Self::Contradiction => "no value fits the schema; what does the tool really take?",
            Self::Malformed => "a keyword has a value that it does not take; what was meant?",
            Self::MissingReference => {
                "the reference leads nowhere; what does the tool really take?"
            }
            Self::Nested => "there are arguments inside; is one of them a target?",
            Self::OpenObject => {
                "members that are not named are taken; what does the tool do with them?"
            }
            Self::PropertyMap => "the caller chooses names; what does a name do?",
            Self::Recursive => "the schema stands inside itself; how deep does the tool look?",
            Self::RemoteReference => {
                "the schema lies elsewhere and was not fetched; what does it say?"
            }
            Self::Tuple => {
                "positions mean different things; which combinations are allowed? Each field by itself does not \
                 authorise the tuple"
            }
            Self::Undeclared => "the argument is required and declared nowhere; what is it?",
            Self::UnionType => "the value may be of several types; what does each do?",
            Self::Unmodelled => "this is not modelled here; does it change what the tool takes?",
            Self::Untyped => "the schema says no type; what may the value be?",
        }
    }
}

/// One thing to look at.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Obligation {
    /// What kind.
    pub kind: Kind,
    /// Where in the file, as a JSON pointer.
    pub pointer: String,
    /// The keyword or the name that it is about: foreign text, and empty where the place says it.
    pub about: String,
}

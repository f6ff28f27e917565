//! What somebody states of the tools, in a file of its own: which risk, which bounds, enforced by whom.
//!
//! The form is that of Verb Authority's files of version 1. It is shown beside what is inferred and never instead of it: nothing here verifies a word of it, and no argument is
//! freed by it. What it names must be there, and what it says must be of its form; anything else is refused.

mod fields;
mod read;

use std::collections::BTreeMap;

use gate::digest::{Digest, Running};
use serde::Serialize;

pub use read::MEMBERS;

use crate::{
    infer::Tier,
    input::{Export, InputError},
    schema::Schema,
};

/// The version that is read.
pub const VERSION: i64 = 1;

/// What somebody states.
#[derive(Clone, Debug)]
pub struct Controls {
    /// SHA-256 of the file's bytes.
    pub sha256: Digest,
    /// By the tool's name.
    pub tools: BTreeMap<String, Stated>,
}

/// What somebody states of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// What a call does.
    pub acts: Acts,
    /// By the argument's path.
    pub arguments: BTreeMap<String, StatedArgument>,
    /// What the server itself fixes, and does not show: by a name that the schema has not.
    pub unexposed: BTreeMap<String, Unexposed>,
}

/// What a call does, by somebody's word.
#[derive(Clone, Debug, PartialEq)]
pub enum Acts {
    /// An argument chooses.
    Branches {
        /// Its path.
        selector: String,
        /// Each of its values, once.
        cases: Vec<Case>,
    },
    /// Nobody says.
    NotStated,
    /// One thing.
    Risk(StatedRisk),
}

/// A risk, by somebody's word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatedRisk {
    /// Which.
    pub tier: Tier,
    /// How he knows.
    pub evidence: Evidence,
    /// What happens, in his words: foreign text.
    pub effects: Vec<String>,
    /// What he says of it: foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One value of a selector.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The value.
    pub value: String,
    /// Its risk.
    #[serde(flatten)]
    pub risk: StatedRisk,
    /// The arguments that such a call takes.
    pub arguments: Vec<String>,
}

/// How somebody says that he knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Somebody vouches for it.
    Attested,
    /// It is said.
    Declared,
    /// It was seen.
    Observed,
}

/// What somebody states of an argument.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatedArgument {
    /// Who may author it.
    pub authority: StatedAuthority,
    /// How somebody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// What bounds it.
    pub bounds: Vec<Bound>,
    /// What he says of it: foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Who may author an argument, by somebody's word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatedAuthority {
    /// Anybody, within bounds.
    Constrained,
    /// Anybody.
    Free,
    /// Nobody whose words are not trusted.
    Locked,
}

/// A bound, by somebody's word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Where it comes from: foreign text.
    pub source: String,
    /// Who can change it.
    pub bounds_mutability: Mutability,
    /// Whether it holds.
    pub operational_status: Status,
    /// By what: foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<String>,
}

/// Who can change a bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutability {
    /// Whoever calls.
    Caller,
    /// Nobody.
    Immutable,
    /// Somebody who is trusted.
    TrustedParty,
}

/// Whether a bound holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is enforced.
    Enforced,
    /// Nobody says.
    NotStated,
    /// It is written down.
    Specified,
}

/// What the server fixes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unexposed {
    /// How.
    pub exposure: Exposure,
    /// By what: foreign text.
    pub enforced_by: String,
    /// How somebody knows.
    pub evidence: Evidence,
    /// What he says of it: foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How an argument is kept from the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exposure {
    /// The server has one value.
    ServerFixed,
}

impl Stated {
    /// The risk that is stated for the tool as a whole.
    pub fn tier(&self) -> Tier {
        match &self.acts {
            Acts::Risk(risk) => risk.tier,
            Acts::Branches { .. } | Acts::NotStated => Tier::Unknown,
        }
    }
}

/// Reads a file of controls for these exports; `file` is what errors call it.
///
/// # Errors
/// When it is refused: not of its form, or about something that the exports have not, or have twice.
pub fn parse(file: &str, bytes: &[u8], exports: &[Export]) -> Result<Controls, InputError> {
    let value = crate::input::value(file, bytes)?;
    let mut sha256 = Running::default();
    sha256.update(bytes);
    let schemas: Vec<Vec<Schema>> = exports
        .iter()
        .map(crate::schema::read)
        .collect::<Result<_, _>>()?;
    let known = exports
        .iter()
        .zip(&schemas)
        .flat_map(|(export, schemas)| export.tools.iter().zip(schemas));
    let tools = read::tools(&value, &known.collect::<Vec<_>>())
        .map_err(|(at, fault)| InputError::new(file, at, fault))?;
    Ok(Controls {
        sha256: sha256.so_far(),
        tools,
    })
}

/// Reads the file at `path` for these exports.
///
/// # Errors
/// As [`parse`], and when it cannot be read.
pub fn read(path: &std::path::Path, exports: &[Export]) -> Result<Controls, InputError> {
    let bytes = crate::input::bytes(path)?;
    parse(&path.to_string_lossy(), &bytes, exports)
}

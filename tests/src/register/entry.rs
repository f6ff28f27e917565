//! The register: one file that lists every credential and key of ours.

use std::{collections::BTreeSet, path::Path};

use serde::Deserialize;

/// The register, as it was when this was built.
const FILE: &str = include_str!("../../../fixtures/register.toml");

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The register.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    format: u32,
    /// What is scanned and what is not.
    pub scope: Scope,
    /// The agent zone.
    pub zone: Zone,
    /// Every credential and key.
    pub credential: Vec<Entry>,
    /// What the register and its check cannot see.
    pub limit: Vec<Limit>,
}

/// What is scanned and what is not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Packages of the workspace that are not scanned, each with a reason.
    pub excluded: Vec<Excluded>,
}

/// A package that is not scanned.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excluded {
    /// Which.
    pub package: String,
    /// Why.
    pub reason: String,
}

/// The agent zone: code that runs with the agent, or that the agent may start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Its roots; everything that they are built from is in the zone too.
    pub root: Vec<Root>,
}

/// A root of the zone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// The package.
    pub package: String,
    /// Why it is one.
    pub reason: String,
}

/// One credential or key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name here.
    pub id: String,
    /// What it is worth.
    pub class: Class,
    /// The program that holds it.
    pub holder: String,
    /// By which path it may be used.
    pub authorized_path: String,
    /// Where the code obtains it: `ACCESS PACKAGE::MODULE`.
    pub readers: BTreeSet<String>,
    /// Whether the agent can reach it.
    pub agent_reachable: bool,
    /// Why it can or cannot.
    pub reachability: String,
    /// What the claim does not cover.
    pub limits: Vec<String>,
}

/// What a credential is worth.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It makes others believe that something was allowed.
    AuthorityKey,
    /// It causes an effect.
    EffectCredential,
    /// It causes and authorizes nothing: it is listed because the code reads it like one.
    NonEffect,
}

/// Something that the register and its check cannot see.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Its stable name.
    pub id: String,
    /// What it is.
    pub limit: String,
}

/// Why the register cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// A format that this version does not know.
    #[error("the register has format {found}; this version reads format {FORMAT}")]
    Format {
        /// The file's.
        found: u32,
    },
    /// The file cannot be read.
    #[error("cannot read `fixtures/register.toml`")]
    Read(#[from] std::io::Error),
    /// Not the TOML that we expect.
    #[error("the register does not parse")]
    Parse(#[from] toml::de::Error),
}

impl Register {
    /// The register that was built in.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn embedded() -> Result<Self, RegisterError> {
        Self::parse(FILE)
    }

    /// The register of a source tree.
    ///
    /// # Errors
    /// When it cannot be read or does not parse.
    pub fn of(source: &Path) -> Result<Self, RegisterError> {
        Self::parse(&std::fs::read_to_string(
            source.join("fixtures/register.toml"),
        )?)
    }

    /// Parses `text`.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn parse(text: &str) -> Result<Self, RegisterError> {
        let register: Self = toml::from_str(text)?;
        if register.format == FORMAT {
            Ok(register)
        } else {
            Err(RegisterError::Format {
                found: register.format,
            })
        }
    }
}

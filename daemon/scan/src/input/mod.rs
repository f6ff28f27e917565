//! Bytes become tools: strict JSON, exactly one dialect, within the limits, or one error.
//!
//! Nothing is fetched, started or guessed: what has more than one reading is refused.

mod anthropic;
mod envelope;
mod file;
pub mod limits;
mod mcp;
pub(crate) mod member;
pub(crate) mod name;
mod openai;
mod refused;

use std::{collections::BTreeSet, fmt, path::Path};

use gate::{
    digest::{Digest, Running},
    json::{self, Value},
};
use serde::Serialize;

pub(crate) use file::bytes;
pub(crate) use refused::{At, quoted};
pub use refused::{Fault, InputError};

use crate::pointer;
use member::Object;

/// Whose form an export has.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Anthropic: `input_schema`.
    Anthropic,
    /// MCP tools/list: `inputSchema`.
    Mcp,
    /// OpenAI: `function`, or `parameters`.
    OpenAi,
}

impl Dialect {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Mcp => "mcp",
            Self::OpenAi => "openai",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anthropic => "Anthropic",
            Self::Mcp => "MCP",
            Self::OpenAi => "OpenAI",
        })
    }
}

/// One file's tools.
#[derive(Clone, Debug)]
pub struct Export {
    /// The file, as it was named: foreign text.
    pub file: String,
    /// SHA-256 of its bytes, as `sha256sum` says it.
    pub sha256: Digest,
    /// Whose form it has.
    pub dialect: Dialect,
    /// Keys beside the tools that were not looked at.
    pub ignored: Vec<String>,
    /// The tools, in the file's order; no name twice.
    pub tools: Vec<Tool>,
}

/// A tool as it was exported. Every text is foreign.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Where it stands in the file, as a JSON pointer.
    pub pointer: String,
    /// What it is called for people.
    pub title: Option<String>,
    /// What it says of itself.
    pub description: Option<String>,
    /// The schema of its arguments.
    pub input: Value,
    /// Where that stands in the file.
    pub input_pointer: String,
    /// The schema of its results, if it has one.
    pub output: Option<Value>,
    /// What it hints of itself (MCP annotations); never a proof.
    pub annotations: Object,
    /// Its keys that no form of ours has, each with its value.
    pub unknown: Object,
}

/// Reads the files of a run.
///
/// # Errors
/// When one of them is refused: then there is nothing of the others either.
pub fn read(files: &[impl AsRef<Path>]) -> Result<Vec<Export>, InputError> {
    let mut exports = Vec::new();
    let mut total: usize = 0;
    for path in files {
        let path = path.as_ref();
        let name = path.to_string_lossy();
        if exports.len() == limits::DOCUMENTS {
            return Err(InputError::new(&name, "", Fault::Documents));
        }
        let bytes = bytes(path)?;
        total = total.saturating_add(bytes.len());
        if total > limits::RUN_BYTES {
            return Err(InputError::new(&name, "", Fault::Run));
        }
        exports.push(parse(&name, &bytes)?);
    }
    Ok(exports)
}

/// Reads one export that is at hand; `file` is what errors and reports call it.
///
/// # Errors
/// When it is refused.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Export, InputError> {
    let value = value(file, bytes)?;
    let refused = |(at, fault): At| InputError::new(file, at, fault);
    let found = envelope::open(&value).map_err(refused)?;
    let (dialect, tools) = tools(found.tools, &found.pointer, found.form).map_err(refused)?;
    let mut sha256 = Running::default();
    sha256.update(bytes);
    Ok(Export {
        file: file.into(),
        sha256: sha256.so_far(),
        dialect,
        ignored: found.ignored,
        tools,
    })
}

/// The bytes of a file as a value.
pub(crate) fn value(file: &str, bytes: &[u8]) -> Result<Value, InputError> {
    if bytes.len() > limits::FILE_BYTES {
        return Err(InputError::new(file, "", Fault::Large));
    }
    // What PowerShell writes. JSON has none (RFC 8259, 8.1).
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    if marks.iter().any(|mark| bytes.starts_with(mark)) {
        return Err(InputError::new(file, "", Fault::Mark));
    }
    json::parse_located(bytes, &limits::JSON).map_err(|located| InputError::json(file, located))
}

fn tools(items: &[Value], base: &str, form: envelope::Form) -> Result<(Dialect, Vec<Tool>), At> {
    if items.len() > limits::TOOLS {
        let fault = Fault::Tools { found: items.len() };
        return Err((base.to_owned(), fault));
    }
    let mut dialect = None;
    let mut names = BTreeSet::new();
    let mut tools = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let at = match form {
            envelope::Form::One => base.to_owned(),
            envelope::Form::Bare
            | envelope::Form::Functions
            | envelope::Form::Rpc
            | envelope::Form::Tools => pointer::item(base, index),
        };
        let members = member::object(item, &at)?;
        let found = envelope::dialect(members, form, &at)?;
        let first = *dialect.get_or_insert(found);
        if first != found {
            return Err((at, Fault::Dialects { first, found }));
        }
        let tool = match found {
            Dialect::Anthropic => anthropic::tool(members, &at)?,
            Dialect::Mcp => mcp::tool(members, &at)?,
            Dialect::OpenAi => openai::tool(members, &at)?,
        };
        if tool.name.is_empty() || tool.name.len() > limits::NAME_BYTES {
            return Err((at, Fault::Name));
        }
        name::check(&tool.name, &at)?;
        if !names.insert(tool.name.clone()) {
            let name = gate::excerpt::excerpt(&tool.name);
            return Err((at, Fault::SameName { name }));
        }
        tools.push(tool);
    }
    match (dialect, form) {
        (Some(dialect), _) => Ok((dialect, tools)),
        (None, envelope::Form::Bare | envelope::Form::One) => Err((base.to_owned(), Fault::Empty)),
        (None, envelope::Form::Functions) => Ok((Dialect::OpenAi, tools)),
        (None, envelope::Form::Rpc | envelope::Form::Tools) => Ok((Dialect::Mcp, tools)),
    }
}

/// A member that must be there, as a text.
fn named(members: &Object, dialect: Dialect, at: &str) -> Result<String, At> {
    let member = "name";
    member::text_of(members, member, at)?
        .ok_or_else(|| (at.to_owned(), Fault::Missing { dialect, member }))
}

/// The keys of `members` that `known` has not.
fn unknown(members: &Object, known: &[&str]) -> Object {
    members
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

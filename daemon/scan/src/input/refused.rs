//! Why an input is refused: one sentence that names the file, the place and what to do.

use std::{io, path::Path};

use custody_shown::inert;
use gate::{
    excerpt::excerpt,
    json::{JsonError, Located},
};

use super::{Dialect, limits};

/// An input that is refused, whole.
#[derive(Debug, thiserror::Error)]
#[error("`{}`{}: {fault}", inert::line(.file), at(.pointer))]
pub struct InputError {
    /// The file, as it was named.
    pub file: String,
    /// Where in it, as a JSON pointer (RFC 6901); empty for the whole.
    pub pointer: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with an input, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A key that must be there.
    #[error("there is no `{key}`; add it")]
    Absent {
        /// Which.
        key: &'static str,
    },
    /// More than one reading.
    #[error(
        "{first} and {second} stand side by side, so there is more than one reading; keep one of them"
    )]
    Ambiguous {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// Too many arguments.
    #[error(
        "the tool has more than {} arguments, nested ones included; split the tool",
        limits::ARGUMENTS
    )]
    Arguments,
    /// Begins with a byte order mark.
    #[error("it begins with a byte order mark, as UTF-16 and some UTF-8 do; write plain UTF-8")]
    Mark,
    /// Two dialects in one file.
    #[error(
        "this tool has the form of {found}, and the one before it that of {first}; export each to a file of its own"
    )]
    Dialects {
        /// The first tool's.
        first: Dialect,
        /// This one's.
        found: Dialect,
    },
    /// Too many members of an enum.
    #[error(
        "an enum has {found} members; at most {} are read; leave the list out of the schema",
        limits::CHOICES
    )]
    Choices {
        /// How many it has.
        found: usize,
    },
    /// Said to be kept from callers, and in the schema.
    #[error("`{name}` is in the tool's schema, so callers see it; state it under `arguments`")]
    Exposed {
        /// Its name.
        name: String,
    },
    /// A reference that leads to itself.
    #[error("this reference leads back to itself and never to a schema; give it one")]
    Circle,
    /// Too deep.
    #[error(
        "references or arguments stand more than {} deep; flatten the schema",
        limits::DEPTH
    )]
    Depth,
    /// Too many files.
    #[error(
        "more than {} files in one run; scan them in several runs",
        limits::DOCUMENTS
    )]
    Documents,
    /// No tool at all, so no dialect.
    #[error(
        "an empty array says of no tool; export the tools, or write {{\"tools\": []}} for a server without one"
    )]
    Empty,
    /// A JSON-RPC error.
    #[error("this is an answer that says an error, and no list of tools; export the list again")]
    Failed,
    /// Of no known form.
    #[error(
        "a file is {{\"tools\": [...]}}, an array of tools, one tool, {{\"functions\": [...]}} or a JSON-RPC result; this is none of them"
    )]
    Form,
    /// A tool that the provider itself runs.
    #[error(
        "a tool of type {kind} is run by the provider and has no schema to scan; take it out of the file"
    )]
    Hosted {
        /// Its type.
        kind: String,
    },
    /// Not the JSON that we take.
    #[error("{why}; {change}")]
    Json {
        /// Why.
        why: JsonError,
        /// What to do.
        change: &'static str,
    },
    /// The file is too large.
    #[error("more than {} bytes in the file; split the export", limits::FILE_BYTES)]
    Large,
    /// A member that must be there.
    #[error("a tool of the form of {dialect} has no `{member}`; export it again with its schema")]
    Missing {
        /// The dialect.
        dialect: Dialect,
        /// Its name.
        member: &'static str,
    },
    /// Too much is stated.
    #[error(
        "more than {} things are stated; split the file",
        crate::controls::MEMBERS
    )]
    Members,
    /// A value of a selector without a case.
    #[error("no case has the value `{missing}`; each value of the selector has exactly one")]
    NoCase {
        /// The value.
        missing: String,
    },
    /// A tool's name is empty or too long.
    #[error("a tool's name has 1 to {} bytes; rename it", limits::NAME_BYTES)]
    Name,
    /// Of no known dialect.
    #[error(
        "a tool has `inputSchema` (MCP), `input_schema` (Anthropic), `function` or `parameters` (OpenAI); this has none of them"
    )]
    NoDialect,
    /// Of something that the exports have not.
    #[error(
        "no {what} `{name}` is in the exports, or it has a case already; correct the name or take it out"
    )]
    Nowhere {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Only a page of the list.
    #[error("`nextCursor` says that this is not the whole list; export every page into one file")]
    Page,
    /// Cannot be read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// All files together are too large.
    #[error(
        "the files of this run have more than {} bytes together; scan them in several runs",
        limits::RUN_BYTES
    )]
    Run,
    /// A tool stands twice.
    #[error(
        "a tool named `{name}` stands there already; two tools of one name cannot be told apart, rename one"
    )]
    SameName {
        /// Its name.
        name: String,
    },
    /// References multiply.
    #[error(
        "references or long names multiply to more than {} steps; flatten the schemas, shorten the names",
        limits::STEPS
    )]
    Steps,
    /// Too many tools.
    #[error(
        "{found} tools in one file; at most {} are read; split the export",
        limits::TOOLS
    )]
    Tools {
        /// How many there are.
        found: usize,
    },
    /// A name that turns what stands beside it.
    #[error(
        "the name {name} has a control character or a mark that turns the direction of text; rename it"
    )]
    Turned {
        /// It.
        name: String,
    },
    /// Another type.
    #[error("must be {wanted}, and is {found}; correct the export")]
    Type {
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A key that the form has not.
    #[error("`{key}` is no key of this form; correct it or take it out")]
    Unknown {
        /// It.
        key: String,
    },
    /// A version that is not read here.
    #[error("only version {known} is read here; write `\"version\": {known}`")]
    Version {
        /// The one that is.
        known: i64,
    },
    /// A word that is not one of a list.
    #[error("`{found}` is not one of {listed}; write one of them")]
    Word {
        /// What stands there.
        found: String,
        /// What may stand there.
        listed: String,
    },
}

impl InputError {
    pub(crate) fn new(file: &str, pointer: impl Into<String>, fault: Fault) -> Self {
        Self {
            file: file.into(),
            pointer: pointer.into(),
            fault,
        }
    }

    pub(crate) fn json(file: &str, located: Located) -> Self {
        let change = change(&located.error);
        let fault = Fault::Json {
            why: located.error,
            change,
        };
        Self::new(file, located.pointer, fault)
    }

    pub(super) fn read(file: &Path, error: io::Error) -> Self {
        Self::new(&file.to_string_lossy(), "", Fault::Read(error))
    }
}

/// A fault at a pointer: what the functions below the file's own know.
pub(crate) type At = (String, Fault);

/// A key of foreign text, short and inert, for a sentence of ours.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", excerpt(text))
}

/// The pointer's end says where it is; a pointer may be as long as the file's keys make it.
fn at(pointer: &str) -> String {
    if pointer.is_empty() {
        return String::new();
    }
    let tail: Vec<char> = pointer.chars().rev().take(SHOWN).collect();
    let cut = if pointer.chars().count() > SHOWN {
        "..."
    } else {
        ""
    };
    let tail: String = tail.into_iter().rev().collect();
    format!(" at {cut}{}", inert::line(&tail))
}

/// So many characters of a pointer are shown.
const SHOWN: usize = 200;

const fn change(error: &JsonError) -> &'static str {
    match error {
        JsonError::Bytes { .. } | JsonError::Nodes { .. } => "split the export",
        JsonError::Depth { .. } => "flatten the schemas",
        JsonError::DuplicateKey => "readers take either; keep one",
        JsonError::Magnitude => "leave the bound out, or write one that all readers have",
        JsonError::MinusZero | JsonError::Nul => "correct the export",
        JsonError::NotCanonical | JsonError::Shape { .. } => "export it again",
        JsonError::Syntax { .. } => {
            "it is cut off, not UTF-8, has a lone surrogate or is no JSON: export it again"
        }
    }
}

//! From the text of a policy file to the policy.

use alloc::{borrow::ToOwned as _, string::String, vec, vec::Vec};
use core::ops::Range;

use serde::Deserialize as _;
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use super::{Beside, FORMAT, Policy, PolicyError, Problem, file::File, locate, lower};
use crate::{excerpt::excerpt, id::PolicyName};

/// The text of a policy, read as TOML.
type Root<'t> = Spanned<DeTable<'t>>;

pub(super) fn compile(
    name: &PolicyName,
    toml: &str,
    beside: Beside<'_>,
) -> Result<Policy, PolicyError> {
    read(toml)
        .and_then(|root| of_root(name, root, beside))
        .map_err(|wrong| wrong.error(name, toml))
}

/// Everything that is wrong, as far as one thing does not follow from another: the first, and what is found
/// when the tool or the key that it is about is put aside. Empty if the text is a policy.
pub(super) fn faults(name: &PolicyName, toml: &str, beside: Beside<'_>) -> Vec<PolicyError> {
    let mut left = match read(toml) {
        Ok(root) => root,
        Err(wrong) => return vec![wrong.error(name, toml)],
    };
    let mut found = Vec::new();
    while let Err(wrong) = of_root(name, left.clone(), beside) {
        let path = wrong.path(toml);
        let is_shape = matches!(wrong, Wrong::Toml(_));
        found.push(wrong.error(name, toml));
        if found.len() >= FAULTS_MAX || !put_aside(left.get_mut(), &path, is_shape) {
            break;
        }
    }
    found.sort_by_key(|error| error.at.start);
    found
}

/// The most that are listed at once.
const FAULTS_MAX: usize = 50;

/// Takes out what is wrong, so that the rest can be looked at. False where everything else hangs on it.
fn put_aside(root: &mut DeTable<'_>, path: &[String], is_shape: bool) -> bool {
    match path {
        [tools, tool, ..] if tools == "tools" => {
            let Some(DeValue::Table(all)) = root.get_mut("tools").map(Spanned::get_mut) else {
                return false;
            };
            // What rests on it is not looked at either: it would be wrong for that alone.
            let resting: Vec<String> = all
                .iter()
                .filter(|(_, it)| rests_on(it.get_ref(), tool))
                .map(|(name, _)| name.get_ref().clone().into_owned())
                .collect();
            for name in &resting {
                let _it = all.remove(name.as_str());
            }
            all.remove(tool.as_str()).is_some()
        }
        // Tools use what is declared here: they are looked at when it is right.
        [declared, name, ..] if DECLARED.contains(&declared.as_str()) => {
            let _tools = root.remove("tools");
            match root.get_mut(declared.as_str()).map(Spanned::get_mut) {
                Some(DeValue::Table(all)) => all.remove(name.as_str()).is_some(),
                Some(_) | None => false,
            }
        }
        // A key that is not known, or not of its type: without it there is a default.
        [.., _key] if is_shape => remove(root, path),
        [] | [_, ..] => false,
    }
}

/// What tools use.
const DECLARED: [&str; 4] = ["catalogues", "credentials", "owned", "values"];

/// Whether a tool's precondition is what another tool read last.
fn rests_on(tool: &DeValue<'_>, on: &str) -> bool {
    let read = ["precondition", "last_read", "tool"];
    let named = read.into_iter().try_fold(tool, |value, key| match value {
        DeValue::Table(table) => table.get(key).map(Spanned::get_ref),
        DeValue::Array(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Float(_)
        | DeValue::Integer(_)
        | DeValue::String(_) => None,
    });
    named.is_some_and(|it| it.as_str() == Some(on))
}

fn remove(table: &mut DeTable<'_>, path: &[String]) -> bool {
    match path {
        [] => false,
        [key] => table.remove(key.as_str()).is_some(),
        [key, rest @ ..] => match table.get_mut(key.as_str()).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) => remove(inner, rest),
            Some(_) | None => false,
        },
    }
}

fn read(toml: &str) -> Result<Root<'_>, Wrong> {
    DeTable::parse(toml).map_err(Wrong::Toml)
}

fn of_root(name: &PolicyName, root: Root<'_>, beside: Beside<'_>) -> Result<Policy, Wrong> {
    // The format is read first, alone: a newer file may have another shape.
    format(root.get_ref())?;
    let file = File::deserialize(Deserializer::from(root)).map_err(Wrong::Toml)?;
    lower::lower(name, file, beside)
        .and_then(Policy::checked)
        .map_err(|fault| Wrong::Rule {
            key: fault.key,
            problem: fault.problem,
        })
}

/// What a text is refused for.
enum Wrong {
    Format { found: i64, at: Range<usize> },
    NoFormat,
    Rule { key: Vec<String>, problem: Problem },
    Toml(toml::de::Error),
}

fn format(root: &DeTable<'_>) -> Result<(), Wrong> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        format: Option<Spanned<i64>>,
    }
    let only = root.get_key_value("format");
    let only: DeTable<'_> = only
        .map(|(k, v)| (k.clone(), v.clone()))
        .into_iter()
        .collect();
    let versioned = Versioned::deserialize(Deserializer::from(Spanned::new(0..0, only)))
        .map_err(Wrong::Toml)?;
    match versioned.format {
        None => Err(Wrong::NoFormat),
        Some(format) if *format.get_ref() == i64::from(FORMAT) => Ok(()),
        Some(format) => Err(Wrong::Format {
            found: *format.get_ref(),
            at: format.span(),
        }),
    }
}

impl Wrong {
    /// The keys that it is about; none where there are none.
    fn path(&self, toml: &str) -> Vec<String> {
        match self {
            Self::Format { .. } | Self::NoFormat => Vec::new(),
            Self::Rule { key, .. } => key.clone(),
            Self::Toml(error) => error
                .span()
                .and_then(|at| locate::path_at(toml, at.start))
                .unwrap_or_default(),
        }
    }

    fn error(self, name: &PolicyName, toml: &str) -> PolicyError {
        let path = self.path(toml);
        let (at, key, problem) = match self {
            Self::Format { found, at } => (at, "format".to_owned(), Problem::Format { found }),
            Self::NoFormat => {
                let problem = Problem::Missing {
                    key: "format",
                    what: "write `format = 1` on top",
                };
                (0..0, "format".to_owned(), problem)
            }
            Self::Rule { key, problem } => {
                (locate::span_of_key(toml, &key), key.join("."), problem)
            }
            Self::Toml(error) => {
                let message: Vec<&str> = error.message().split_whitespace().collect();
                let message = match message.join(" ") {
                    twice if twice == "duplicate key" => "it is there twice; remove one".into(),
                    message => message,
                };
                let at = error.span().unwrap_or(0..0);
                // Text that is no TOML has no keys: what stands in its line then.
                let key = if path.is_empty() {
                    excerpt(locate::text_at(toml, at.start))
                } else {
                    path.join(".")
                };
                (at, key, Problem::Toml { message })
            }
        };
        PolicyError {
            policy: name.clone(),
            line: locate::line_at(toml, at.start),
            at,
            key,
            problem: problem.into(),
        }
    }
}

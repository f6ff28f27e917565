//! From the text of a policy file to the policy.

use alloc::{string::String, vec::Vec};

use serde::Deserialize;

use super::{Beside, FORMAT, Policy, PolicyError, Problem, file::File, locate, lower};
use crate::{excerpt::excerpt, id::PolicyName};

pub(super) fn compile(
    name: &PolicyName,
    toml: &str,
    beside: Beside<'_>,
) -> Result<Policy, PolicyError> {
    format(toml)
        .and_then(|()| file(toml))
        .map_err(|error| of_toml(name, toml, &error))
        .and_then(|file| {
            lower::lower(name, file, beside)
                .and_then(Policy::checked)
                .map_err(|fault| PolicyError {
                    policy: name.clone(),
                    line: locate::line_of_key(toml, &fault.key),
                    key: fault.key.join("."),
                    problem: fault.problem,
                })
        })
}

/// What reading the TOML ended with.
enum Unread {
    Format { found: i64, at: usize },
    NoFormat,
    Toml(toml::de::Error),
}

/// The format is read first, alone: a newer file may have another shape.
fn format(toml: &str) -> Result<(), Unread> {
    #[derive(Deserialize)]
    struct Versioned {
        format: Option<toml::Spanned<i64>>,
    }
    let versioned: Versioned = toml::from_str(toml).map_err(Unread::Toml)?;
    match versioned.format {
        None => Err(Unread::NoFormat),
        Some(format) if *format.get_ref() == i64::from(FORMAT) => Ok(()),
        Some(format) => Err(Unread::Format {
            found: *format.get_ref(),
            at: format.span().start,
        }),
    }
}

fn file(toml: &str) -> Result<File, Unread> {
    toml::from_str(toml).map_err(Unread::Toml)
}

fn of_toml(name: &PolicyName, toml: &str, error: &Unread) -> PolicyError {
    let (at, key, problem) = match error {
        Unread::Format { found, at } => (
            *at,
            Some(String::from("format")),
            Problem::Format { found: *found },
        ),
        Unread::NoFormat => (
            0,
            Some(String::from("format")),
            Problem::Missing {
                key: "format",
                what: "write `format = 1` on top",
            },
        ),
        Unread::Toml(error) => {
            let message: Vec<&str> = error.message().split_whitespace().collect();
            let message = match message.join(" ") {
                twice if twice == "duplicate key" => "it is there twice; remove one".into(),
                message => message,
            };
            let at = error.span().map_or(0, |it| it.start);
            (at, locate::key_at(toml, at), Problem::Toml { message })
        }
    };
    PolicyError {
        policy: name.clone(),
        line: locate::line_at(toml, at),
        // Text that is no TOML has no keys: what stands in its line then.
        key: key.unwrap_or_else(|| excerpt(locate::text_at(toml, at))),
        problem,
    }
}

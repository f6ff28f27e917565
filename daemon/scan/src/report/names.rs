//! Whether the names of tools and arguments are in a report.

use serde::Serialize;

/// Whether names are in a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// Numbers stand for them, and everything that would let them be guessed is left out: digests, bounds,
    /// words, pointers.
    Redacted,
    /// They are.
    Shown,
}

impl Names {
    /// What that means, for the report's reader.
    pub const fn note(self) -> &'static str {
        match self {
            Self::Redacted => {
                "names, words, bounds and digests are left out. What is left still says how many tools and arguments \
                 there are, and of what kind. This report cannot be compared with another; scan the files for that"
            }
            Self::Shown => {
                "names of tools and arguments, single words of descriptions, bounds and digests are in it; \
                 descriptions and listed values are not. The digest of a short schema can be guessed"
            }
        }
    }

    /// `it`, where names are shown.
    pub(super) fn shown<T>(self, it: T) -> Option<T> {
        match self {
            Self::Redacted => None,
            Self::Shown => Some(it),
        }
    }

    /// `name`, or `kind-N`.
    pub(super) fn or_number(self, name: &str, kind: &str, index: usize) -> String {
        match self {
            Self::Redacted => format!("{kind}-{}", index.saturating_add(1)),
            Self::Shown => name.to_owned(),
        }
    }
}

//! Refused configurations (§12.3): each does not start under the profiles that refuse it, and is still
//! reached where it is permitted, or refused there by another layer, which is named.
//!
//! | module | what |
//! |---|---|
//! | [`astray`] | a launcher that lies |
//! | `inject` | one system call made in another process |
//! | `permitted` | the permitted configurations, and what is reached in them |
//! | `place` | the installation that they are tried in |
//! | `plan` | a session under a plan that no shipped profile makes |
//! | [`provoked`] | each, provoked: it does not start |
//! | `served` | the same in the real service, under the profile that permits it |
//! | [`table`](mod@table) | `fixtures/refused.toml` |
//!
//! **Invariant:** whether it started, or its effect was reached, is seen from outside: by what the
//! command would have said, and by a witness or a canary.

pub mod astray;
mod inject;
pub mod permitted;
mod place;
mod plan;
pub mod provoked;
pub(crate) mod served;
pub mod table;
mod tracer;

use custody_wire::refused::Refused;
use serde::{Deserialize, Serialize};

use crate::attempts::refused_configurations;

pub use table::{Configuration, table};

/// What a run found of one refused configuration.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub id: String,
    /// The same in words.
    pub title: String,
    /// The shipped profiles that refuse it.
    pub refused_by: Vec<String>,
    /// The shipped profiles that permit it.
    pub permitted_by: Vec<String>,
    /// The test that it does not start.
    pub test: String,
    /// The attempt that reaches its effect.
    pub attempt: String,
    /// What the attempt ran under: a profile, `plan` or `bare`.
    pub attempted_under: String,
    /// Whether it did not start where it is refused.
    pub not_started: Seen,
    /// Whether its effect was reached where it is permitted.
    pub reached_where_permitted: Seen,
    /// The layer that still refuses the effect where the configuration is permitted, and how that was
    /// seen: then it is not reached there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub still_refused: Option<Seen>,
    /// What custodyd cannot see.
    pub blind_spot: String,
}

impl Row {
    /// Whether it is refused, and reached where it is permitted.
    pub const fn holds(&self) -> bool {
        self.not_started.holds && self.reached_where_permitted.holds
    }

    /// Whether it is as the table says: reached where it is permitted, or still refused by the layer.
    pub fn is_as_said(&self) -> bool {
        let still_refused = self.still_refused.as_ref().is_some_and(|seen| seen.holds);
        self.holds() || (self.not_started.holds && still_refused)
    }
}

/// What was seen.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Whether it is so.
    pub holds: bool,
    /// How it was seen, or why not.
    pub words: String,
}

impl From<anyhow::Result<String>> for Seen {
    fn from(seen: anyhow::Result<String>) -> Self {
        match seen {
            Ok(words) => Self {
                holds: true,
                words: words.trim().chars().take(WORDS_MAX).collect(),
            },
            Err(error) => Self {
                holds: false,
                words: format!("{error:#}").chars().take(WORDS_MAX).collect(),
            },
        }
    }
}

/// The most of what was seen that goes into a row.
const WORDS_MAX: usize = 1_000;

/// Every one, in the order of their names.
///
/// # Errors
/// When `fixtures/refused.toml` does not parse.
pub fn all() -> anyhow::Result<Vec<Configuration>> {
    table()
}

/// Runs both halves of one. Needs root and the built programs.
pub fn run(configuration: &Configuration) -> Row {
    let which = Refused::parse(&configuration.id);
    let unknown = || anyhow::anyhow!("`{}` is not known", configuration.id);
    let not_started = which.ok_or_else(unknown).and_then(provoked::not_started);
    let attempt = which.and_then(refused_configurations::of);
    let seen: Seen = attempt
        .ok_or_else(unknown)
        .and_then(|attempt| (attempt.reach)())
        .into();
    let (reached, still_refused) = match attempt.and_then(|it| it.held_by) {
        None => (seen, None),
        Some(layer) => {
            let words = format!("permitted, and still refused by layer {}", layer.name());
            (
                Seen {
                    holds: false,
                    words,
                },
                Some(seen),
            )
        }
    };
    Row {
        id: configuration.id.clone(),
        title: configuration.title.clone(),
        refused_by: configuration.refused_by.clone(),
        permitted_by: configuration.permitted_by.clone(),
        test: configuration.test.clone(),
        attempt: configuration.attempt.clone(),
        attempted_under: configuration.attempted_under.clone(),
        not_started: not_started.into(),
        reached_where_permitted: reached,
        still_refused,
        blind_spot: configuration.blind_spot.clone(),
    }
}

//! `fixtures/refused.toml`: each refused configuration with its test and its attempt.

use serde::Deserialize;

/// The committed table.
const TABLE: &str = include_str!("../../../fixtures/refused.toml");

/// The version of the file's format.
const FORMAT: &str = "custody-refused/1";

/// One refused configuration.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Its name, as in `custody_wire::refused`.
    pub id: String,
    /// The same in words.
    pub title: String,
    /// The shipped profiles that refuse it.
    pub refused_by: Vec<String>,
    /// The shipped profiles that permit it.
    pub permitted_by: Vec<String>,
    /// Who permits what the attempt runs under: a shipped profile, `plan` (one that the suite hands to
    /// custody-launch) or `bare` (nothing of ours around it).
    pub attempted_under: String,
    /// The layer that still refuses the effect in that profile.
    pub held_by: Option<String>,
    /// The test that it does not start.
    pub test: String,
    /// The attempt that reaches its effect where it is permitted.
    pub attempt: String,
    /// What custodyd cannot see.
    pub blind_spot: String,
    /// What an operator can do.
    pub what_to_do: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    configurations: Vec<Configuration>,
}

/// The table.
///
/// # Errors
/// When the file does not parse, or has another format.
pub fn table() -> anyhow::Result<Vec<Configuration>> {
    let file: File = toml::from_str(TABLE)?;
    anyhow::ensure!(
        file.format == FORMAT,
        "format `{}`, not {FORMAT}",
        file.format
    );
    Ok(file.configurations)
}

#[cfg(test)]
mod tests {
    use custody_wire::{layer::Layer, profile::Profile, refused::Refused};

    use super::*;
    use crate::{
        attempts::{self, refused_configurations},
        refused::provoked,
    };

    #[test]
    fn the_table_and_the_code_say_the_same() {
        let table = table().unwrap();
        let ids: Vec<&str> = table.iter().map(|it| it.id.as_str()).collect();
        let known = Refused::ALL.map(Refused::id);
        assert_eq!(
            ids, known,
            "each once, in order, and none that is not known"
        );
        for row in &table {
            let refused = Refused::parse(&row.id).unwrap();
            let names = |profiles: Vec<Profile>| {
                profiles
                    .into_iter()
                    .map(|it| it.as_str().to_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(row.title, refused.title(), "{}", row.id);
            assert_eq!(row.what_to_do, refused.what_to_do(), "{}", row.id);
            assert_eq!(row.blind_spot, refused.blind_spot(), "{}", row.id);
            assert_eq!(
                row.refused_by,
                names(refused.refused_by().collect()),
                "{}",
                row.id
            );
            assert_eq!(
                row.permitted_by,
                names(refused.permitted_by().collect()),
                "{}",
                row.id
            );
        }
    }

    #[test]
    fn each_is_refused_by_a_shipped_profile_and_has_a_test_and_an_attempt() {
        for row in table().unwrap() {
            assert!(
                !row.refused_by.is_empty(),
                "{}: no profile refuses it",
                row.id
            );
            let refused = Refused::parse(&row.id).unwrap();
            assert_eq!(row.test, format!("refused::{}", row.id));
            assert!(provoked::NAMES.contains(&refused), "{}: no test", row.id);
            let attempt = refused_configurations::of(refused)
                .unwrap_or_else(|| panic!("{}: no attempt", row.id));
            assert_eq!(row.attempt, attempt.id);
            assert_eq!(row.attempted_under, attempt.under.name(), "{}", row.id);
            let held_by = attempt.held_by.map(Layer::name);
            assert_eq!(row.held_by.as_deref(), held_by, "{}", row.id);
            let permits = row.permitted_by.contains(&row.attempted_under);
            assert_eq!(
                permits,
                !row.permitted_by.is_empty(),
                "{}: what a shipped profile permits is tried in one",
                row.id
            );
            let row_of_suite = attempts::all().iter().any(|it| it.id == row.attempt);
            assert!(!row_of_suite, "{}: it has its own runner", row.id);
            assert!(
                !row.blind_spot.is_empty() && !row.what_to_do.is_empty(),
                "{}",
                row.id
            );
        }
    }
}

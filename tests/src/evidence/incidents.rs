//! Incident, exact replay, attempts, outcome: the matrix of published escapes, made by each run.
//!
//! An incident counts as covered only where every attempt of its exact replay was refused in this
//! run, with both controls. Where the attempts do a part of it, it is partial at best.
//! `fixtures/incidents.toml` ties them; nothing here is written by hand.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::row::{Outcome, Row};

const FILE: &str = include_str!("../../../fixtures/incidents.toml");

/// The version of the file's format.
pub const FORMAT: &str = "custody-incidents/2";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    incidents: Vec<Incident>,
}

/// A published escape or bypass.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// Its place in the list.
    pub number: u32,
    /// Its stable name.
    pub id: String,
    /// What it is called here.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// What happened.
    pub mechanism: String,
    /// What is done again, in words.
    pub replay: String,
    /// The attempts that are the replay; empty where it does not apply.
    #[serde(default)]
    pub attempts: Vec<String>,
    /// The profiles that it is to be refused under; all if there is none.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// Why it does not apply to us: only where there is no attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<String>,
    /// What of it the attempts do not do: it is replayed in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

/// How much of an incident this run showed to be refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its exact replay, with both controls.
    Covered,
    /// Nothing of it can be done here.
    DoesNotApply,
    /// An attempt of it was reached, inconclusive or not made.
    NotCovered,
    /// The part of it that can be done here, with both controls.
    Partial,
}

impl Standing {
    fn of(incident: &Incident, outcomes: &[Replay]) -> Self {
        match &incident.partial {
            _ if outcomes.is_empty() => Self::DoesNotApply,
            // What was not made is no part of what was: the rest of a partial replay stands.
            Some(_) => {
                let made = |it: &&Replay| it.outcome != "not_attempted";
                let mut made = outcomes.iter().filter(made).peekable();
                if made.peek().is_some() && made.all(|it| it.counts) {
                    Self::Partial
                } else {
                    Self::NotCovered
                }
            }
            None if outcomes.iter().all(|it| it.counts) => Self::Covered,
            None => Self::NotCovered,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Covered => "covered",
            Self::DoesNotApply => "does not apply",
            Self::NotCovered => "not covered in this run",
            Self::Partial => "partial",
        })
    }
}

/// An incident, with what this run showed of it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Replayed {
    /// The incident.
    #[serde(flatten)]
    pub incident: Incident,
    /// How much of it was refused in this run.
    pub standing: Standing,
    /// What came of each attempt.
    pub outcomes: Vec<Replay>,
}

/// One attempt of an incident's replay.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Replay {
    /// The attempt.
    pub attempt: String,
    /// The outcome's name, or `not_run`.
    pub outcome: String,
    /// Whether it was refused with both controls.
    pub counts: bool,
    /// Why it is known to reach: the incident is ours too, and is shown as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_gap: Option<String>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IncidentsError {
    /// A format that this version does not know.
    #[error("incidents have format `{found}`; this version reads {FORMAT}")]
    Format {
        /// The file's.
        found: String,
    },
    /// Not the TOML that we expect.
    #[error("the incidents do not parse")]
    Parse(#[from] toml::de::Error),
}

/// Every incident of the committed file.
///
/// # Errors
/// When the file cannot be used.
pub fn all() -> Result<Vec<Incident>, IncidentsError> {
    let file: File = toml::from_str(FILE)?;
    if file.format == FORMAT {
        Ok(file.incidents)
    } else {
        Err(IncidentsError::Format { found: file.format })
    }
}

/// The matrix of a run.
pub fn replayed(incidents: Vec<Incident>, rows: &[Row]) -> Vec<Replayed> {
    incidents
        .into_iter()
        .map(|incident| {
            let outcomes: Vec<Replay> = incident
                .attempts
                .iter()
                .map(|id| replay(id, rows))
                .collect();
            Replayed {
                standing: Standing::of(&incident, &outcomes),
                incident,
                outcomes,
            }
        })
        .collect()
}

fn replay(id: &str, rows: &[Row]) -> Replay {
    let row = rows.iter().find(|row| row.id == id);
    Replay {
        attempt: id.into(),
        outcome: row.map_or("not_run", |row| row.outcome.name()).into(),
        counts: row.is_some_and(|row| {
            matches!(row.outcome, Outcome::Refused { .. }) && row.reach.holds && row.twin.holds
        }),
        known_gap: row.and_then(|row| row.known_gap.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use custody_wire::profile::Profile;

    use super::*;
    use crate::{
        attempts,
        evidence::{ablation::tests::row, row::Outcome},
    };

    #[test]
    fn every_incident_names_attempts_that_exist_or_says_why_it_does_not_apply() {
        let known: BTreeSet<&str> = attempts::all().iter().map(|it| it.id).collect();
        let mut ids = BTreeSet::new();
        for (number, incident) in (1..).zip(all().unwrap()) {
            let id = &incident.id;
            assert_eq!(incident.number, number, "{id}");
            assert!(ids.insert(id.clone()), "{id} stands there twice");
            assert!(
                !incident.source.is_empty() && !incident.replay.is_empty(),
                "{id}"
            );
            assert!(
                incident.attempts.is_empty() == incident.not_applicable.is_some(),
                "{id} has either attempts or a reason"
            );
            assert!(
                incident.partial.is_none() || !incident.attempts.is_empty(),
                "{id} is replayed in part by no attempt"
            );
            for attempt in &incident.attempts {
                assert!(known.contains(&**attempt), "{id}: no attempt `{attempt}`");
            }
            for profile in &incident.profiles {
                assert!(
                    Profile::parse(profile).is_some(),
                    "{id}: no profile `{profile}`"
                );
            }
        }
        assert!(ids.len() >= 40, "{} incidents", ids.len());
    }

    fn incident(attempts: &[&str]) -> Vec<Incident> {
        vec![Incident {
            number: 1,
            id: "an-incident".into(),
            title: "an incident".into(),
            source: "a CVE".into(),
            mechanism: "a trick".into(),
            replay: "the same".into(),
            attempts: attempts.iter().map(|id| (*id).into()).collect(),
            profiles: Vec::new(),
            not_applicable: None,
            partial: None,
        }]
    }

    #[test]
    fn an_incident_is_covered_only_where_its_whole_replay_was_refused_with_both_controls() {
        let refused = row(Vec::new());
        let covered = |ids: &[&str], rows: &[Row]| {
            replayed(incident(ids), rows)[0].standing == Standing::Covered
        };
        assert!(covered(&["family/name"], std::slice::from_ref(&refused)));
        assert!(!covered(
            &["family/name", "other/name"],
            std::slice::from_ref(&refused)
        ));
        assert!(!covered(&[], std::slice::from_ref(&refused)));

        let mut without_twin = refused.clone();
        without_twin.twin.holds = false;
        assert!(!covered(&["family/name"], &[without_twin]));
        let mut without_reach = refused.clone();
        without_reach.reach.holds = false;
        assert!(!covered(&["family/name"], &[without_reach]));
        let mut reached = refused;
        reached.outcome = Outcome::Reached {
            proof: "seen".into(),
            protected: true,
        };
        assert!(!covered(&["family/name"], &[reached]));
    }
    #[test]
    fn an_incident_that_is_replayed_in_part_is_never_covered() {
        let refused = row(Vec::new());
        let standing = |ids: &[&str], rows: &[Row]| {
            let mut incident = incident(ids);
            incident[0].partial = Some("the deputy".into());
            replayed(incident, rows)[0].standing
        };
        let rows = std::slice::from_ref(&refused);
        assert_eq!(standing(&["family/name"], rows), Standing::Partial);
        assert_eq!(
            standing(&["family/name", "other/name"], rows),
            Standing::NotCovered
        );

        let mut elsewhere = refused.clone();
        elsewhere.outcome = Outcome::NotAttempted {
            need: "another kernel".into(),
        };
        let alone = [elsewhere.clone()];
        assert_eq!(standing(&["family/name"], &alone), Standing::NotCovered);
        elsewhere.id = "other/name".into();
        assert_eq!(
            standing(&["family/name", "other/name"], &[refused, elsewhere]),
            Standing::Partial
        );
    }
}

//! Door, locks, attempt: what the README's table is made of, as committed data.

use serde::{Deserialize, Serialize};

use super::row::{Outcome, Row};

/// The version of the file's format.
pub const FORMAT: &str = "custody-layers/3";

/// The committed file, `fixtures/layers.json`: what the isolating runs of one whole run showed.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Doors {
    /// [`FORMAT`].
    pub format: String,
    /// The kernel that showed it.
    pub kernel: String,
    /// The profile.
    pub profile: String,
    /// Whether every layer was tried at every door that layers are promised to hold. Otherwise the
    /// promised ones were, and a door may have more locks than it lists.
    pub whole_ablation: bool,
    /// Each attempt is a door.
    pub doors: Vec<Door>,
}

/// A door: an attempt, and what refuses it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    /// The attempt.
    pub id: String,
    /// The trick.
    pub mechanism: String,
    /// The outcome's name.
    pub outcome: String,
    /// The promised layers that refuse it alone; or `gate`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// Other layers whose run alone refuses it: of the run as it is without the rest, in which the
    /// agent may be nobody's owner, or root without a capability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The layers without which it is reached, of those that were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub single: Vec<String>,
    /// Why it is known to reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

/// The doors of a run. `whole`: every layer was tried.
pub fn of(rows: &[Row], kernel: &str, profile: &str, whole: bool) -> Doors {
    Doors {
        format: FORMAT.into(),
        kernel: kernel.into(),
        profile: profile.into(),
        whole_ablation: whole,
        doors: rows.iter().map(door).collect(),
    }
}

fn door(row: &Row) -> Door {
    let (locks, also) = match &row.outcome {
        Outcome::Refused { layer, .. } => {
            let alone = row.alone().map(String::from);
            let (promised, others): (Vec<_>, Vec<_>) =
                alone.partition(|layer| row.promised.contains(layer));
            if promised.is_empty() {
                (vec![layer.clone()], others)
            } else {
                (promised, others)
            }
        }
        // What was not refused shows no lock.
        Outcome::Inconclusive { .. } | Outcome::NotAttempted { .. } | Outcome::Reached { .. } => {
            (Vec::new(), Vec::new())
        }
    };
    Door {
        id: row.id.clone(),
        mechanism: row.mechanism.clone(),
        outcome: row.outcome.name().into(),
        locks,
        also,
        single: row.single_legs.clone(),
        gap: row.known_gap.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{attempts, evidence::expected};

    const FILE: &str = include_str!("../../../fixtures/layers.json");

    #[test]
    fn the_committed_file_has_every_attempt_and_lists_the_single_legs_that_are_expected() {
        let file: Doors = serde_json::from_str(FILE).unwrap();
        assert_eq!(file.format, FORMAT);
        let profile = custody_wire::profile::Profile::parse(&file.profile).unwrap();
        let expected = expected::of(profile, file.kernel.parse().unwrap()).unwrap();
        let doors: BTreeSet<&str> = file.doors.iter().map(|door| door.id.as_str()).collect();
        let again = "run `cargo xtask bypass --write`";
        for attempt in attempts::all() {
            assert!(doors.contains(attempt.id), "{}: {again}", attempt.id);
        }
        for door in &file.doors {
            let expected = &expected[&door.id];
            let attempt = attempts::all().into_iter().find(|it| it.id == door.id);
            let lacks = attempt.is_some_and(|it| !it.needs.is_empty());
            // What that kernel has not, another may have: it shows no lock, and says so.
            if door.outcome == "not_attempted" && lacks {
                continue;
            }
            let listed: Vec<&String> = expected.single_legs.keys().collect();
            let shown: Vec<&String> = door.single.iter().collect();
            assert_eq!(shown, listed, "{}: {again}", door.id);
            assert_eq!(door.outcome, expected.outcome, "{}: {again}", door.id);
        }
    }
}

//! The ablation matrix: which layers refuse alone, and which stand alone.
//!
//! Read from the rows' own isolating runs, and held against the committed lists. A matrix is whole
//! where every layer was tried; a run without `--ablate` tries the promised ones only.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::row::{Isolation, LegOutcome, Outcome, Row};

/// The matrix of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Ablation {
    /// Every row that layers are promised to refuse.
    pub rows: Vec<Line>,
    /// Rows that are reached in no configuration: nothing follows from them.
    pub not_discriminating: Vec<String>,
    /// Single legs that the committed file does not list; each fails the run.
    pub unlisted: Vec<Single>,
    /// Listed single legs beside which another layer refuses now. The list is to be shortened.
    pub stale: Vec<Single>,
}

/// One row of the matrix.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Line {
    /// The attempt.
    pub id: String,
    /// What came of no layer at all, by the launcher's own way.
    pub nothing: Option<LegOutcome>,
    /// With this layer alone.
    pub only: BTreeMap<String, LegOutcome>,
    /// With every layer but this one.
    pub all_but: BTreeMap<String, LegOutcome>,
    /// Layers that refuse alone.
    pub alone: Vec<String>,
    /// Layers without which it is reached.
    pub single: Vec<String>,
}

/// A row and a layer that stands alone there.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Single {
    /// The attempt.
    pub id: String,
    /// The layer.
    pub layer: String,
}

/// Reads the matrix out of the rows. `whole`: every layer was tried.
pub fn of(rows: &[Row], whole: bool) -> Ablation {
    let mut matrix = Ablation::default();
    for row in rows.iter().filter(|row| !row.legs.is_empty()) {
        let cells = |run: Isolation| -> BTreeMap<String, LegOutcome> {
            let of_run = row.legs.iter().filter(|leg| leg.run == run);
            of_run.map(|leg| (leg.layer.clone(), leg.outcome)).collect()
        };
        let line = Line {
            id: row.id.clone(),
            nothing: cells(Isolation::Nothing).into_values().next(),
            only: cells(Isolation::Only),
            all_but: cells(Isolation::AllBut),
            alone: row.alone().map(String::from).collect(),
            single: row.single_legs.clone(),
        };
        let single = |layer: &str| Single {
            id: row.id.clone(),
            layer: layer.into(),
        };
        if !is_discriminating(row) {
            matrix.not_discriminating.push(row.id.clone());
        }
        matrix.unlisted.extend(row.unlisted_legs().map(single));
        if whole {
            matrix.stale.extend(stale(row).map(single));
        }
        matrix.rows.push(line);
    }
    matrix
}

/// Whether there is a configuration in which it is reached.
fn is_discriminating(row: &Row) -> bool {
    row.reach.holds
        || matches!(row.outcome, Outcome::Reached { .. })
        || row
            .legs
            .iter()
            .any(|leg| leg.outcome == LegOutcome::Reached)
}

/// Listed single legs without which it was refused all the same.
fn stale(row: &Row) -> impl Iterator<Item = &str> {
    let listed = row.expected.iter().flat_map(|it| it.single_legs.keys());
    listed.map(String::as_str).filter(|layer| {
        row.legs.iter().any(|leg| {
            leg.run == Isolation::AllBut
                && leg.layer == *layer
                && leg.outcome == LegOutcome::Refused
        })
    })
}

impl Ablation {
    /// The matrix as text: a row for each attempt, a column for each layer.
    pub fn table(&self) -> String {
        let layers: BTreeSet<&str> = self
            .rows
            .iter()
            .flat_map(|line| line.only.keys().chain(line.all_but.keys()))
            .map(String::as_str)
            .filter(|layer| !layer.contains('+'))
            .collect();
        let mut text = String::from(
            "R refuses alone   ! stands alone   . refuses nothing alone   - not there to be tried\n",
        );
        for (number, layer) in layers.iter().enumerate() {
            let bars: String = "| ".repeat(number);
            text.push_str(&format!("{:30} {bars}{layer}\n", ""));
        }
        for line in &self.rows {
            let cells: Vec<&str> = layers.iter().map(|layer| line.cell(layer)).collect();
            let together: Vec<&str> = line
                .alone
                .iter()
                .map(String::as_str)
                .filter(|leg| leg.contains('+'))
                .collect();
            let row = format!("{:30} {} {}", line.id, cells.join(" "), together.join(" "));
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Line {
    fn cell(&self, layer: &str) -> &'static str {
        if self.single.iter().any(|single| single == layer) {
            return "!";
        }
        match self.only.get(layer) {
            Some(LegOutcome::Refused) => "R",
            Some(LegOutcome::Reached) => ".",
            Some(LegOutcome::NotRun) => "-",
            None => " ",
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

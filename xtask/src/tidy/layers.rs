//! The README's table of doors and locks is printed from what an ablation showed.
//!
//! `fixtures/layers.json` is written by `cargo xtask bypass --ablate --write`, from the run's own
//! evidence; a test holds it against the attempts and what is expected of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Finding;
use crate::places::Places;

/// The committed data.
pub(crate) const FILE: &str = "fixtures/layers.json";

const README: &str = "README.md";
const BEGIN: &str = "<!-- layers: begin, from fixtures/layers.json -->\n";
const END: &str = "<!-- layers: end -->\n";
const AGAIN: &str = "run `cargo xtask bypass --ablate --write`";

#[derive(Deserialize)]
struct File {
    kernel: String,
    profile: String,
    doors: Vec<Door>,
}

#[derive(Clone, Deserialize)]
struct Door {
    id: String,
    mechanism: String,
    outcome: String,
    #[serde(default)]
    locks: Vec<String>,
    #[serde(default)]
    single: Vec<String>,
    #[serde(default)]
    gap: Option<String>,
}

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let read = |path: &str| {
        fs::read_to_string(places.root.join(path)).with_context(|| format!("cannot read `{path}`"))
    };
    let file = parse(&read(FILE)?)?;
    let found = judge(&file, &read(README)?);
    Ok(found.into_iter().collect())
}

/// Writes the block of the README anew, from the committed data.
pub(crate) fn write(places: &Places) -> Result<()> {
    let path = places.root.join(README);
    let readme = fs::read_to_string(&path).with_context(|| format!("cannot read `{README}`"))?;
    let data = fs::read_to_string(places.root.join(FILE))
        .with_context(|| format!("cannot read `{FILE}`"))?;
    let (before, rest) = readme
        .split_once(BEGIN)
        .with_context(|| format!("`{README}` has no line `{}`", BEGIN.trim_end()))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("`{README}` has no line `{}`", END.trim_end()))?;
    let table = print(&parse(&data)?);
    fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))
        .with_context(|| format!("cannot write `{README}`"))
}

fn parse(text: &str) -> Result<File> {
    serde_json::from_str(text).with_context(|| format!("`{FILE}` does not parse; {AGAIN}"))
}

fn judge(file: &File, readme: &str) -> Option<Finding> {
    let found = readme
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .map(|(found, _)| found);
    (found != Some(print(file).as_str())).then(|| {
        let what = format!("its table of doors is not that of `{FILE}`; {AGAIN}");
        Finding::new(README, what)
    })
}

/// A row for each family: the locks that every door of it has, and what differs.
fn print(file: &File) -> String {
    let mut families: BTreeMap<&str, Vec<&Door>> = BTreeMap::new();
    for door in &file.doors {
        let family = door.id.split('/').next().unwrap_or_default();
        families.entry(family).or_default().push(door);
    }
    let mut text = format!(
        "Kernel {}, profile `{}`. A lock refuses its door alone, in a run without any other layer.\n\n\
         | door | locks, each alone | attempts |\n|---|---|---|\n",
        file.kernel, file.profile
    );
    for (family, doors) in families {
        let mechanisms: BTreeSet<&str> = doors.iter().map(|it| it.mechanism.as_str()).collect();
        let shown: Vec<&str> = mechanisms.iter().copied().take(SHOWN).collect();
        let more = mechanisms.len().saturating_sub(SHOWN);
        let more = if more == 0 {
            String::new()
        } else {
            format!("; {more} more")
        };
        text.push_str(&format!(
            "| `{family}`: {}{more} | {} | {} |\n",
            shown.join("; "),
            locks(&doors),
            names(&doors)
        ));
    }
    text
}

/// So many tricks of a family are written out: the names of its attempts follow in the last column.
const SHOWN: usize = 3;

fn names(doors: &[&Door]) -> String {
    let name = |door: &&Door| door.id.split_once('/').map(|(_, name)| format!("`{name}`"));
    let names: Vec<String> = doors.iter().filter_map(name).collect();
    names.join(", ")
}

/// Locks that every refused door of the family has; then each exception.
fn locks(doors: &[&Door]) -> String {
    let refused: Vec<&&Door> = doors.iter().filter(|it| it.outcome == "refused").collect();
    let sets: Vec<BTreeSet<&str>> = refused
        .iter()
        .map(|door| door.locks.iter().map(String::as_str).collect())
        .collect();
    let common: BTreeSet<&str> = sets
        .iter()
        .cloned()
        .reduce(|a, b| a.intersection(&b).copied().collect())
        .unwrap_or_default();
    let quoted = |locks: &BTreeSet<&str>| {
        let locks: Vec<String> = locks.iter().map(|lock| format!("`{lock}`")).collect();
        locks.join(", ")
    };
    let mut parts = Vec::new();
    if !common.is_empty() {
        parts.push(quoted(&common));
    }
    let all: BTreeSet<&str> = sets.iter().flatten().copied().collect();
    let some: BTreeSet<&str> = all.difference(&common).copied().collect();
    if !some.is_empty() {
        let which = if common.is_empty() {
            "by door: "
        } else {
            "by door also "
        };
        parts.push(format!("{which}{}", quoted(&some)));
    }
    let name = |door: &Door| {
        let name = door.id.split_once('/').map_or("", |(_, name)| name);
        format!("`{name}`")
    };
    for door in doors {
        if let Some(leg) = door.single.first() {
            let legs = &door.single;
            let layer = if legs.len() == 1 {
                format!("`{leg}`")
            } else {
                let legs: Vec<String> = legs.iter().map(|leg| format!("`{leg}`")).collect();
                legs.join(" and on ")
            };
            parts.push(format!("{} stands on one leg, {layer}", name(door)));
        }
        match (&door.gap, door.outcome.as_str()) {
            (Some(gap), _) => parts.push(format!("{} **is reached**: {gap}", name(door))),
            (None, "refused") => {}
            (None, outcome) => {
                parts.push(format!("{}: {}", name(door), outcome.replace('_', " ")));
            }
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(id: &str, locks: &[&str]) -> Door {
        Door {
            id: id.into(),
            mechanism: format!("the trick of {id}"),
            outcome: "refused".into(),
            locks: locks.iter().map(|lock| (*lock).into()).collect(),
            single: Vec::new(),
            gap: None,
        }
    }

    fn file(doors: Vec<Door>) -> File {
        File {
            kernel: "6.18".into(),
            profile: "standard".into(),
            doors,
        }
    }

    #[test]
    fn a_readme_with_another_table_is_found() {
        let file = file(vec![door("direct/tcp", &["seccomp", "cgroup_inet"])]);
        let readme = |table: &str| format!("# A\n{BEGIN}{table}{END}more\n");
        assert_eq!(judge(&file, &readme(&print(&file))), None);
        assert!(judge(&file, &readme("| door |\n")).is_some());
        assert!(judge(&file, "# A\n").is_some());
    }

    #[test]
    fn a_family_is_a_row_that_says_what_all_its_doors_have_and_what_differs() {
        let mut single = door("direct/vsock", &["seccomp"]);
        single.single = vec!["seccomp".into()];
        let mut gap = door("direct/timing", &[]);
        gap.outcome = "reached".into();
        gap.gap = Some("time can be measured".into());
        let table = print(&file(vec![
            door("direct/tcp", &["seccomp", "cgroup_inet"]),
            single,
            gap,
        ]));
        let row = table.lines().last().unwrap();
        assert_eq!(
            row,
            "| `direct`: the trick of direct/tcp; the trick of direct/timing; the trick of \
             direct/vsock | `seccomp`; by door also `cgroup_inet`; `vsock` stands on one leg, \
             `seccomp`; `timing` **is reached**: time can be measured | `tcp`, `vsock`, `timing` |"
        );
    }
}

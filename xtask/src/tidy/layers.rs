//! The README's table of doors and locks is printed from what isolating runs showed.
//!
//! `fixtures/layers.json` is written by `cargo xtask bypass --write`, with or without `--ablate`, from the run's own
//! evidence, and says which; a test holds it against the attempts and what is expected of them.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Finding;
use crate::places::Places;

/// The committed data.
pub(crate) const FILE: &str = "fixtures/layers.json";

const README: &str = "README.md";
const BEGIN: &str = "<!-- layers: begin, from fixtures/layers.json -->\n";
const END: &str = "<!-- layers: end -->\n";
const AGAIN: &str = "run `cargo xtask bypass --write`";

#[derive(Deserialize)]
struct File {
    kernel: String,
    profile: String,
    whole_ablation: bool,
    doors: Vec<Door>,
}

#[derive(Deserialize)]
struct Door {
    id: String,
    mechanism: String,
    outcome: String,
    #[serde(default)]
    locks: Vec<String>,
    #[serde(default)]
    also: Vec<String>,
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

/// Doors with the same locks are one row.
fn print(file: &File) -> String {
    let mut rows: Vec<(Held<'_>, Vec<&Door>)> = Vec::new();
    for door in &file.doors {
        let held = Held::of(door);
        match rows.iter_mut().find(|(other, _)| *other == held) {
            Some((_, doors)) => doors.push(door),
            None => rows.push((held, vec![door])),
        }
    }
    // Rows keep the order of the suite, those that need a second look come last.
    rows.sort_by_key(|(held, _)| held.order());
    let tried = if file.whole_ablation {
        "Every layer was tried at each of them; behind `also` stand those that were not promised."
    } else {
        "The promised layers were tried, no others: a door may have more locks."
    };
    let mut text = format!(
        "Kernel {}, profile `{}`. Each lock refuses its doors alone, in a run without any other \
         layer. {tried}\n\n| door | locks | attempts |\n|---|---|---|\n",
        file.kernel, file.profile
    );
    for (held, doors) in &rows {
        let mechanisms: BTreeSet<&str> = doors.iter().map(|it| it.mechanism.as_str()).collect();
        let mechanisms: Vec<&str> = mechanisms.into_iter().collect();
        let attempts: Vec<String> = doors.iter().map(|it| format!("`{}`", it.id)).collect();
        text.push_str(&format!(
            "| {} | {} | {} |\n",
            mechanisms.join("; "),
            held.words(),
            attempts.join(", ")
        ));
    }
    text
}

/// By what a door is held.
#[derive(Eq, PartialEq)]
enum Held<'a> {
    /// By each of these; and in a run alone by those, too.
    Locks(BTreeSet<&'a str>, BTreeSet<&'a str>),
    /// By one alone.
    OneLeg(BTreeSet<&'a str>),
    /// By none: a known gap, and why.
    Gap(&'a str),
    /// What was not shown.
    Unknown(&'a str),
}

impl<'a> Held<'a> {
    fn of(door: &'a Door) -> Self {
        let names = |names: &'a [String]| names.iter().map(String::as_str).collect();
        match (&door.gap, &*door.outcome) {
            (Some(gap), _) => Self::Gap(gap),
            (None, "refused") if door.single.is_empty() => {
                Self::Locks(names(&door.locks), names(&door.also))
            }
            (None, "refused") => Self::OneLeg(names(&door.single)),
            (None, outcome) => Self::Unknown(outcome),
        }
    }

    const fn order(&self) -> u8 {
        match self {
            Self::Locks(..) => 0,
            Self::OneLeg(_) => 1,
            Self::Gap(_) => 2,
            Self::Unknown(_) => 3,
        }
    }

    fn words(&self) -> String {
        let quoted = |names: &BTreeSet<&str>, between: &str| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(between)
        };
        match self {
            Self::Locks(locks, also) if also.is_empty() => quoted(locks, ", "),
            Self::Locks(locks, also) => {
                format!("{} (also {})", quoted(locks, ", "), quoted(also, ", "))
            }
            Self::OneLeg(legs) => format!("{}: **one leg**", quoted(legs, " and ")),
            Self::Gap(why) => format!("none: **a known gap**, {why}"),
            Self::Unknown(outcome) => format!("{} in this run", outcome.replace('_', " ")),
        }
    }
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
            also: Vec::new(),
            single: Vec::new(),
            gap: None,
        }
    }

    fn file(doors: Vec<Door>) -> File {
        File {
            kernel: "6.18".into(),
            profile: "standard".into(),
            whole_ablation: false,
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
    fn a_table_says_whether_every_layer_was_tried() {
        let mut file = file(vec![door("direct/tcp", &["seccomp"])]);
        assert!(print(&file).contains("The promised layers were tried, no others"));
        file.whole_ablation = true;
        assert!(print(&file).contains("Every layer was tried"));
    }

    #[test]
    fn doors_with_the_same_locks_are_one_row_and_what_is_not_held_twice_comes_last() {
        let mut single = door("direct/vsock", &["seccomp"]);
        single.single = vec!["seccomp".into()];
        let mut gap = door("covert/timing", &[]);
        gap.outcome = "reached".into();
        gap.gap = Some("time can be measured".into());
        let mut more = door("memory/keyring", &["seccomp"]);
        more.also = vec!["capabilities".into()];
        let mut missing = door("direct/xdp", &[]);
        missing.outcome = "not_attempted".into();
        let table = print(&file(vec![
            missing,
            gap,
            single,
            more,
            door("direct/tcp", &["seccomp", "cgroup_inet"]),
            door("direct/tcp6", &["cgroup_inet", "seccomp"]),
        ]));
        let rows: Vec<&str> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| the trick of memory/keyring | `seccomp` (also `capabilities`) | \
                 `memory/keyring` |",
                "| the trick of direct/tcp; the trick of direct/tcp6 | `cgroup_inet`, `seccomp` | \
                 `direct/tcp`, `direct/tcp6` |",
                "| the trick of direct/vsock | `seccomp`: **one leg** | `direct/vsock` |",
                "| the trick of covert/timing | none: **a known gap**, time can be measured | \
                 `covert/timing` |",
                "| the trick of direct/xdp | not attempted in this run | `direct/xdp` |",
            ]
        );
    }
}

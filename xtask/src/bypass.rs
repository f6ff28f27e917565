//! `bypass`: builds everything and runs the bypass suite, which attacks an installation of its own
//! and writes what happened to `evidence.json` in the checkout.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{
    build,
    places::{self, Places},
    say, setup, stage,
    tidy::layers,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the evidence to standard output instead of the rows
    #[arg(long)]
    json: bool,
    /// Take every layer away in turn, and leave every layer alone in turn
    #[arg(long)]
    ablate: bool,
    /// Write what the isolating runs showed to fixtures/layers.json, and the README's table from
    /// it. Refused where a row is inconclusive: nothing is known of that door
    #[arg(long)]
    write: bool,
    /// Write the README's table from fixtures/layers.json, and run nothing
    #[arg(long, conflicts_with_all = ["ablate", "json", "write"])]
    table: bool,
    /// Handed to custody-bypass as they are
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The suite's runner, where it was built.
pub(crate) fn runner(places: &Places) -> Option<PathBuf> {
    let runner = places.programs().join("custody-bypass");
    places::is_executable(&runner).then_some(runner)
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    if args.table {
        return layers::write(places);
    }
    if args.json {
        // Standard output is for the evidence alone.
        let program = places::own_program()?;
        let mut own = std::process::Command::new(program);
        own.arg("bypass");
        for (wanted, flag) in [(args.ablate, "--ablate"), (args.write, "--write")] {
            if wanted {
                own.arg(flag);
            }
        }
        own.arg("--").args(&args.arguments);
        let ran = stage::must(own.current_dir(&places.root).stdout(std::io::stderr()));
        say::line(fs::read_to_string(evidence(places)).context("there is no evidence")?);
        return ran;
    }
    if args.write && args.arguments.iter().any(|it| it.starts_with("--only")) {
        bail!("`--write` needs every row: leave `--only` out");
    }
    setup::run(places, &setup::Args::default())?;
    build::run(places, &build::Args::default())?;
    let Some(runner) = runner(places) else {
        bail!("custody-bypass was not built");
    };
    // A run that does not come to its end leaves no evidence, an older one neither.
    let evidence = evidence(places);
    if evidence.exists() {
        fs::remove_file(&evidence).context("cannot remove the older evidence")?;
    }
    say::step("bypass");
    let mut command = places::as_root(runner);
    command.arg("--json").arg(&evidence).args(&args.arguments);
    if args.ablate {
        command.arg("--ablate");
    }
    let ran = stage::must(command.current_dir(&places.root));
    if args.write {
        // A row that is not as expected is in the data as it is.
        write(places)?;
    }
    ran
}

/// Takes what the isolating runs showed out of the evidence: the committed data, and the README's table.
fn write(places: &Places) -> Result<()> {
    let text = fs::read_to_string(evidence(places)).context("there is no evidence")?;
    let evidence: serde_json::Value = serde_json::from_str(&text).context("the evidence")?;
    let doors = evidence
        .get("doors")
        .context("the evidence has no doors: it is of another version")?;
    let inconclusive = inconclusive(doors);
    if !inconclusive.is_empty() {
        bail!(
            "nothing is written: inconclusive in this run: {}",
            inconclusive.join(", ")
        );
    }
    let file = places.root.join(layers::FILE);
    fs::write(&file, format!("{}\n", serde_json::to_string_pretty(doors)?))
        .with_context(|| format!("cannot write `{}`", file.display()))?;
    layers::write(places)
}

/// The doors of which nothing is known.
fn inconclusive(doors: &serde_json::Value) -> Vec<&str> {
    let all = doors.get("doors").and_then(serde_json::Value::as_array);
    all.into_iter()
        .flatten()
        .filter(|door| {
            door.get("outcome")
                .is_some_and(|outcome| outcome == "inconclusive")
        })
        .filter_map(|door| door.get("id")?.as_str())
        .collect()
}

fn evidence(places: &Places) -> PathBuf {
    places.root.join("evidence.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_of_which_nothing_is_known_is_named() {
        let doors = serde_json::json!({"doors": [
            {"id": "direct/tcp", "outcome": "refused"},
            {"id": "direct/udp", "outcome": "inconclusive"},
        ]});
        assert_eq!(inconclusive(&doors), ["direct/udp"]);
        assert!(inconclusive(&serde_json::json!({})).is_empty());
    }
}

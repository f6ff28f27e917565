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
    /// Write what the ablation showed to fixtures/layers.json, and the README's table from it
    #[arg(long, requires = "ablate")]
    write: bool,
    /// Write the README's table from fixtures/layers.json, and run nothing
    #[arg(long, conflicts_with_all = ["ablate", "json"])]
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
        let program = std::env::current_exe().context("cannot find our own program")?;
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
        // Written whatever came: a row that is not as expected is in the data as it is.
        write(places)?;
    }
    ran
}

/// Takes what the ablation showed out of the evidence: the committed data, and the README's table.
fn write(places: &Places) -> Result<()> {
    let text = fs::read_to_string(evidence(places)).context("there is no evidence")?;
    let evidence: serde_json::Value = serde_json::from_str(&text).context("the evidence")?;
    let doors = evidence
        .get("doors")
        .context("the evidence has no doors: it is of another version")?;
    let file = places.root.join(layers::FILE);
    fs::write(&file, format!("{}\n", serde_json::to_string_pretty(doors)?))
        .with_context(|| format!("cannot write `{}`", file.display()))?;
    layers::write(places)
}

fn evidence(places: &Places) -> PathBuf {
    places.root.join("evidence.json")
}

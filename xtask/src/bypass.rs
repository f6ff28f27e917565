//! `bypass`: builds everything and runs the bypass suite, which attacks an installation of its own
//! and writes what happened to `evidence.json` in the checkout.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{
    build,
    places::{self, Places},
    say, setup, stage,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the evidence to standard output instead of the rows
    #[arg(long)]
    json: bool,
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
    if args.json {
        // Standard output is for the evidence alone.
        let program = std::env::current_exe().context("cannot find our own program")?;
        let mut own = std::process::Command::new(program);
        own.arg("bypass").arg("--").args(&args.arguments);
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
    stage::must(command.current_dir(&places.root))
}

fn evidence(places: &Places) -> PathBuf {
    places.root.join("evidence.json")
}

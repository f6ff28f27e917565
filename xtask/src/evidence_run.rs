//! `evidence-run`: all that the claims rest on, run in one go, collected in `evidence/`.
//!
//! On this host the suite in two profiles, one of them with its ablation and every refused
//! configuration; the suite, on one of them with its ablation, and the tests of LSM programs on stock
//! kernels; and outsiders' programs. A run with the ablation has all that one without has. What each left lies in a folder of its own, beside an index with digests. What was not attempted is
//! said: in the index, and at the end.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build,
    guest::{self, Series},
    places::Places,
    say, setup, stage,
};

mod index;
mod step;

use index::Index;
use step::{Ground, Step, What};

/// Two stock kernels: the oldest that is supported, and the newest that is packaged.
const KERNELS: [&str; 2] = ["6.12", "7.x"];

/// For each step: an ablation in an emulated machine is the longest.
const LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only steps whose name begins with this (`--list` shows the names). One of these that cannot
    /// be attempted fails the run
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// List the steps and run none
    #[arg(long)]
    list: bool,
    /// Programs with optimisations
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    let mut steps = steps()?;
    if let Some(prefix) = &args.only {
        steps.retain(|step| step.name().starts_with(prefix.as_str()));
    }
    if steps.is_empty() {
        bail!("no step begins so; `cargo xtask evidence-run --list` shows their names");
    }
    if args.list {
        steps.iter().for_each(|step| say::line(step.name()));
        return Ok(());
    }
    setup::run(places, &setup::Args::default())?;
    build::run(
        places,
        &build::Args {
            release: args.release,
            ..build::Args::default()
        },
    )?;
    let folder = emptied(places)?;
    let mut index = Index::begin(places, args.release)?;
    for step in &steps {
        say::step(format_args!("evidence-run: {}", step.name()));
        let ran = step.run(places, &folder, LIMIT)?;
        say::line(format_args!("    {}: {}", step.name(), ran.outcome));
        index.add((step, args.only.is_some()), &ran, &folder)?;
        // After each step: a run that is interrupted leaves what it has.
        index.write(&folder)?;
        if stage::interrupted() {
            bail!("interrupted");
        }
    }
    conclude(&index, &folder)
}

/// In the order in which they run: what is quick on the host first.
fn steps() -> Result<Vec<Step>> {
    let mut steps = vec![
        Step::new(Ground::Host, What::Suite("dev")),
        Step::new(Ground::Host, What::Ablation("standard")),
        Step::new(Ground::Host, What::Outsiders),
    ];
    for (number, kernel) in KERNELS.iter().enumerate() {
        let series: Series = kernel.parse()?;
        let ground = Ground::Guest(series);
        steps.push(Step::new(ground.clone(), What::LsmTests));
        let suite = match number {
            0 => What::Ablation("hardened"),
            _ => What::Suite("hardened"),
        };
        steps.push(Step::new(ground, suite));
    }
    Ok(steps)
}

fn emptied(places: &Places) -> Result<PathBuf> {
    let folder = places.root.join("evidence");
    guest::remove(&folder)?;
    fs::create_dir(&folder).with_context(|| format!("`{}`", folder.display()))?;
    Ok(folder)
}

fn conclude(index: &Index, folder: &Path) -> Result<()> {
    say::step("evidence-run: summary");
    for line in index.lines() {
        say::line(format_args!("    {line}"));
    }
    say::line(format_args!("    {}", folder.join(index::FILE).display()));
    let (lacking, requested) = index.not_attempted();
    if lacking > 0 {
        say::line(format_args!(
            "    {lacking} not attempted: what they would have shown is not shown"
        ));
    }
    match (index.failed(), requested) {
        (0, 0) => Ok(()),
        (failed, 0) => bail!("{failed} steps failed"),
        (failed, requested) => {
            bail!("{failed} steps failed, {requested} that were asked for were not attempted")
        }
    }
}

//! `bypass`: builds everything and runs the bypass suite, which attacks it and writes `evidence.json`.

use anyhow::{Result, bail};

use crate::{
    build,
    places::{self, Places},
    setup, stage,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Handed to custody-bypass as they are; `--help` says which there are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    setup::run(places, &setup::Args::default())?;
    build::run(places, &build::Args::default())?;
    let runner = places.programs().join("custody-bypass");
    if !places::is_executable(&runner) {
        bail!("the bypass suite is not in this tree yet");
    }
    let mut command = places::as_root(runner);
    stage::must(command.args(&args.arguments).current_dir(&places.root))
}

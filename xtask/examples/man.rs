//! Writes the man pages of `custody` and its commands into a folder: `cargo xtask man` runs it.
//!
//! An example, so that the CLI and all below it are no dependency of xtask itself.

use std::{env, fs, path::Path};

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let folder = env::args_os().nth(1).context("which folder?")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let command = custody_cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).context("cannot write the pages")
}

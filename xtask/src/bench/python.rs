//! Peers that are Python packages: each benchmark installs them into an environment of its own below the target
//! folder. They are never linked, shipped or copied.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{say, stage};

/// What it is called, and its package. One version, so that every figure beside ours is of the same.
pub(super) const VERB_AUTHORITY: (&str, &str) =
    ("Verb Authority 0.10.0b15", "verb-authority==0.10.0b15");

/// Debian's own.
const PYTHON: &str = "/usr/bin/python3";

/// An environment in `folder` with `packages`, made where it is not there yet.
pub(super) fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    fs::create_dir_all(folder).context("cannot make a folder for the peers")?;
    let environment = folder.join("venv");
    let stamp = environment.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|it| it == packages.join("\n")) {
        return Ok(environment);
    }
    say::error(format_args!(
        "    installing the peers from PyPI, for this benchmark alone: {}",
        packages.join(", ")
    ));
    stage::must(
        Command::new(PYTHON)
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    )?;
    stage::must(
        Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet"])
            .args(packages),
    )?;
    fs::write(stamp, packages.join("\n")).context("cannot stamp the environment")?;
    Ok(environment)
}

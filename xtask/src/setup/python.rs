//! The demo agent's Python packages, in a virtual environment of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{places::Places, say, stage};

/// Pinned, with their own pins resolved by pip.
const REQUIREMENTS: &str = "fixtures/demo/requirements.txt";

/// Debian's own, not one of a version manager: it has to exist inside a session.
const PYTHON: &str = "/usr/bin/python3";

pub(super) const WHY: &str = "    Python package `mcp`: the demo's agent is a real MCP client";

/// Where the virtual environment is.
pub(crate) fn environment(places: &Places) -> PathBuf {
    places.target.join("demo/venv")
}

/// The environment says which requirements it was made for.
fn stamp(environment: &Path) -> PathBuf {
    environment.join("requirements.txt")
}

fn requirements(places: &Places) -> Result<String> {
    let path = places.root.join(REQUIREMENTS);
    fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))
}

pub(super) fn missing(places: &Places) -> Result<bool> {
    let wanted = requirements(places)?;
    let found = fs::read_to_string(stamp(&environment(places)));
    Ok(!found.is_ok_and(|found| found == wanted))
}

pub(super) fn install(places: &Places) -> Result<()> {
    say::line("    installing the demo agent's Python packages (about 15 s)");
    let environment = environment(places);
    stage::must(
        Command::new(PYTHON)
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    )?;
    stage::must(
        Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(places.root.join(REQUIREMENTS)),
    )?;
    fs::write(stamp(&environment), requirements(places)?).context("cannot stamp the environment")
}

//! `man`: the man pages of `custody`, from its own command line.

use anyhow::Result;

use crate::{places::Places, say, stage};

pub(crate) fn run(places: &Places) -> Result<()> {
    let folder = places.target.join("man");
    let mut cargo = places.cargo();
    cargo
        .args([
            "run",
            "--quiet",
            "--locked",
            "--package=xtask",
            "--example=man",
            "--",
        ])
        .arg(&folder);
    stage::must(&mut cargo)?;
    say::line(format_args!("    {}", folder.display()));
    Ok(())
}

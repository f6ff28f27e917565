//! `setup`: installs what is missing from the package registries, and says what and why.
//!
//! Quick when all is there: it looks before it acts. The needs are data, in [`packages`].

use anyhow::{Context as _, Result, bail};

use crate::{places::Places, say};

mod host;
mod linker;
pub(crate) mod musl;
mod packages;
pub(crate) mod python;

use packages::Missing;

#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {
    /// Only say what is missing; fail if anything is
    #[arg(long)]
    check: bool,
    /// Also what the browser test of the reviewers' page needs
    #[arg(long)]
    browser: bool,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    say::step("setup: what building, testing and the demo need");
    host::check()?;
    let missing = packages::missing(args.browser)?;
    let linker = linker::missing(places);
    let python = python::missing(places)?;
    if args.check {
        missing.iter().for_each(Missing::say);
        if linker {
            say::line(linker::WHY);
        }
        if python {
            say::line(python::WHY);
        }
        if musl::installed().is_none() {
            say::line(musl::WHY); // not needed: no reason to fail
        }
        if !missing.is_empty() || linker || python {
            bail!("not everything is installed; run `cargo xtask setup`");
        }
    } else {
        packages::install(&missing)?;
        if linker {
            linker::install(places).context("bpf-linker")?;
        }
        if musl::installed().is_none() {
            musl::try_install();
        }
        if python {
            python::install(places).context("the demo's Python packages")?;
        }
    }
    say::line("    everything is there");
    Ok(())
}

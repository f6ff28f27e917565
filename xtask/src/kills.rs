//! `kills`: kill -9 at system calls of the programs on a call's way, thousands of times, counted at the
//! effect server. The same test runs with a few points in `cargo xtask test`.

use anyhow::{Result, bail};

use crate::{
    build,
    places::{self, Places},
    stage,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many points; five thousand take about a quarter of an hour on two cores
    #[arg(long, default_value_t = 5_000)]
    points: u32,
    /// How many installations are killed beside each other
    #[arg(long, default_value_t = 6)]
    lanes: u32,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    if !places::is_root() {
        bail!("it traces programs of other users: run it as root");
    }
    build::run(places, &build::Args::default())?;
    let mut cargo = places.cargo();
    cargo
        .args(["test", "--locked", "--package", "custody-tests"])
        .args(["--test", "kills", "--", "--nocapture"])
        .env(build::OBJECT, places.ebpf_object())
        .env("CUSTODY_KILL_POINTS", args.points.to_string())
        .env("CUSTODY_KILL_LANES", args.lanes.to_string());
    stage::must(&mut cargo)
}

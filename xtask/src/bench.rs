//! `bench`: how long it takes, beside what one would use otherwise, as ratios.
//!
//! Contenders take turns within one run, so that what else the machine does hits them alike.

use anyhow::{Result, bail};

use crate::{
    build,
    guest::Series,
    places::{self, Places},
    say, setup, stage,
};

mod calls;
mod client;
mod confinement;
mod gate;
mod hooks;
mod index;
mod launch;
mod ledger;
mod python;
mod scan;
mod series;

pub(crate) use client::{Args as ClientArgs, run as client};
pub(crate) use confinement::{LoopArgs, measuring_loop};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    /// How many turns each contender takes
    #[arg(long, default_value_t = 200)]
    turns: usize,
    /// Fetch the other sandboxes that npm and cargo have first (`confinement`)
    #[arg(long)]
    install: bool,
    /// Debian's cloud kernel that is emulated (`hooks`), as `guest --kernel` has it
    #[arg(long, default_value = "6.12", value_name = "SERIES")]
    kernel: Series,
    /// Everything is installed and built: only run it (as root)
    #[arg(long, hide = true)]
    built: bool,
    #[command(flatten)]
    gate: gate::GateArgs,
    #[command(flatten)]
    scan: scan::ScanArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// A call through the gate, beside a bare keep-alive request
    Calls,
    /// One probe inside every sandbox that is installed; then what ours costs, beside bare
    Confinement,
    /// Recorded tasks and attacks through the gate, and how long a decision takes
    Gate,
    /// What a system call costs in profile `hardened`, on a stock kernel in an emulated machine:
    /// the ratios are a hint, the times are none
    Hooks,
    /// What a session's index of value origin takes, in time and in memory
    Index,
    /// A confined launch, beside fork+exec and other sandboxes
    Launch,
    /// Records of the ledger a second, and what a million of them take to verify and look up
    Ledger,
    /// Tool schemas scanned by ours and by Verb Authority: every difference, its public corpus, and the time
    Scan,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    if matches!(args.what, What::Gate) {
        return gate::run(places, &args.gate, args.turns); // a pure function: nothing to install, no root
    }
    if matches!(args.what, What::Scan) {
        return scan::run(places, &args.scan);
    }
    if matches!(args.what, What::Index) {
        return index::run(places);
    }
    if matches!(args.what, What::Ledger) {
        return ledger::run(places);
    }
    if args.turns < 10 {
        bail!("`--turns {}`: a percentile needs at least 10", args.turns);
    }
    if !args.built {
        setup::run(places, &setup::Args::default())?;
        build::run(
            places,
            &build::Args {
                release: true,
                ..build::Args::default()
            },
        )?;
    }
    if matches!(args.what, What::Hooks) && !args.built {
        return hooks::in_guest(places, &args.kernel, args.turns);
    }
    if !places::is_root() {
        let what = match args.what {
            What::Calls => "calls",
            What::Confinement => "confinement",
            What::Gate => "gate",
            What::Hooks => "hooks",
            What::Index => "index",
            What::Launch => "launch",
            What::Ledger => "ledger",
            What::Scan => "scan",
        };
        let mut command = places.again_as_root(["bench", what, "--built", "--turns"])?;
        command
            .arg(args.turns.to_string())
            .args(args.install.then_some("--install"));
        return stage::must(&mut command);
    }
    stage::interrupted(); // from here on, Ctrl-C cleans up
    say::step(format_args!("{} turns each, taken by turns", args.turns));
    match args.what {
        What::Calls => calls::run(places, args.turns),
        What::Confinement => confinement::run(places, args.turns, args.install),
        What::Gate => gate::run(places, &args.gate, args.turns),
        What::Hooks => hooks::run(places, args.turns),
        What::Index => index::run(places),
        What::Launch => launch::run(places, args.turns),
        What::Ledger => ledger::run(places),
        What::Scan => scan::run(places, &args.scan),
    }
}

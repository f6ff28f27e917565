//! `bench gate`: what the gate does on recorded tasks and attacks, and how long a decision takes.

mod latency;
mod replay;

use std::path::PathBuf;

use anyhow::Result;

use crate::places::Places;

/// What `bench gate` alone takes.
#[derive(clap::Args)]
pub(crate) struct GateArgs {
    /// Only the replay of recorded tasks and attacks (`gate`)
    #[arg(long)]
    replay_only: bool,
    /// A folder of recorded suites, `agentdojo-replay/1` (`gate`; default: fixtures/agentdojo)
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// One JSON object a line, nothing else (`gate`)
    #[arg(long)]
    json: bool,
    /// Say which rule stopped each call of a task, and how each attack was won (`gate`)
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Besides, the same with one rule left out of the policies, rule by rule (`gate`)
    #[arg(long, conflicts_with = "json")]
    curve: bool,
    /// Besides, both halves of each suite, split by a hash of the task's text (`gate`)
    #[arg(long, conflicts_with = "json")]
    halves: bool,
    /// Write the policies of the suites anew, from the labels of their tools and operator.toml,
    /// and replay nothing (`gate`)
    #[arg(long)]
    write_policies: bool,
}

pub(super) fn run(places: &Places, args: &GateArgs, turns: usize) -> Result<()> {
    replay::run(places, args)?;
    if args.replay_only || args.write_policies {
        return Ok(());
    }
    latency::run(places, args, turns)
}

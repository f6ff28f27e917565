//! `bench gate`: what the gate does on recorded tasks and attacks, and how long a decision takes.

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
    /// Besides, both halves of each suite, split by a hash of the task's text (`gate`)
    #[arg(long, conflicts_with = "json")]
    halves: bool,
}

pub(super) fn run(places: &Places, args: &GateArgs) -> Result<()> {
    replay::run(places, args)
}

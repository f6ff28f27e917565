//! `custody-register`: holds the register of credentials against the source.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Parser;
use custody_tests::register;

/// Compares `fixtures/register.toml` with the source of the tree.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The source tree
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// Where the result is written, for a run of the bypass suite without the source
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let half = register::check(&options.source)?;
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_vec_pretty(&half)?)
            .with_context(|| format!("`{}`", path.display()))?;
    }
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} entries at revision {}",
        half.entries, half.revision
    )?;
    for line in half.zone.iter().chain(&half.limits) {
        writeln!(out, "  {line}")?;
    }
    for drift in &half.drifts {
        writeln!(out, "drift: {drift}")?;
    }
    Ok(if half.drifts.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

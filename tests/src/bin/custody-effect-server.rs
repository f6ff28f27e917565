//! `custody-effect-server`: the witness as a process of its own.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Parser;
use custody_tests::witness::{Setup, Witness};

/// A real HTTP service that requires a bearer token and records what it was asked.
///
/// `POST /v1/messages`, `POST /v1/pages/PAGE/publish` and `DELETE /v1/pages/PAGE` are effects;
/// `GET /v1/notes/ID`, `GET /v1/whoami`, `/v1/reflect` and `/v1/redirect?to=PATH` are not.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where to listen: an address of this machine's loopback; port 0 lets the kernel choose
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A token: `NAME=FILE`; the file holds it, the command line never does. May be repeated
    #[arg(long = "token", required = true, value_parser = name_and_file)]
    tokens: Vec<(String, PathBuf)>,
    /// A JSON object: note id to text
    #[arg(long)]
    notes: Option<PathBuf>,
    /// Where accepted requests are recorded, one JSON object a line
    #[arg(long)]
    accepted: PathBuf,
    /// Where rejected requests are recorded
    #[arg(long)]
    rejected: PathBuf,
    /// While this file is there, effects are recorded but not answered
    #[arg(long)]
    hold: Option<PathBuf>,
    /// Written with the address, once it is ready
    #[arg(long)]
    ready: Option<PathBuf>,
}

fn name_and_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not NAME=FILE"))?;
    Ok((name.into(), file.into()))
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    anyhow::ensure!(
        options.listen.ip().is_loopback(),
        "`--listen {}` is not a loopback address",
        options.listen
    );
    let witness = Witness::bind(&Setup {
        listen: options.listen,
        tokens: options.tokens,
        notes: options.notes,
        accepted: options.accepted,
        rejected: options.rejected,
        hold: options.hold,
    })?;
    if let Some(ready) = &options.ready {
        announce(ready, witness.address()?)?;
    }
    witness.serve().context("accept")
}

/// Writes the address in one step, so that a reader never sees half of it.
fn announce(ready: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let draft = ready.with_extension("draft");
    fs::write(&draft, address.to_string()).with_context(|| format!("`{}`", draft.display()))?;
    fs::rename(&draft, ready).with_context(|| format!("`{}`", ready.display()))
}

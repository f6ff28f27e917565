//! `custody import-live`: the tools of an MCP server that is started for it, in a file for `custody scan`.
//!
//! | module | what |
//! |---|---|
//! | [`process`] | the server, started as the caller and ended with all that it started |
//! | [`talk`] | what it is asked, and what it may answer |
//!
//! **Invariant:** nothing runs unasked. This is the one command that starts somebody else's program outside of a
//! session; what it writes was read strictly, within bounds, and is an export that `custody scan` reads.

pub mod process;
pub mod talk;

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use custody_scan::input;

use crate::{args::ImportLive, complain, exit::Exit, inert, run::environment, say, whole};
use process::Server;

/// `custody import-live`.
///
/// # Errors
/// When nobody agreed, the server could not be asked, or what it answers is no export.
pub fn import(wanted: &ImportLive) -> anyhow::Result<Exit> {
    let given = environment::made(&wanted.env, std::env::vars_os(), &["HOME", "PATH"])?;
    warn(wanted, given.secretive());
    if !agreed(wanted)? {
        bail!("nothing was run; to run it, say --yes-run-it, or answer `yes` in a terminal");
    }
    let deadline = Instant::now() + Duration::from_secs(wanted.seconds);
    let mut server = Server::start(&wanted.command, &given)?;
    let listed = talk::list(&mut server, deadline);
    let noise = server.end();
    let listed = listed.map_err(|error| {
        let said = noise.trim();
        let said = if said.is_empty() {
            String::new()
        } else {
            format!("; it said on standard error: {}", inert::line(said))
        };
        anyhow::anyhow!("{error}{said}")
    })?;
    let bytes = listed.export().context("the export has no form")?;
    // What cannot be scanned is no use, and what its fault is the scan says.
    let name = wanted.output.display().to_string();
    let export = input::parse(&name, &bytes).context(
        "what the server answered is no export that can be scanned, and was not written",
    )?;
    whole::write(&wanted.output, &bytes)?;
    say(&inert::line(&format!(
        "{} tools in `{name}`, as `{}` says them by MCP {}; next: custody scan {name}",
        export.tools.len(),
        listed.server,
        listed.protocol
    )));
    Ok(Exit::Done)
}

fn warn(wanted: &ImportLive, secretive: &[String]) {
    let command: Vec<String> = wanted
        .command
        .iter()
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let user = nix::unistd::geteuid();
    complain("WARNING: this RUNS THE SERVER, UNCONFINED, as you");
    complain(&format!(
        "whatever its code does, it does with all rights of uid {user}: your files, your network, your keys"
    ));
    complain(&format!("the command is: {}", command.join(" ")));
    for name in secretive {
        complain(&format!(
            "and it is given `{name}` of your environment, which seems to hold a credential"
        ));
    }
}

/// Whether the caller says that it may run.
fn agreed(wanted: &ImportLive) -> anyhow::Result<bool> {
    if wanted.yes_run_it {
        return Ok(true);
    }
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(false);
    }
    write!(stderr, "custody: run it? Write `yes`: ").context("cannot ask")?;
    let mut answer = String::new();
    let _bytes = stdin
        .lock()
        .read_line(&mut answer)
        .context("cannot read your answer")?;
    Ok(answer.trim() == "yes")
}

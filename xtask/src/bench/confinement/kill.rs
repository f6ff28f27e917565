//! How long `custody stop` takes, until nothing of the session is left; beside `custody status`,
//! which asks the same service and does nothing.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

use super::super::series::{Series, compare};
use crate::{room::daemon::Daemon, stage};

/// A tree that has left its parents: each is killed with the session's cgroup.
const TREE: &str = "for i in 1 2 3 4; do setsid sleep 600 & done; echo up; exec sleep 600";

/// As many as say something; each waits for a session.
const TURNS_MAX: usize = 50;

pub(super) fn run(daemon: &Daemon<'_>, turns: usize) -> Result<()> {
    let mut asked = Series::new("custody status");
    let mut stopped = Series::new("custody stop of five processes");
    for _ in 0..turns.min(TURNS_MAX) {
        let mut cli = daemon
            .cli()
            .args(["run", "--policy", "demo", "--", "/bin/sh", "-c", TREE])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start custody")?;
        let mut line = String::new();
        BufReader::new(cli.stdout.take().context("no pipe")?)
            .read_line(&mut line)
            .context("the session is silent")?;
        ensure!(line == "up\n", "the session said `{}`", line.trim());
        let listed = stage::output(daemon.cli().args(["ps", "--json"]))?;
        let listed: serde_json::Value = serde_json::from_str(&listed).context("ps --json")?;
        let session = listed
            .pointer("/0/session")
            .or_else(|| listed.pointer("/sessions/0/session"))
            .and_then(|it| it.as_str())
            .context("no session is listed")?
            .to_owned();
        let started = Instant::now();
        stage::output(daemon.cli().arg("status"))?;
        asked.push(started.elapsed());
        let started = Instant::now();
        stage::output(daemon.cli().arg("stop").arg(session))?;
        stopped.push(started.elapsed());
        cli.wait().context("wait")?;
    }
    compare(&[asked, stopped]);
    Ok(())
}

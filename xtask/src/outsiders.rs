//! `outsiders`: runs programs that we did not write inside a session, unmodified, and the same
//! bare. They are fetched for the run and never committed.
//!
//! What their authors expect is their sandbox's verdict, not ours: where a session differs the row
//! says how. Nothing here is a score.

mod payloads;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    build,
    places::{self, Places},
    room::{Room, User, daemon::Daemon, service::Service},
    say, setup, stage,
};
use payloads::{Payload, Verdict};

/// Payloads: MIT and CC-BY-4.0, of their authors.
const PAYLOADS: &str = "https://github.com/orkait/rustbox-escape-tests";

/// How long `vetto redteam` may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A git repository of the payloads instead of their authors'
    #[arg(long, value_name = "REPOSITORY", default_value = PAYLOADS)]
    payloads: String,
    /// Also those that eat memory, disk and processes. Without a limit on a session's memory
    /// (`custody run --layers`: cgroup_limits) they eat the host's
    #[arg(long)]
    bombs: bool,
    /// Everything is installed and built: only run it (as root)
    #[arg(long, hide = true)]
    built: bool,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    if !args.built {
        setup::run(places, &setup::Args::default())?;
        build::run(places, &build::Args::default())?;
    }
    if !places::is_root() {
        let mut command =
            places.again_as_root(["outsiders", "--built", "--payloads", &args.payloads])?;
        command.args(args.bombs.then_some("--bombs"));
        return stage::must(&mut command);
    }
    stage::interrupted(); // from here on, Ctrl-C cleans up
    let fetched = fetch(places, &args.payloads)?;
    let room = Room::make(places)?;
    let service = Service::start(places, &room)?;
    room.write_policy(places, service.address())?;
    let daemon = Daemon::start(&room)?;
    say::step(format_args!(
        "payloads of {} at {}",
        args.payloads,
        revision(&fetched)?
    ));
    payloads(&fetched, &room, &daemon, args.bombs)?;
    say::step("vetto redteam");
    vetto(places, &room, &daemon)
}

/// A clone of its newest state, in the build's own folder.
fn fetch(places: &Places, repository: &str) -> Result<PathBuf> {
    let folder = places.target.join("outsiders/payloads");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot remove the former payloads")?;
    }
    stage::must(
        Command::new("git")
            .args(["clone", "--quiet", "--depth=1", repository])
            .arg(&folder),
    )?;
    Ok(folder)
}

fn revision(folder: &Path) -> Result<String> {
    stage::output(Command::new("git").arg("-C").arg(folder).args([
        "rev-parse",
        "--short=12",
        "HEAD",
    ]))
}

fn payloads(fetched: &Path, room: &Room, daemon: &Daemon<'_>, bombs: bool) -> Result<()> {
    let all = payloads::read(fetched)?;
    let folder = room.agent().join("payloads");
    std::fs::create_dir(&folder).context("a folder for the payloads")?;
    let (mut agree, mut differ, mut skipped) = (0_usize, 0_usize, 0_usize);
    for payload in &all {
        let line = match one(payload, fetched, &folder, room, daemon, bombs) {
            Ok((bare, inside)) => {
                let agrees = payload.expects(&inside);
                if agrees {
                    agree += 1;
                } else {
                    differ += 1;
                }
                format!(
                    "{:34} bare {:12} session {:12} {}",
                    payload.name,
                    bare.map_or_else(|| "not run".into(), |it| it.to_string()),
                    inside.to_string(),
                    if agrees {
                        String::new()
                    } else {
                        format!(
                            "its authors expect {}; it said: {}",
                            payload.expected(),
                            inside.last
                        )
                    }
                )
            }
            Err(why) => {
                skipped += 1;
                format!("{:34} not attempted: {why:#}", payload.name)
            }
        };
        say::line(line);
        if stage::interrupted() {
            bail!("interrupted");
        }
    }
    ensure!(
        agree + differ > 0,
        "no payload ran: that is an error, not a result"
    );
    say::line(format_args!(
        "{agree} as their authors expect of their own sandbox, {differ} otherwise (each with what it said), \
         {skipped} not attempted"
    ));
    Ok(())
}

/// Bare, where that can do no harm, and in a session.
fn one(
    payload: &Payload,
    fetched: &Path,
    folder: &Path,
    room: &Room,
    daemon: &Daemon<'_>,
    bombs: bool,
) -> Result<(Option<Verdict>, Verdict)> {
    ensure!(
        bombs || !payload.is_bomb(),
        "it eats what the host has; `--bombs` runs it"
    );
    let argv = payload.prepare(fetched, folder)?;
    let log = room.log("outsider");
    let bare = if payload.is_bomb() {
        None
    } else {
        let mut command = room.command_of(User::Operator, Path::new("/"), &argv);
        Some(payload.run(&mut command, &log)?)
    };
    let mut command = daemon.cli();
    command.args(["run", "--policy", "demo", "--"]).args(&argv);
    Ok((bare, payload.run(&mut command, &log)?))
}

/// Its own battery, as its authors ship it.
fn vetto(places: &Places, room: &Room, daemon: &Daemon<'_>) -> Result<()> {
    let built = places.target.join("peers/bin/vetto");
    let program = if built.is_file() {
        built
    } else if let Some(found) = places::on_path("vetto") {
        found
    } else {
        say::line(
            "not attempted: vetto is not installed; `cargo install vetto --locked` puts it on the path",
        );
        return Ok(());
    };
    room.show("vetto", &program)?;
    let argv = [
        room.agent().join("vetto").into_os_string(),
        "redteam".into(),
    ];
    let mut bare = room.command_of(User::Operator, Path::new("/"), &argv);
    let mut inside = daemon.cli();
    inside.args(["run", "--policy", "demo", "--"]).args(&argv);
    for (name, command) in [("bare", &mut bare), ("in a session", &mut inside)] {
        say::line(format_args!("{name}:"));
        let status = stage::run(command, PATIENCE, &room.log("vetto"), |line| {
            say::line(format_args!("    {line}"));
        })?;
        say::line(format_args!("    {status}"));
    }
    say::line(
        "Its passes say that an attempt failed, also where the caller had no right to begin with: read both.",
    );
    Ok(())
}

//! One probe in each: what it reached, attempt by attempt.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use super::peers::{self, Peer};
use crate::{
    places::Places,
    room::{Room, User, daemon::Daemon, token},
    say, stage,
};

/// Debian's own interpreter: it is in every sandbox.
const PYTHON: &str = "/usr/bin/python3";

/// srt starts Node and two helpers first.
const PATIENCE: Duration = Duration::from_secs(90);

/// What one sandbox's probe said: outcome and the kernel's answer, by attempt.
type Said = BTreeMap<String, (bool, String)>;

pub(super) fn run(places: &Places, room: &Room, daemon: &Daemon<'_>) -> Result<()> {
    for name in ["probe.py", "holder.py"] {
        room.show(name, &places.root.join("fixtures/bench").join(name))?;
    }
    let peers = peers::all(places, room, daemon)?;
    let holder = Holder::start(room)?;
    let probe: Vec<OsString> = vec![
        PYTHON.into(),
        room.agent().join("probe.py").into(),
        holder.target.clone().into(),
    ];
    let mut order = Vec::new();
    let mut columns = Vec::new();
    for peer in &peers {
        let mut command = peer.command(&probe);
        command.env("PROBE_SECRET", &holder.secret);
        let mut said = Said::new();
        let mut last = String::new();
        let ran = stage::run(
            &mut command,
            PATIENCE,
            &room.log(&format!("probe-{}", peer.name)),
            |line| {
                let mut parts = line.splitn(3, '\t');
                if let (Some(name), Some(outcome), Some(answer)) =
                    (parts.next(), parts.next(), parts.next())
                {
                    if !order.iter().any(|known| known == name) {
                        order.push(name.to_owned());
                    }
                    said.insert(name.into(), (outcome == "reached", answer.into()));
                } else if !line.trim().is_empty() {
                    last = line.trim().to_owned();
                }
            },
        );
        if said.is_empty() {
            say::line(format_args!(
                "not attempted: {}: the probe said nothing; {}: {last}",
                peer.name,
                ran.map_or_else(|error| format!("{error:#}"), |status| status.to_string())
            ));
        }
        columns.push((peer, said));
    }
    ensure!(
        !order.is_empty(),
        "no probe ran: that is an error, not a result"
    );
    table(&order, &columns);
    Ok(())
}

fn table(order: &[String], columns: &[(&Peer<'_>, Said)]) {
    let heads: Vec<String> = columns
        .iter()
        .map(|(peer, _)| format!("{:>9}", peer.name))
        .collect();
    say::line(format_args!("{:38}{}", "", heads.join("")));
    for name in order {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, said)| {
                let cell = match said.get(name) {
                    Some((true, _)) => "reached",
                    Some((false, answer)) if answer.is_empty() => "·",
                    Some((false, answer)) => answer,
                    None => "–",
                };
                format!("{:>9}", cell.chars().take(8).collect::<String>())
            })
            .collect();
        say::line(format_args!("{name:38}{}", cells.join("")));
    }
    say::line(
        "`reached`: the attempt came through. Otherwise the kernel's answer; `–`: no answer. The list",
    );
    say::line(
        "ranks nobody: several of these mean to allow reads, or the network, and say so. How they were called:",
    );
    for (peer, _) in columns {
        say::line(format_args!("  {:9} {}", peer.name, peer.how));
    }
}

/// The target: a process of the operator's own uid, where everyone keeps the secret.
struct Holder {
    child: Child,
    /// What the probe is told, as JSON.
    target: String,
    secret: String,
}

impl Holder {
    fn start(room: &Room) -> Result<Self> {
        let secret = token()?;
        let folder = room.open_folder("holder")?;
        let uid = room.uid(User::Operator);
        let file = folder.join("secret");
        fs::write(&file, &secret).context("the secret file")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).context("chmod")?;
        for path in [&folder, &file] {
            chown(path, Some(uid), Some(uid)).context("chown")?;
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).context("symlink")?;
        let name = format!("custody-bench-{}", std::process::id());
        let argv = [
            PYTHON.into(),
            room.agent().join("holder.py").into_os_string(),
            folder.clone().into_os_string(),
            name.into(),
        ];
        let mut child = room
            .command_of(User::Operator, Path::new("/"), &argv)
            .env("HELD", &secret)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the holder")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?)
            .read_line(&mut line)
            .context("the holder is silent")?;
        let mut target: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&line).context("the holder's words")?;
        for (key, path) in [("file", &file), ("link", &link)] {
            target.insert(key.into(), path.display().to_string().into());
        }
        Ok(Self {
            child,
            target: serde_json::to_string(&target).context("the targets")?,
            secret,
        })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It fails only where the process is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

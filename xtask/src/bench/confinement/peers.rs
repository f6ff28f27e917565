//! The other sandboxes, each called as its own documentation says for an agent.

use std::{ffi::OsString, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    places::{self, Places},
    room::{Room, User, daemon::Daemon},
    say, stage,
};

/// What `--install` fetches, at the versions that were looked at.
const NODE_PACKAGES: [&str; 2] = [
    "@anthropic-ai/sandbox-runtime@0.0.83",
    "@openai/codex@0.171.0",
];
const CRATES: [(&str, &str); 1] = [("nono-cli", "0.81.0")];

type Confine<'a> = Box<dyn Fn(&[OsString]) -> Command + 'a>;

/// One way to confine a program.
pub(super) struct Peer<'a> {
    /// Its name, short: it heads a column.
    pub(super) name: &'static str,
    /// What it is told, beside the command.
    pub(super) how: &'static str,
    confine: Confine<'a>,
}

impl Peer<'_> {
    /// The command, confined.
    pub(super) fn command(&self, argv: &[OsString]) -> Command {
        (self.confine)(argv)
    }
}

/// Fetches the peers that no setup step of ours needs, into the build's own folder.
pub(super) fn install(places: &Places) -> Result<()> {
    say::step("installing other sandboxes (npm, cargo)");
    let folder = folder(places);
    fs::create_dir_all(&folder).context("a folder for the peers")?;
    let mut attempts = vec![{
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--prefix"])
            .arg(&folder)
            .args(NODE_PACKAGES);
        npm
    }];
    for (name, version) in CRATES {
        let mut cargo = places.cargo();
        cargo
            .args([
                "install",
                "--quiet",
                "--locked",
                name,
                "--version",
                version,
                "--root",
            ])
            .arg(&folder);
        attempts.push(cargo);
    }
    for mut attempt in attempts {
        if let Err(error) = stage::must(&mut attempt) {
            say::line(format_args!("not installed: {error:#}"));
        }
    }
    Ok(())
}

fn folder(places: &Places) -> PathBuf {
    places.target.join("peers")
}

/// Bare first, ours last; whoever is not here is named.
pub(super) fn all<'a>(
    places: &Places,
    room: &'a Room,
    daemon: &'a Daemon<'a>,
) -> Result<Vec<Peer<'a>>> {
    let home = room.home()?;
    let mut all = vec![Peer {
        name: "bare",
        how: "the caller's own uid",
        confine: {
            let home = home.clone();
            Box::new(move |argv| room.command_of(User::Operator, &home, argv))
        },
    }];
    let mut lacking = Vec::new();
    let mut on_path = |name: &'static str, how: &'static str, words: &'static [&'static str]| {
        if places::on_path(words.first().copied().unwrap_or(name)).is_none() {
            lacking.push(name);
            return;
        }
        let home = home.clone();
        all.push(Peer {
            name,
            how,
            confine: Box::new(move |argv| {
                let mut full: Vec<OsString> = words.iter().map(Into::into).collect();
                full.extend_from_slice(argv);
                room.command_of(User::Operator, &home, &full)
            }),
        });
    };
    on_path(
        "bwrap",
        "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp",
        &[
            "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
            "--",
        ],
    );
    on_path(
        "firejail",
        "firejail --quiet",
        &["firejail", "--quiet", "--"],
    );
    let shown = room.agent().join("peers");
    if folder(places).is_dir() {
        room.show("peers", &folder(places))?;
    }
    let mut fetched = |name, how, program: &str, words: Vec<OsString>| {
        let program = shown.join(program);
        if !program.exists() {
            lacking.push(name);
            return;
        }
        let home = home.clone();
        all.push(Peer {
            name,
            how,
            confine: Box::new(move |argv| {
                let mut full = vec![program.clone().into_os_string()];
                full.extend_from_slice(&words);
                full.extend_from_slice(argv);
                room.command_of(User::Operator, &home, &full)
            }),
        });
    };
    let settings = home.join("srt.json");
    fs::write(&settings, SRT).context("srt's settings")?;
    fetched(
        "srt",
        "srt, its settings: no network, no write, nothing unreadable",
        "node_modules/.bin/srt",
        vec!["--settings".into(), settings.into()],
    );
    fetched(
        "codex",
        "codex sandbox",
        "node_modules/.bin/codex",
        vec!["sandbox".into(), "--".into()],
    );
    fetched(
        "nono",
        "nono run --block-net --read /usr --read the probe's folder",
        "bin/nono",
        ["run", "--silent", "--block-net", "--read", "/usr", "--read"]
            .into_iter()
            .map(Into::into)
            .chain([room.agent().into_os_string(), "--".into()])
            .collect(),
    );
    let python = room.agent().join("venv/bin/python");
    if python.exists()
        && stage::output(Command::new(&python).args(["-c", "import sandlock"])).is_ok()
    {
        let home = home.clone();
        let agent = room.agent();
        all.push(Peer {
            name: "sandlock",
            how: "sandlock.Sandbox(fs_readable=[/usr, /lib, /lib64, /bin, /etc, /dev, /proc, the probe's folder])",
            confine: Box::new(move |argv| {
                let mut full: Vec<OsString> =
                    vec![python.clone().into(), "-c".into(), SANDLOCK.into(), agent.clone().into()];
                full.extend_from_slice(argv);
                room.command_of(User::Operator, &home, &full)
            }),
        });
    } else {
        lacking.push("sandlock");
    }
    for name in lacking {
        say::line(format_args!(
            "not attempted: {name} is not installed (`--install` fetches what npm and cargo have)"
        ));
    }
    all.push(Peer {
        name: "custody",
        how: "custody run --policy demo",
        confine: Box::new(move |argv| {
            let mut command = daemon.cli();
            command.args(["run", "--policy", "demo", "--"]).args(argv);
            command
        }),
    });
    Ok(all)
}

const SRT: &str = r#"{
  "network": {"allowedDomains": [], "deniedDomains": []},
  "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}
}
"#;

const SANDLOCK: &str = r#"
import sys
from sandlock import Sandbox
readable = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/dev", "/proc", sys.argv[1]]
result = Sandbox(fs_readable=readable).run(sys.argv[2:], timeout=60)
out = result.stdout
sys.stdout.buffer.write(out if isinstance(out, bytes) else str(out).encode())
"#;

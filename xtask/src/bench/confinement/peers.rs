//! The other sandboxes, each called as its own documentation says for an agent.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

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
    let mut all = Vec::new();
    for (name, how, words) in others(places, room, &home)? {
        let Some(words) = words else {
            say::line(format_args!(
                "not attempted: {name} is not installed (`--install` fetches what npm and cargo have)"
            ));
            continue;
        };
        let home = home.clone();
        all.push(Peer {
            name,
            how,
            confine: Box::new(move |argv| {
                let full = [words.as_slice(), argv].concat();
                room.command_of(User::Operator, &home, &full)
            }),
        });
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

/// A name, what it is told in words, and what stands before the command; nothing where the program
/// is not here.
type Other = (&'static str, &'static str, Option<Vec<OsString>>);

fn others(places: &Places, room: &Room, home: &Path) -> Result<Vec<Other>> {
    let agent = room.agent();
    if folder(places).is_dir() {
        room.show("peers", &folder(places))?;
    }
    let settings = home.join("srt.json");
    fs::write(&settings, SRT).context("srt's settings")?;
    let on_path = |words: &[&str]| {
        let program = words.first()?;
        places::on_path(program)?;
        Some(words.iter().map(Into::into).collect())
    };
    let fetched = |program: &str, words: &[&OsStr]| {
        let program = agent.join("peers").join(program);
        let words = words.iter().map(|word| (*word).to_owned());
        program
            .exists()
            .then(|| [program.clone().into()].into_iter().chain(words).collect())
    };
    let word = OsStr::new;
    let python = agent.join("venv/bin/python");
    let has_sandlock = python.exists()
        && stage::output(Command::new(&python).args(["-c", "import sandlock"])).is_ok();
    Ok(vec![
        ("bare", "the caller's own uid", Some(Vec::new())),
        (
            "bwrap",
            "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp",
            on_path(&[
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
            ]),
        ),
        (
            "firejail",
            "firejail --quiet",
            on_path(&["firejail", "--quiet", "--"]),
        ),
        (
            "srt",
            "srt, its settings: no network, no write, nothing unreadable",
            fetched(
                "node_modules/.bin/srt",
                &[word("--settings"), settings.as_os_str()],
            ),
        ),
        (
            "codex",
            "codex sandbox",
            fetched("node_modules/.bin/codex", &[word("sandbox"), word("--")]),
        ),
        (
            "nono",
            "nono run --block-net --read /usr --read the probe's folder",
            fetched(
                "bin/nono",
                &[
                    word("run"),
                    word("--silent"),
                    word("--block-net"),
                    word("--read"),
                    word("/usr"),
                    word("--read"),
                    agent.as_os_str(),
                    word("--"),
                ],
            ),
        ),
        (
            "sandlock",
            "sandlock.Sandbox(fs_readable=[/usr, /lib, /lib64, /bin, /etc, /dev, /proc, the probe's folder])",
            has_sandlock.then(|| {
                vec![
                    python.clone().into(),
                    "-c".into(),
                    SANDLOCK.into(),
                    agent.clone().into(),
                ]
            }),
        ),
    ])
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

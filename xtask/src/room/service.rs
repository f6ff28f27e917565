//! The HTTP service: a process of its own, under its own uid, with its own record of effects.

use std::{
    fmt, fs,
    net::SocketAddr,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::{Room, User};
use crate::{places::Places, stage};

pub(crate) struct Service {
    child: Child,
    folder: PathBuf,
    address: SocketAddr,
}

/// One line of the service's record.
#[derive(Deserialize)]
pub(crate) struct Effect {
    method: String,
    target: String,
    body: String,
    effect: bool,
    status: u16,
}

impl Effect {
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn carries(&self, text: &str) -> bool {
        self.body.contains(text) || self.target.contains(text)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} → {}  {}",
            self.method, self.target, self.status, self.body
        )
    }
}

impl Service {
    pub(crate) fn start(places: &Places, room: &Room) -> Result<Self> {
        let folder = room.private("service", User::Service)?;
        let uid = room.uid(User::Service);
        for (from, name) in [
            (room.credential(), "token"),
            (places.root.join("fixtures/demo/notes.json"), "notes.json"),
        ] {
            let to = folder.join(name);
            fs::copy(&from, &to).with_context(|| format!("cannot copy `{}`", from.display()))?;
            chown(&to, Some(uid), Some(uid)).context("chown")?;
        }
        let log = fs::File::create(room.log("service")).context("cannot write a log")?;
        let child = Command::new(room.programs().join("custody-effect-server"))
            .args(["--listen", "127.0.0.1:0", "--token"])
            .arg(format!("custody={}", folder.join("token").display()))
            .arg("--notes")
            .arg(folder.join("notes.json"))
            .arg("--accepted")
            .arg(folder.join("accepted"))
            .arg("--rejected")
            .arg(folder.join("rejected"))
            .arg("--ready")
            .arg(folder.join("ready"))
            .current_dir("/")
            .env_clear()
            .uid(uid)
            .gid(uid)
            .process_group(0)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().context("dup")?)
            .stderr(log)
            .spawn()
            .context("cannot start custody-effect-server")?;
        let mut service = Self {
            child,
            folder,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        service.address = service.wait(&room.log("service"))?;
        Ok(service)
    }

    fn wait(&mut self, log: &Path) -> Result<SocketAddr> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(text) = fs::read_to_string(self.folder.join("ready")) {
                return text.trim().parse().context("the service's address");
            }
            if let Some(status) = self.child.try_wait().context("wait")? {
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!("custody-effect-server ended ({status}): {}", said.trim());
            }
            if Instant::now() > until || stage::interrupted() {
                bail!("custody-effect-server was not ready in time");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the service recorded as changed by someone who had the token.
    pub(crate) fn effects(&self) -> Result<Vec<Effect>> {
        let mut effects = record(&self.folder.join("accepted"))?;
        effects.retain(|effect| effect.effect);
        Ok(effects)
    }

    /// How many requests came without the token.
    pub(crate) fn rejected(&self) -> Result<usize> {
        record(&self.folder.join("rejected")).map(|seen| seen.len())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It fails only where the process is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn record(path: &Path) -> Result<Vec<Effect>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).context("a line of the service's record"))
        .collect()
}

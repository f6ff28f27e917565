//! The witness as a process of its own, started and read by a test.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    effects::Effects,
    record::{self, Seen},
};

/// A witness that serves, with its records in a folder of its own.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Running {
    /// Starts `custody-effect-server` of `programs`, which accepts `tokens`: each a name and the
    /// token, which goes into a file of the same name that root alone reads.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(programs: &Path, tokens: &[(&str, &str)], notes: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the witness")?;
        let at = |name: &str| folder.path().join(name);
        let mut command = Command::new(programs.join("custody-effect-server"));
        for (name, token) in tokens {
            write_secret(&at(name), token)?;
            command
                .arg("--token")
                .arg(format!("{name}={}", at(name).display()));
        }
        fs::write(at("notes.json"), notes)?;
        for option in ["accepted", "rejected", "ready", "hold"] {
            command.arg(format!("--{option}")).arg(at(option));
        }
        let child = command
            .arg("--notes")
            .arg(at("notes.json"))
            .stdin(Stdio::null())
            .spawn()
            .context("start custody-effect-server")?;
        let mut running = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            folder,
        };
        running.address = running.ready()?;
        Ok(running)
    }

    fn ready(&self) -> anyhow::Result<SocketAddr> {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(address) = fs::read_to_string(self.at("ready")) {
                return address.trim().parse().context("the witness's address");
            }
            ensure!(Instant::now() < end, "the witness does not come up");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the token of this name.
    pub fn token_file(&self, name: &str) -> PathBuf {
        self.at(name)
    }

    /// What it accepted.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn accepted(&self) -> io::Result<Vec<Seen>> {
        record::read(&self.at("accepted"))
    }

    /// What it rejected.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn rejected(&self) -> io::Result<Vec<Seen>> {
        record::read(&self.at("rejected"))
    }

    /// The effects with `nonce`.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn effects(&self, nonce: &str) -> io::Result<Vec<Seen>> {
        let mut seen = self.accepted()?;
        seen.retain(|seen| seen.effect && seen.carries(nonce));
        Ok(seen)
    }

    /// All effects up to now, by nonce.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn all_effects(&self) -> io::Result<Effects> {
        Effects::read(&record::text(&self.at("accepted"))?)
    }

    /// From now on effects are recorded and not answered.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn hold(&self) -> io::Result<()> {
        fs::write(self.at("hold"), "")
    }

    /// Effects are answered again.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn let_go(&self) -> io::Result<()> {
        fs::remove_file(self.at("hold"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn write_secret(path: &Path, secret: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    io::Write::write_all(&mut file, secret.as_bytes())
}

//! The installation that refused configurations are tried in.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use custody_wire::profile::Profile;

use super::astray::{self, Astray};
use crate::{
    ground::words,
    host::{Host, Setup},
    suite::scene,
};

/// A policy that gives nothing and shows nothing.
pub(super) const PLAIN: &str = "plain";

/// One that shows [`Place::shown`].
pub(super) const SHOWN: &str = "shown";

/// One that shows [`Place::secrets`].
pub(super) const SECRETS: &str = "secrets";

/// A private installation with a credential.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) host: Host,
    /// What the credential's file holds: an obvious fake, and nowhere else.
    pub(super) canary: String,
}

impl Place {
    /// Makes it without starting it. Every policy has the profile `dev`, so that a session may have
    /// any.
    pub(super) fn lay() -> anyhow::Result<Self> {
        let canary = format!("CUSTODYCANARYrefused{}", scene::random()?);
        let plain = "format = 1\n[session]\nprofile = \"dev\"\n";
        let policies = [PLAIN, SHOWN, SECRETS].map(|name| (name.to_owned(), plain.to_owned()));
        let mut host = Host::install(&Setup {
            policies: policies.to_vec(),
            ..Setup::default()
        })?;
        let at = |name: &str| host.folder().join(name);
        for name in ["shown", "secrets"] {
            fs::create_dir(at(name))?;
        }
        for name in [SHOWN, SECRETS] {
            let text = format!("{plain}mounts = {{ read_only = [{:?}] }}\n", at(name));
            host.write_policy(name, &text)?;
        }
        host.write("secrets/token", 0o600, &canary)?;
        let with = host.configuration_text()?.replacen(
            "[credentials]\n",
            &format!(
                "[credentials]\ndemo = {{ file = {:?} }}\n",
                at("secrets/token")
            ),
            1,
        );
        host.write("custodyd.toml", 0o644, &with)?;
        host.lack(&[]);
        Ok(Self { host, canary })
    }

    /// Makes it and starts it.
    pub(super) fn set() -> anyhow::Result<Self> {
        let mut place = Self::lay()?;
        place.host.up()?;
        Ok(place)
    }

    /// The credential's file.
    pub(super) fn token(&self) -> PathBuf {
        self.host.folder().join("secrets/token")
    }

    /// The folder that [`SHOWN`] shows.
    pub(super) fn shown(&self) -> PathBuf {
        self.host.folder().join("shown")
    }

    /// Puts a lying launcher in the place of the real one, before the start.
    pub(super) fn lie(&self) -> anyhow::Result<()> {
        let at = |name: &str| self.host.programs().join(name);
        fs::rename(at("custody-launch"), at(astray::REAL))?;
        fs::copy(at("custody-astray"), at("custody-launch")).context("custody-astray")?;
        self.stray(Astray::Nothing)
    }

    /// What the lying launcher does from now on.
    pub(super) fn stray(&self, astray: Astray) -> anyhow::Result<()> {
        let file = format!("programs/{}", astray::FILE);
        self.host
            .write(&file, 0o644, &serde_json::to_string(&astray)?)
    }

    /// `custody run` up to the command.
    pub(super) fn run(&self, policy: &str, profile: Profile) -> Command {
        let mut command = self.host.cli();
        command.args(["run", "--policy", policy, "--profile", profile.as_str()]);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a script of bash confined.
    pub(super) fn shell(&self, run: &mut Command, script: &str) -> anyhow::Result<Output> {
        run.args(["--", "/bin/bash", "-c", script])
            .output()
            .context("custody run")
    }

    /// Starts custodyd, which must not come up; what it said.
    pub(super) fn does_not_come_up(&self, command: &mut Command) -> anyhow::Result<String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start custodyd")?;
        let end = Instant::now() + Duration::from_secs(20);
        while child.try_wait()?.is_none() {
            if Instant::now() >= end {
                child.kill()?;
                let output = child.wait_with_output()?;
                bail!("custodyd came up: {}", words(&output));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output()?;
        ensure!(!output.status.success(), "{}", words(&output));
        let left = self.host.leftovers();
        ensure!(left.is_empty(), "{left:?}: {}", words(&output));
        Ok(words(&output))
    }
}

/// A socket that listens at `path`, for everyone, its folders made.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(listener)
}

/// A setting of the kernel that is put back.
#[derive(Debug)]
pub(super) struct Setting {
    path: PathBuf,
    before: String,
}

impl Setting {
    pub(super) fn change(path: &str, value: &str) -> io::Result<Self> {
        let before = fs::read_to_string(path)?;
        fs::write(path, value)?;
        Ok(Self {
            path: path.into(),
            before,
        })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // It was written a moment ago, and is the host's own value.
        drop(fs::write(&self.path, self.before.trim_end()));
    }
}

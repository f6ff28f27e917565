//! A private installation: its own folder, cgroup, users and uid ranges, from the real programs.
//!
//! Nothing of a real installation is touched, and nothing is left: what a [`Host`] put on the
//! machine goes when it is dropped, whatever happened in between.

mod configuration;
pub mod lacking;
mod leftovers;
mod processes;
mod programs;

use std::{
    fs, io,
    ops::Range,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

pub use self::programs::{Missing, folder as programs_folder};

/// Where installations are. It is sticky: others cannot replace what root puts there, and unlike
/// `/tmp` it is not shown as a session's own.
pub const PLACE: &str = "/var/tmp";

/// How long a session may take to end, and other things of a moment.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long the service may take to start: an emulated machine verifies each eBPF program slowly.
const START: Duration = Duration::from_secs(180);

/// The first uid of all test installations: above custodyd's defaults and what others hand out,
/// below 2^31 (systemd's UIDS-GIDS document).
const UIDS: u32 = 1_920_000_000;

/// How many uids one installation has.
const UIDS_EACH: u32 = 1_000;

/// The first of them that is a session's, and how many sessions, fronts and workers have each.
const AGENTS: u32 = 400;
const UIDS_EACH_KIND: u32 = 290;

/// What an installation is made of.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Name and text of each policy.
    pub policies: Vec<(String, String)>,
    /// Label and file of each credential.
    pub credentials: Vec<(String, PathBuf)>,
    /// Names of the trusted values that the operator may set.
    pub values: Vec<String>,
    /// Names of the owned sets that the operator may set.
    pub owned: Vec<String>,
}

/// A private installation, running.
#[derive(Debug)]
pub struct Host {
    folder: PathBuf,
    cgroup: PathBuf,
    first_uid: u32,
    daemon: Option<Child>,
    lacking: Vec<i64>,
}

impl Host {
    /// Makes the installation without starting it.
    ///
    /// # Errors
    /// When the programs are not built or a file cannot be made.
    pub fn install(setup: &Setup) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let built = programs::folder()?;
        let pid = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("{PLACE}/custody-test-{pid}-{number}"));
        let slot = (pid.wrapping_mul(7).wrapping_add(number)) % 10_000;
        let host = Self {
            cgroup: cgroup2()?.join(format!("custody-test-{pid}-{number}")),
            first_uid: UIDS + slot * UIDS_EACH,
            folder,
            daemon: None,
            lacking: Vec::new(),
        };
        fs::create_dir(&host.folder).with_context(|| format!("`{}`", host.folder.display()))?;
        fs::create_dir(&host.cgroup).with_context(|| format!("`{}`", host.cgroup.display()))?;
        open_to_all(&host.folder)?;
        for name in [
            "policies",
            "reviewers",
            "run",
            "state",
            "programs",
            "programs/session",
        ] {
            fs::create_dir(host.folder.join(name)).context(name)?;
            open_to_all(&host.folder.join(name))?;
        }
        programs::link(&built, &host.programs())?;
        for (name, text) in &setup.policies {
            host.write_policy(name, text)?;
        }
        host.write("custodyd.toml", 0o644, &host.configuration(setup))?;
        Ok(host)
    }

    /// Makes the installation and starts it.
    ///
    /// # Errors
    /// When it does not come up; the end of its log is in the error.
    pub fn start(setup: &Setup) -> anyhow::Result<Self> {
        let mut host = Self::install(setup)?;
        host.up()?;
        Ok(host)
    }

    /// An installation with one policy, `plain`, which names no tool.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub fn plain() -> anyhow::Result<Self> {
        Self::start(&Setup {
            policies: vec![("plain".into(), "format = 1\n".into())],
            ..Setup::default()
        })
    }

    /// Starts custodyd and waits until it answers.
    ///
    /// # Errors
    /// When it does not come up; the end of its log is in the error.
    pub fn up(&mut self) -> anyhow::Result<()> {
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.log_file())?;
        let child = self
            .daemon_command()
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start custodyd")?;
        self.daemon = Some(child);
        let end = Instant::now() + START;
        loop {
            if let Some(status) = self.ended()? {
                bail!("custodyd ended ({status}): {}", self.log_tail());
            }
            if self.is_ready() {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "custodyd does not come up: {}",
                self.log_tail()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// custodyd, as it is started.
    pub fn daemon_command(&self) -> Command {
        let program = self.programs().join("custodyd");
        let mut command = if self.lacking.is_empty() {
            Command::new(program)
        } else {
            let numbers: Vec<String> = self.lacking.iter().map(i64::to_string).collect();
            let mut command = Command::new(self.programs().join("custody-lacking"));
            command.arg(numbers.join(",")).arg(program);
            command
        };
        command
            .arg("--config")
            .arg(self.folder.join("custodyd.toml"))
            .current_dir("/")
            .process_group(0);
        command
    }

    /// From the next start on, custodyd runs as on a kernel that lacks these system calls.
    pub fn lack(&mut self, calls: &[i64]) {
        self.lacking = calls.to_vec();
    }

    /// Whether custodyd has ended, and how.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.daemon.as_mut().map_or(Ok(None), Child::try_wait)
    }

    /// Whether the whole service answers an operator.
    pub fn is_ready(&self) -> bool {
        self.cli()
            .arg("status")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Waits until the whole service answers again.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_ready(&self) -> anyhow::Result<()> {
        self.wait("the service answers", || self.is_ready())
    }

    /// Waits until `done`.
    ///
    /// # Errors
    /// When it does not happen in time; the end of the log is in the error.
    pub fn wait(&self, what: &str, done: impl Fn() -> bool) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while !done() {
            ensure!(
                Instant::now() < end,
                "not in time: {what}: {}",
                self.log_tail()
            );
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends custodyd in order (SIGTERM) and waits.
    ///
    /// # Errors
    /// When it does not end.
    pub fn down(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.daemon.take() else {
            return Ok(());
        };
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        let end = Instant::now() + PATIENCE;
        while child.try_wait()?.is_none() {
            if Instant::now() >= end {
                child.kill()?;
                child.wait()?;
                bail!("custodyd does not end: {}", self.log_tail());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills custodyd (SIGKILL) and waits for it.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill_daemon(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.daemon.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// `custody`, as the operator without privileges.
    pub fn cli(&self) -> Command {
        self.cli_as(self.operator())
    }

    /// `custody`, as whoever has this uid.
    pub fn cli_as(&self, uid: u32) -> Command {
        let mut command = Command::new(self.programs().join("custody"));
        command
            .arg("--socket")
            .arg(self.folder.join("run/control.sock"))
            .uid(uid)
            .gid(uid)
            .current_dir("/");
        command
    }

    /// `custody run` of `policy`, up to the command.
    pub fn run<'a>(
        &self,
        policy: &str,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Command {
        let mut command = self.cli();
        command.arg("run").arg("--policy").arg(policy);
        for (name, value) in values {
            command.arg("--value").arg(format!("{name}={value}"));
        }
        command
    }

    /// Where its programs are.
    pub fn programs(&self) -> PathBuf {
        self.folder.join("programs")
    }

    /// Its folder; the operator may read it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The ledger and its public keys.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Its cgroup.
    pub fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The uid of the operator.
    pub const fn operator(&self) -> u32 {
        self.first_uid + 305
    }

    /// The uid of a reviewer who runs no session.
    pub const fn reviewer(&self) -> u32 {
        self.first_uid + 306
    }

    /// The uid of a user whom no rule names.
    pub const fn stranger(&self) -> u32 {
        self.first_uid + 307
    }

    /// The uids of its sessions, as its configuration says.
    const fn agent_uids(&self) -> Range<u32> {
        self.first_uid + AGENTS..self.first_uid + AGENTS + UIDS_EACH_KIND
    }

    /// A folder that belongs to the operator, for a workspace.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn workspace(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        fs::create_dir(&path)?;
        std::os::unix::fs::chown(&path, Some(self.operator()), Some(self.operator()))?;
        Ok(path)
    }

    /// Writes a policy. custodyd reads it at its next start.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_policy(&self, name: &str, text: &str) -> anyhow::Result<()> {
        self.write(&format!("policies/{name}.toml"), 0o644, text)
    }

    /// Writes a file of root's.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, mode: u32, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let done = fs::write(&path, "")
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .and_then(|()| fs::write(&path, text));
        done.with_context(|| format!("`{}`", path.display()))
    }

    /// Adds tables to the configuration. custodyd reads it at its next start.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn configure(&self, more: &str) -> anyhow::Result<()> {
        let text = self.configuration_text()?;
        self.write("custodyd.toml", 0o644, &format!("{text}\n{more}"))
    }

    /// The configuration file's text.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn configuration_text(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.join("custodyd.toml"))
    }

    /// All that the service has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.len().saturating_sub(25);
        lines.get(first..).unwrap_or_default().join("\n")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A failing test shows what the service said.
        let failing = thread::panicking();
        if failing {
            eprint(&format!("the service's log:\n{}\n", self.log_tail()));
        }
        if let Err(error) = self.down() {
            eprint(&format!("{error:#}\n"));
        }
        for left in self.clean() {
            eprint(&format!("left behind: {left}\n"));
        }
    }
}

/// To standard error, which a test's harness captures or a terminal shows.
fn eprint(text: &str) {
    // There is nobody left to tell when standard error is gone.
    drop(io::Write::write_all(&mut io::stderr(), text.as_bytes()));
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

/// Where cgroup2 is mounted.
fn cgroup2() -> anyhow::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    mounts
        .lines()
        .find_map(|line| {
            let mut fields = line.split(' ');
            let place = fields.nth(1)?;
            (fields.next()? == "cgroup2").then(|| place.into())
        })
        .context("no cgroup2 is mounted")
}

//! custodyd, started by hand, and the CLI as an operator without privileges types it.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Room, User};
use crate::stage;

/// For anything that the demo waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Daemon<'a> {
    child: Child,
    room: &'a Room,
}

impl<'a> Daemon<'a> {
    pub(crate) fn start(room: &'a Room) -> Result<Self> {
        let log = fs::File::create(room.log("custodyd")).context("cannot write a log")?;
        let child = Command::new(room.programs().join("custodyd"))
            .arg("--config")
            .arg(room.configuration_file())
            .current_dir("/")
            .process_group(0) // Ctrl-C is ours: we end it in order
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("dup")?)
            .stderr(log)
            .spawn()
            .context("cannot start custodyd")?;
        let mut daemon = Self { child, room };
        daemon.wait()?;
        Ok(daemon)
    }

    /// Until it answers an operator.
    fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.child.try_wait().context("wait")?.is_some() {
                bail!("custodyd ended: {}", self.said());
            }
            if self.room.control_socket().exists()
                && stage::output(self.cli().arg("status")).is_ok()
            {
                return Ok(());
            }
            if stage::interrupted() {
                bail!("interrupted");
            }
            if Instant::now() > until {
                bail!("custodyd did not answer in time: {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The last of its log: why it did not work.
    pub(crate) fn said(&self) -> String {
        let text = fs::read_to_string(self.room.log("custodyd")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let last = lines.len().saturating_sub(15);
        lines.get(last..).unwrap_or_default().join("\n")
    }

    /// `custody`, as the operator.
    pub(crate) fn cli(&self) -> Command {
        let uid = self.room.uid(User::Operator);
        let mut command = Command::new(self.room.programs().join("custody"));
        command
            .arg("--socket")
            .arg(self.room.control_socket())
            .uid(uid)
            .gid(uid)
            .current_dir("/");
        command
    }

    /// The process of custody-vault.
    pub(crate) fn vault(&self) -> Result<u32> {
        let program = self.room.programs().join("custody-vault");
        let is_it =
            |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        fs::read_dir("/proc")
            .context("cannot read /proc")?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .find(is_it)
            .context("no process runs custody-vault")
    }

    /// Ends it in order; its sessions and programs end with it.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait().context("wait")?.is_some() {
            return Ok(());
        }
        let pid = Pid::from_raw(i32::try_from(self.child.id()).context("a process id")?);
        kill(pid, Signal::SIGTERM).context("kill")?;
        let until = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().context("wait")?.is_none() {
            if Instant::now() > until {
                self.child.kill().context("kill")?;
                self.child.wait().context("wait")?;
                bail!("custodyd did not end on SIGTERM: {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            crate::say::error(format_args!("{error:#}"));
        }
    }
}

/// The effective uid of a process (proc_pid_status(5)).
pub(crate) fn uid_of(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/status");
    let text =
        fs::read_to_string(Path::new(&path)).with_context(|| format!("cannot read `{path}`"))?;
    text.lines()
        .find_map(|line| {
            line.strip_prefix("Uid:")?
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()
        })
        .with_context(|| format!("`{path}` names no uid"))
}

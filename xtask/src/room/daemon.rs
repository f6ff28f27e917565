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

/// Until it answers: it mounts, loads and starts four programs. In an emulated machine the verifier
/// of its eBPF programs is slow.
const PATIENCE: Duration = Duration::from_secs(180);

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
        self.room
            .processes()
            .into_iter()
            .find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim() == "custody-vault")
            })
            .context("no process of the service is custody-vault")
    }

    /// The processor time that the programs and their ended children have used, in whole ticks.
    pub(crate) fn cpu(&self) -> Duration {
        let programs = self.room.processes().into_iter();
        programs.chain([self.child.id()]).map(cpu_of).sum()
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

/// The processor time of a process and of its ended children, in whole ticks; none where it has
/// ended: utime, stime, cutime and cstime (proc_pid_stat(5)), fields 14 to 17, of which the name,
/// field 2, may have blanks.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10) // USER_HZ is 100 on x86-64 (time(7))
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

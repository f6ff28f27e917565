//! The processes of one installation, found by the file that they execute and by their uid.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Host, UIDS_EACH};

impl Host {
    /// The processes of this installation that execute `program`.
    pub fn pids(&self, program: &str) -> Vec<i32> {
        let program = self.programs().join(program);
        all()
            .into_iter()
            .filter(|pid| executable(*pid).is_some_and(|it| it == program))
            .collect()
    }

    /// The one process of this installation that executes `program`.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn pid(&self, program: &str) -> anyhow::Result<i32> {
        let pids = self.pids(program);
        match pids.as_slice() {
            [pid] => Ok(*pid),
            _ => anyhow::bail!("{program} runs as {pids:?}"),
        }
    }

    /// Kills (SIGKILL) every process of this installation that executes `program`.
    ///
    /// # Errors
    /// When there is none, or it cannot be killed.
    pub fn kill(&self, program: &str) -> anyhow::Result<Vec<i32>> {
        let pids = self.pids(program);
        anyhow::ensure!(!pids.is_empty(), "{program} does not run");
        for pid in &pids {
            kill(Pid::from_raw(*pid), Signal::SIGKILL).context("kill")?;
        }
        Ok(pids)
    }

    /// Every process of this installation: by what it executes or as whom it runs.
    pub fn processes(&self) -> Vec<i32> {
        let programs = self.programs();
        all()
            .into_iter()
            .filter(|pid| {
                executable(*pid).is_some_and(|it| it.starts_with(&programs))
                    || uid(*pid).is_some_and(|uid| self.is_ours(uid))
            })
            .collect()
    }

    /// The uids under which sessions run.
    pub fn agents(&self) -> BTreeSet<u32> {
        let range = self.agent_uids();
        let uids = all().into_iter().filter_map(uid);
        uids.filter(|uid| range.contains(uid)).collect()
    }

    fn is_ours(&self, uid: u32) -> bool {
        // The operator's own processes are the test's.
        (self.first_uid..self.first_uid + UIDS_EACH).contains(&uid) && uid != self.operator()
    }
}

fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// What the process executes; a file that was replaced since says ` (deleted)` and is not ours.
fn executable(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Its real uid. The owner of its folder in /proc says root where it is not dumpable (proc(5)).
pub(super) fn uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_whitespace().next()?.parse().ok()
}

//! Our folders in the cgroup2 hierarchy: `<base>/custody/{agents,services,workers}`, a fresh one
//! below for each program. A folder that was killed is never used again: a later clone3 into it
//! would be killed at once (measured on Linux 6.18).
//!
//! Controllers are handed down to sessions where the host has them. A folder that hands one down may
//! hold no process itself (cgroups(7), "no internal processes"): where the base is our own cgroup, as
//! under systemd with `Delegate=yes`, custodyd moves to `<base>/custody/custodyd` first.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use custody_sys::cgroup::{self, Cgroup};
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::{hooks::Group, limits};

/// How long the processes of an earlier run may take to die.
const LEFTOVERS_MAX: Duration = Duration::from_secs(10);

/// Why the folders cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// Another custodyd has them.
    #[error("another custodyd has the cgroups under `{path}`; give each `paths.cgroup` of its own")]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cgroup `{path}`")]
    Make {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The three groups.
#[derive(Debug)]
pub struct Cgroups {
    top: PathBuf,
    /// The folder above, if it was made here.
    made: Option<PathBuf>,
    groups: [(Group, Cgroup); 3],
    number: u64,
    base: PathBuf,
    /// Whether custodyd itself moved to a folder below.
    moved: bool,
    _lock: Flock<File>,
}

impl Cgroups {
    /// Makes the folders. What an earlier run left in them is killed and removed first.
    ///
    /// # Errors
    /// See [`CgroupError`].
    pub fn make(base: &Path) -> Result<Self, CgroupError> {
        let top = base.join("custody");
        let make = |path: &Path| Cgroup::ensure(path).map_err(failed(path));
        let made = (!base.exists()).then(|| base.to_owned());
        make(base)?;
        make(&top)?;
        let lock = lock(&top)?;
        let groups = [
            (Group::Agents, make(&top.join(Group::Agents.name()))?),
            (Group::Services, make(&top.join(Group::Services.name()))?),
            (Group::Workers, make(&top.join(Group::Workers.name()))?),
        ];
        for (_, group) in &groups {
            clear(group.path())?;
        }
        let moved = hand_down(base, &top);
        Ok(Self {
            top,
            made,
            groups,
            number: 0,
            base: base.into(),
            moved,
            _lock: lock,
        })
    }

    /// The folder of a group, where its hooks are attached.
    pub fn group(&self, group: Group) -> &Cgroup {
        let [(_, agents), (_, services), (_, workers)] = &self.groups;
        match group {
            Group::Agents => agents,
            Group::Services => services,
            Group::Workers => workers,
        }
    }

    /// A fresh folder for one program.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn fresh(&mut self, group: Group, name: &str) -> Result<Cgroup, CgroupError> {
        loop {
            self.number = self.number.saturating_add(1);
            let path = self
                .group(group)
                .path()
                .join(format!("{name}-{}", self.number));
            match Cgroup::create(&path) {
                // An earlier run's, with what does not die.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map_err(failed(&path)),
            }
        }
    }

    /// Removes all of it, at the end, when everything is empty.
    ///
    /// # Errors
    /// When a process is left.
    pub fn remove(self) -> Result<(), CgroupError> {
        if self.moved {
            self.move_back()?;
        }
        cgroup::remove(&self.top).map_err(failed(&self.top))?;
        match &self.made {
            Some(base) => cgroup::remove(base).map_err(failed(base)),
            None => Ok(()),
        }
    }
}

impl Cgroups {
    /// Back to the base, which may hold a process again when it hands nothing down.
    fn move_back(&self) -> Result<(), CgroupError> {
        for (_, group) in &self.groups {
            cgroup::remove(group.path()).map_err(failed(group.path()))?;
        }
        for folder in [&self.top, &self.base] {
            limits::take_back(folder).map_err(failed(folder))?;
        }
        move_to(&self.base).map_err(failed(&self.base))
    }
}

/// Hands the controllers down from `base` to the agents' folder. Whether custodyd had to move. A
/// host that has none, or refuses, has sessions without limits, and their layer says so.
fn hand_down(base: &Path, top: &Path) -> bool {
    if limits::offered(base).is_empty() {
        return false;
    }
    let own = top.join("custodyd");
    let moved = is_ours(base)
        && Cgroup::ensure(&own)
            .and_then(|_made| move_to(&own))
            .inspect_err(|error| tracing::warn!(%error, cgroup = %own.display(), "cannot move"))
            .is_ok();
    for folder in [base, top, &top.join(Group::Agents.name())] {
        if let Err(error) = limits::hand_down(folder) {
            tracing::warn!(%error, cgroup = %folder.display(), "controllers are not handed down");
            break;
        }
    }
    moved
}

/// Whether this process is in the folder itself, and it is not the root of the hierarchy, which may
/// hold processes.
fn is_ours(folder: &Path) -> bool {
    let pid = std::process::id().to_string();
    folder.join("cgroup.type").exists()
        && fs::read_to_string(folder.join("cgroup.procs"))
            .is_ok_and(|pids| pids.lines().any(|it| it == pid))
}

/// This process, which has one thread.
fn move_to(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), "0")
}

/// Kills what is below `group` and removes the folders. A process that hangs in a system call does
/// not die: its folder stays, killed, under the hooks of its group.
fn clear(group: &Path) -> Result<(), CgroupError> {
    let deadline = Instant::now() + LEFTOVERS_MAX;
    for entry in fs::read_dir(group).map_err(failed(group))? {
        let path = entry.map_err(failed(group))?.path();
        if !path.is_dir() {
            continue;
        }
        if !cgroup::is_empty(&path).map_err(failed(&path))? {
            tracing::warn!(cgroup = %path.display(), "killing what an earlier run left");
        }
        cgroup::kill(&path).map_err(failed(&path))?;
        while !cgroup::is_empty(&path).map_err(failed(&path))? && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Err(error) = cgroup::remove(&path) {
            tracing::warn!(
                cgroup = %path.display(),
                %error,
                "what an earlier run left does not die, and stays confined"
            );
        }
    }
    Ok(())
}

fn lock(top: &Path) -> Result<Flock<File>, CgroupError> {
    let fd =
        custody_sys::path::open(top, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(failed(top))?;
    Flock::lock(File::from(fd), FlockArg::LockExclusiveNonblock)
        .map_err(|(_file, _errno)| CgroupError::Busy { path: top.into() })
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CgroupError {
    let path = path.to_owned();
    move |source| CgroupError::Make {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::kernel::cgroup_base;

    #[test]
    fn a_folder_that_an_earlier_run_had_to_leave_is_in_nobodys_way() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let name = format!("custody-names-{}", std::process::id());
        let base = cgroup_base(None).unwrap().join(name);
        let mut cgroups = Cgroups::make(&base).unwrap();
        let left = cgroups.group(Group::Agents).path().join("spare-1");
        fs::create_dir(&left).unwrap();
        let fresh = cgroups.fresh(Group::Agents, "spare").unwrap();
        assert_ne!(fresh.path(), left);
        cgroups.remove().unwrap();
    }
}

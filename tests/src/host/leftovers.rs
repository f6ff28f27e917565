//! What an installation leaves on the machine, and how it goes.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{Host, processes::uid};

impl Host {
    /// What of this installation is on the machine: processes, cgroups of sessions, pins, mounts.
    pub fn leftovers(&self) -> Vec<String> {
        let mut left: Vec<String> = self
            .processes()
            .into_iter()
            .map(|pid| format!("process {pid} {}", name(pid)))
            .collect();
        for group in ["agents", "services", "workers"] {
            let folder = self.cgroup().join("custody").join(group);
            left.extend(
                folders(&folder)
                    .iter()
                    .map(|it| format!("cgroup {}", it.display())),
            );
        }
        left.extend(
            self.pins()
                .into_iter()
                .map(|it| format!("pin {}", it.display())),
        );
        left.extend(self.mounts().into_iter().map(|it| format!("mount {it}")));
        left
    }

    /// The sessions' own cgroups. That of a launcher which waits for a session is none yet.
    pub fn session_cgroups(&self) -> Vec<PathBuf> {
        let mut found = folders(&self.cgroup().join("custody/agents"));
        found.retain(|folder| !waits(folder));
        found
    }

    /// The uids of the processes in the sessions' cgroups.
    pub fn session_uids(&self) -> BTreeSet<u32> {
        self.session_pids().into_iter().filter_map(uid).collect()
    }

    /// Pid 1 of each session, as the host numbers it.
    pub fn session_inits(&self) -> Vec<i32> {
        let mut inits = self.session_pids();
        inits.retain(|pid| name(*pid) == "custody-init");
        inits
    }

    fn session_pids(&self) -> Vec<i32> {
        let folders = self.session_cgroups();
        folders.iter().flat_map(|folder| listed(folder)).collect()
    }

    /// The links that are pinned for this installation.
    pub fn pins(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.pin_folder()) else {
            return Vec::new();
        };
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// Mounts on this host that lie in the installation's folder.
    fn mounts(&self) -> Vec<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|place| Path::new(place).starts_with(self.folder()))
            .map(str::to_owned)
            .collect()
    }

    /// Where custodyd pins for the installation below this cgroup.
    pub fn pin_folder(&self) -> PathBuf {
        let mut name = String::new();
        for character in self.cgroup().to_string_lossy().chars() {
            match character {
                '/' => name.push('-'),
                'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(character),
                other => name.push_str(&format!("_{:02x}", u32::from(other))),
            }
        }
        Path::new("/sys/fs/bpf/custody").join(name)
    }

    /// Removes everything; what could not be removed.
    pub(super) fn clean(&self) -> Vec<String> {
        [
            end_cgroup(self.cgroup()).map_err(|error| (self.cgroup().to_owned(), error)),
            remove(&self.pin_folder()).map_err(|error| (self.pin_folder(), error)),
            remove(self.folder()).map_err(|error| (self.folder().to_owned(), error)),
        ]
        .into_iter()
        .filter_map(Result::err)
        .map(|(path, error)| format!("{}: {error}", path.display()))
        .collect()
    }
}

/// Whether custody-launch alone is in the cgroup.
fn waits(cgroup: &Path) -> bool {
    let pids = listed(cgroup);
    !pids.is_empty() && pids.into_iter().all(|pid| name(pid) == "custody-launch")
}

/// The processes in a cgroup; none if it is gone.
fn listed(cgroup: &Path) -> Vec<i32> {
    let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    pids.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// The name of a process (proc_pid_comm(5)); empty if it is gone.
fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Kills what is below `cgroup` and removes it (cgroups(7), `cgroup.kill`).
fn end_cgroup(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.kill"), "1")?;
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        match remove_cgroups(cgroup) {
            // Its processes are on their way out.
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            removed => return removed,
        }
    }
}

fn remove_cgroups(cgroup: &Path) -> io::Result<()> {
    for folder in folders(cgroup) {
        remove_cgroups(&folder)?;
    }
    fs::remove_dir(cgroup)
}

//! What a session may use at most, by the host's cgroup2 controllers
//! (Documentation/admin-guide/cgroup-v2.rst): memory, swap, processes.
//!
//! | file | what |
//! |---|---|
//! | `memory.max` | the policy's `session.limits.memory_mb`; what lies in its tmpfs is in it |
//! | `memory.swap.max` | 0 |
//! | `memory.oom.group` | 1: where it has no more, the session ends whole |
//! | `pids.max` | the policy's `session.limits.processes` |
//!
//! A host may have no such controller in the hierarchy, or not below our folder: then the layer says
//! so. Disk is not bounded here: files in a workspace are its owner's and count against his quota.

use std::{fs, io, path::Path};

use custody_wire::layer::Status;

/// Ours, of all the controllers.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// What one session may use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of memory, its tmpfs included.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// The controllers that the folder at `path` could hand down.
pub fn offered(path: &Path) -> Vec<&'static str> {
    // A folder that cannot be read has none.
    let there = fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
    CONTROLLERS
        .into_iter()
        .filter(|controller| there.split_whitespace().any(|it| it == *controller))
        .collect()
}

/// Hands every controller of ours that `path` has down to the folders in it.
///
/// # Errors
/// When the kernel refuses one: EBUSY where a process is in the folder itself.
pub fn hand_down(path: &Path) -> io::Result<()> {
    subtree(path, '+')
}

/// Takes them back.
///
/// # Errors
/// When the kernel refuses, as where a folder below hands them down.
pub fn take_back(path: &Path) -> io::Result<()> {
    subtree(path, '-')
}

fn subtree(path: &Path, sign: char) -> io::Result<()> {
    for controller in offered(path) {
        let file = path.join("cgroup.subtree_control");
        fs::write(&file, format!("{sign}{controller}"))?;
    }
    Ok(())
}

/// Sets the limits of the session's cgroup at `path` and reads them back.
pub fn set(path: &Path, limits: Limits) -> Status {
    let mut missing = Vec::new();
    let there = offered(path);
    if there.is_empty() {
        return Status::None {
            step: "the host's cgroup2 has neither the `memory` nor the `pids` controller here"
                .into(),
            errno: 0,
        };
    }
    for controller in CONTROLLERS {
        if !there.contains(&controller) {
            missing.push(format!(
                "the host's cgroup2 has no `{controller}` controller here"
            ));
        }
    }
    let wanted = [
        ("memory", "memory.max", limits.memory),
        ("memory", "memory.swap.max", 0),
        ("memory", "memory.oom.group", 1),
        ("pids", "pids.max", limits.processes),
    ];
    for (_, file, value) in wanted
        .into_iter()
        .filter(|(controller, _, _)| there.contains(controller))
    {
        if file == "memory.swap.max" && !path.join(file).exists() && has_no_swap() {
            continue; // a kernel without swap
        }
        match limited(&path.join(file), value) {
            Ok(true) => {}
            Ok(false) => missing.push(format!("{file} is not what was set")),
            Err(error) => missing.push(format!("{file}: {error}")),
        }
    }
    if missing.is_empty() {
        Status::Full
    } else {
        Status::Partial {
            missing: missing.join("; "),
        }
    }
}

/// Writes `value`, and whether the file now says so, or less: memory goes by pages.
fn limited(file: &Path, value: u64) -> io::Result<bool> {
    fs::write(file, value.to_string())?;
    let said = fs::read_to_string(file)?;
    // `max` is no number.
    Ok(said.trim().parse::<u64>().is_ok_and(|said| said <= value))
}

/// Whether nothing can be swapped out (proc_swaps(5): the first line is the heading).
fn has_no_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        memory: 64 << 20,
        processes: 32,
    };

    /// A folder with files as a cgroup's are, for what does not rest on the kernel.
    fn folder(controllers: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), controllers).unwrap();
        folder
    }

    /// What is missing of a layer that is there in part.
    fn missing(path: &Path) -> String {
        let status = set(path, LIMITS);
        let Status::Partial { missing } = status else {
            panic!("{status:?}");
        };
        missing
    }

    #[test]
    fn a_host_without_controllers_is_said_to_have_none() {
        let bare = folder("hugetlb misc\n");
        assert_eq!(offered(bare.path()), Vec::<&str>::new());
        let status = set(bare.path(), LIMITS);
        assert!(matches!(&status, Status::None { step, .. } if step.contains("neither")));
        hand_down(bare.path()).unwrap();
        assert!(!bare.path().join("cgroup.subtree_control").exists());
    }

    #[test]
    fn one_controller_of_two_is_half_a_layer() {
        let half = folder("cpu pids\n");
        assert!(missing(half.path()).contains("no `memory` controller"));
        let pids = fs::read_to_string(half.path().join("pids.max")).unwrap();
        assert_eq!(pids, "32");
    }

    #[test]
    fn a_limit_that_the_kernel_does_not_take_is_no_limit() {
        let folder = folder("memory pids\n");
        fs::create_dir(folder.path().join("memory.max")).unwrap();
        assert!(missing(folder.path()).contains("memory.max"));
    }
}

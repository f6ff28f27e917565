//! What anybody can see of the host: facts, and what of them stands against a profile.

use std::{fs, path::Path, process::Command};

/// One fact of the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fact {
    /// Its name in JSON.
    pub name: &'static str,
    /// What the kernel says.
    pub found: String,
    /// What to do, if it is not as it should be.
    pub todo: Option<String>,
}

impl Fact {
    fn new(name: &'static str, found: impl Into<String>, todo: Option<&str>) -> Self {
        Self {
            name,
            found: found.into(),
            todo: todo.map(Into::into),
        }
    }
}

/// The oldest kernel and Landlock (custodyd checks the same).
const KERNEL: (u32, u32) = (6, 12);
const LANDLOCK: i32 = 6;

/// Looks.
pub fn look() -> Vec<Fact> {
    vec![
        kernel(),
        landlock(),
        cgroup2(),
        seccomp(),
        bpf_lsm(),
        io_uring(),
        core_pattern(),
        bubblewrap(),
        Fact::new(
            "nested_sandboxes",
            "a session replaces them and does not nest: switch off those of the agent",
            None,
        ),
    ]
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(|error| format!("{path}: {error}"))
}

fn kernel() -> Fact {
    let release = nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_else(|errno| format!("uname(2): {errno}"));
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let enough = matches!((number(), number()), (Some(a), Some(b)) if (a, b) >= KERNEL);
    let todo = (!enough).then_some("run Linux 6.12 or newer");
    Fact::new("kernel", release, todo)
}

fn landlock() -> Fact {
    match custody_sys::landlock::abi() {
        Ok(abi) => Fact::new(
            "landlock",
            format!("ABI {abi}"),
            (abi < LANDLOCK).then_some("run Linux 6.12 or newer"),
        ),
        Err(error) => Fact::new(
            "landlock",
            error.to_string(),
            Some("build it in and name it in `lsm=` on the kernel's command line"),
        ),
    }
}

fn cgroup2() -> Fact {
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    let place = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right
            .starts_with("cgroup2 ")
            .then(|| left.split(' ').nth(4))?
    });
    match place {
        None => Fact::new(
            "cgroup2",
            "not mounted",
            Some("mount one: `mount -t cgroup2 none /sys/fs/cgroup`"),
        ),
        Some(place) => {
            let file = format!("{place}/cgroup.controllers");
            let controllers = read(&file).unwrap_or_else(|why| why);
            let missing: Vec<&str> = ["memory", "pids"]
                .into_iter()
                .filter(|name| !controllers.split(' ').any(|it| it == *name))
                .collect();
            let todo = (!missing.is_empty()).then(|| {
                format!(
                    "without {} sessions have no limit of their own there, and `hardened` cannot be \
                     had: give these controllers to cgroup2, not to cgroup v1",
                    missing.join(" and ")
                )
            });
            Fact::new(
                "cgroup2",
                format!("at `{place}`, controllers: {controllers}"),
                todo.as_deref(),
            )
        }
    }
}

fn seccomp() -> Fact {
    match read("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) => Fact::new("seccomp", actions, None),
        Err(why) => Fact::new(
            "seccomp",
            why,
            Some("use a kernel with CONFIG_SECCOMP_FILTER"),
        ),
    }
}

/// That it is listed; whether a program loads says the layer `bpf_lsm` of a session.
fn bpf_lsm() -> Fact {
    const TODO: &str = "`hardened` needs it: add `bpf` to `lsm=` on the kernel's command line";
    match read("/sys/kernel/security/lsm") {
        Ok(modules) => {
            let there = modules.split(',').any(|module| module == "bpf");
            Fact::new("lsm", modules, (!there).then_some(TODO))
        }
        Err(why) => Fact::new("lsm", why, Some("mount securityfs to see which are active")),
    }
}

fn io_uring() -> Fact {
    let said = read("/proc/sys/kernel/io_uring_disabled").unwrap_or_else(|why| why);
    Fact::new("io_uring_disabled", said, None)
}

fn core_pattern() -> Fact {
    let said = read("/proc/sys/kernel/core_pattern").unwrap_or_else(|why| why);
    let piped = said.starts_with('|');
    let todo = piped.then_some(custody_wire::refused::Refused::PipedCorePattern.what_to_do());
    Fact::new("core_pattern", said, todo)
}

/// CVE-2026-87766 is in bubblewrap before 0.12. Nothing of ours uses it; an agent's own tools may.
fn bubblewrap() -> Fact {
    const BWRAP: &str = "/usr/bin/bwrap";
    if !Path::new(BWRAP).exists() {
        return Fact::new("bubblewrap", "not installed", None);
    }
    let said = Command::new(BWRAP)
        .arg("--version")
        .env_clear()
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_else(|error| error.to_string());
    let todo = is_old(&said).then_some("CVE-2026-87766: bubblewrap 0.12 or newer");
    Fact::new("bubblewrap", said, todo)
}

fn is_old(said: &str) -> bool {
    let mut parts = said
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(0), Some(minor)) if minor < 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_bubblewrap_compare_as_numbers() {
        assert!(is_old("bubblewrap 0.8.0") && is_old("bubblewrap 0.11.2"));
        assert!(!is_old("bubblewrap 0.12.0") && !is_old("bubblewrap 1.0") && !is_old("nothing"));
    }

    #[test]
    fn every_fact_has_a_name_of_its_own_and_says_something() {
        let facts = look();
        let mut names: Vec<&str> = facts.iter().map(|fact| fact.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), facts.len());
        assert!(facts.iter().all(|fact| !fact.found.is_empty()));
    }
}

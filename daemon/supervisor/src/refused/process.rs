//! The very process that is to become the session, after it said that it is sealed and before its
//! command is executed: what the kernel says of it, whatever it reported itself.

use std::{
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use custody_sys::mountinfo::{self, Mount};
use custody_wire::{launch::CHANNEL_FD, refused::Refused};
use procfs::{
    ProcError,
    process::{LimitValue, Process, Status},
};

use super::Finding;

/// The namespaces besides the network's that a session never shares (namespaces(7)).
const NAMESPACES: [&str; 5] = ["cgroup", "ipc", "mnt", "pid", "uts"];

/// RLIMIT_CORE as the launcher sets it: a limit of 0 would let a piped core_pattern run (core(5)).
const CORE: u64 = 1;

/// How long the launcher may take to close what it handed out: it has nothing else to do.
const SETTLES: Duration = Duration::from_millis(200);

/// Between two looks.
const AGAIN: Duration = Duration::from_micros(500);

/// Major numbers of /dev/pts/N (Documentation/admin-guide/devices.txt).
const PTS: std::ops::RangeInclusive<u64> = 136..=143;

/// File systems of the kernel on which nothing is executed.
const NO_FILES: [&str; 2] = ["devpts", "proc"];

/// What it should be.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Its uid and gid.
    pub uid: u32,
    /// Its cgroup's folder.
    pub cgroup: &'a Path,
}

/// Looks at process `pid`, our child and not reaped.
pub fn look(pid: i32, expected: Expected<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match Process::new(pid).and_then(|process| process.status().map(|status| (process, status))) {
        Ok((process, status)) => {
            of_status(&status, expected.uid, &mut findings);
            of_limits(&process, &mut findings);
            of_mounts(mountinfo::of(pid), &mut findings);
            of_cgroup(&process, expected.cgroup, &mut findings);
        }
        Err(error) => findings.push(unseen(Refused::AgentUidRoot, "its status", &error)),
    }
    of_namespaces(pid, &mut findings);
    of_descriptors(pid, &mut findings);
    findings
}

fn unseen(which: Refused, what: &str, error: &ProcError) -> Finding {
    Finding::unseen(which, what, error)
}

/// proc_pid_status(5).
fn of_status(status: &Status, uid: u32, findings: &mut Vec<Finding>) {
    let mut find = |which, found: String| findings.push(Finding::new(which, found));
    let uids = [status.ruid, status.euid, status.suid, status.fuid];
    let gids = [status.rgid, status.egid, status.sgid, status.fgid];
    if uids.contains(&0) || gids.contains(&0) || status.groups.contains(&0) {
        find(
            Refused::AgentUidRoot,
            format!("uids {uids:?}, gids {gids:?}, groups {:?}", status.groups),
        );
    } else if uids != [uid; 4] || gids != [uid; 4] || !status.groups.is_empty() {
        find(
            Refused::AgentUidShared,
            format!(
                "uids {uids:?}, gids {gids:?}, groups {:?} instead of {uid} alone",
                status.groups
            ),
        );
    }
    let sets = [
        ("CapInh", Some(status.capinh)),
        ("CapPrm", Some(status.capprm)),
        ("CapEff", Some(status.capeff)),
        ("CapBnd", status.capbnd),
        ("CapAmb", status.capamb),
    ];
    if let Some((name, set)) = sets.into_iter().find(|(_, set)| *set != Some(0)) {
        let set = set.map_or("not known".into(), |set| format!("{set:016x}"));
        find(Refused::CapabilityLeft, format!("{name} is {set}"));
    }
    if status.nonewprivs != Some(1) {
        find(
            Refused::NewPrivileges,
            format!("NoNewPrivs is {:?}", status.nonewprivs.unwrap_or_default()),
        );
    }
    // 2 is SECCOMP_MODE_FILTER.
    if status.seccomp != Some(2) {
        let mode = status.seccomp.unwrap_or_default();
        find(Refused::SeccompMissing, format!("Seccomp is {mode}"));
        // io_uring_setup(2): 2 refuses everyone.
        let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        if !disabled.is_ok_and(|text| text.trim() == "2") {
            find(
                Refused::IoUringAllowed,
                "no filter refuses io_uring_setup(2), and the kernel makes rings".into(),
            );
        }
    }
}

fn of_limits(process: &Process, findings: &mut Vec<Finding>) {
    match process.limits() {
        Ok(limits) => {
            let over = |limit| !matches!(limit, LimitValue::Value(most) if most <= CORE);
            let core = limits.max_core_file_size;
            if over(core.soft_limit) || over(core.hard_limit) {
                findings.push(Finding::new(
                    Refused::CoreDumpAllowed,
                    format!("its limit is {:?}, {:?}", core.soft_limit, core.hard_limit),
                ));
            }
        }
        Err(error) => findings.push(unseen(Refused::CoreDumpAllowed, "its limits", &error)),
    }
}

/// proc_pid_mountinfo(5), as the process sees it. Names of mounts are anybody's bytes: a host's mount
/// whose name is no text is one as every other.
fn of_mounts(mounts: io::Result<Vec<Mount>>, findings: &mut Vec<Finding>) {
    let mounts = match mounts {
        Ok(mounts) => mounts,
        Err(error) => {
            for which in [
                Refused::SetuidHonoured,
                Refused::WritableBpffs,
                Refused::WritableCgroupfs,
            ] {
                findings.push(Finding::unseen(which, "its mounts", &error));
            }
            return;
        }
    };
    let mut find = |which, mount: Option<&Mount>| {
        findings.extend(mount.map(|mount| {
            let place = mount.point.display();
            Finding::new(which, format!("`{place}` ({})", mount.fs_type))
        }));
    };
    let first = |wanted: &dyn Fn(&Mount) -> bool| mounts.iter().find(|mount| wanted(mount));
    find(
        Refused::SetuidHonoured,
        first(&|it| {
            !it.has("nosuid") && !it.has("noexec") && !NO_FILES.contains(&it.fs_type.as_str())
        }),
    );
    find(
        Refused::WritableBpffs,
        first(&|it| it.fs_type == "bpf" && !it.has("ro")),
    );
    find(
        Refused::WritableCgroupfs,
        first(&|it| matches!(it.fs_type.as_str(), "cgroup" | "cgroup2") && !it.has("ro")),
    );
}

fn of_cgroup(process: &Process, expected: &Path, findings: &mut Vec<Finding>) {
    let groups = match process.cgroups() {
        Ok(groups) => groups.0,
        Err(error) => {
            findings.push(unseen(Refused::Cgroup2Missing, "its cgroup", &error));
            return;
        }
    };
    // As custodyd sees it: the path from the root of the hierarchy, of which the mount shows the end.
    let own = groups.iter().find(|group| group.hierarchy == 0);
    let inside = own.is_some_and(|group| {
        group.pathname != "/" && expected.ends_with(group.pathname.trim_start_matches('/'))
    });
    if !inside {
        let at = own.map_or("in none", |group| group.pathname.as_str());
        findings.push(Finding::new(
            Refused::Cgroup2Missing,
            format!("it is at `{at}`, not at `{}`", expected.display()),
        ));
    }
}

/// namespaces(7): the inode says which.
fn of_namespaces(pid: i32, findings: &mut Vec<Finding>) {
    let inode = |process: &str, name: &str| {
        fs::metadata(format!("/proc/{process}/ns/{name}")).map(|found| found.ino())
    };
    let theirs = pid.to_string();
    let mut compare = |which, name: &str| match (inode("self", name), inode(&theirs, name)) {
        (Ok(ours), Ok(theirs)) if ours == theirs => {
            findings.push(Finding::new(
                which,
                format!("{name}:[{ours}] is custodyd's"),
            ));
        }
        (Ok(_), Ok(_)) => {}
        (Err(error), _) | (_, Err(error)) => {
            findings.push(Finding::unseen(which, "its namespaces", &error));
        }
    };
    compare(Refused::HostNetwork, "net");
    for name in NAMESPACES {
        compare(Refused::SharedNamespace, name);
    }
}

/// 0, 1 and 2 are pipes or a pty, 3 is the channel to us, and nothing else is open. What left with
/// the report the launcher closes after the report: we may look in between, so we look again.
fn of_descriptors(pid: i32, findings: &mut Vec<Finding>) {
    let until = Instant::now() + SETTLES;
    let found = loop {
        let found = descriptors(pid).unwrap_or_else(|error| {
            vec![Finding::unseen(
                Refused::ExtraDescriptor,
                "its descriptors",
                &error,
            )]
        });
        if found.is_empty() || Instant::now() > until {
            break found;
        }
        thread::sleep(AGAIN);
    };
    findings.extend(found);
}

fn descriptors(pid: i32) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let number: i32 = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .unwrap_or(-1);
        let target = fs::read_link(entry.path())?;
        let shown = target.display();
        if (0..CHANNEL_FD).contains(&number) {
            let bytes = target.as_os_str().as_bytes();
            let pipe = bytes.starts_with(b"pipe:[");
            if bytes.starts_with(b"socket:[") {
                findings.push(Finding::new(
                    Refused::SocketStdio,
                    format!("descriptor {number} is `{shown}`"),
                ));
            } else if !pipe && !is_pty(&entry.path())? {
                findings.push(Finding::new(
                    Refused::ExtraDescriptor,
                    format!("descriptor {number} is `{shown}`, neither a pipe nor a pty"),
                ));
            }
        } else if number != CHANNEL_FD {
            findings.push(Finding::new(
                Refused::ExtraDescriptor,
                format!("descriptor {number} is `{shown}`"),
            ));
        }
    }
    Ok(findings)
}

/// By the device that it is: the path is one of the session's.
fn is_pty(link: &Path) -> io::Result<bool> {
    let device = fs::metadata(link)?.rdev();
    Ok(PTS.contains(&nix::sys::stat::major(device)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_confined_is_all_that_it_should_not_be() {
        let own = i32::try_from(std::process::id()).unwrap();
        let expected = Expected {
            uid: 1_900_000_001,
            cgroup: Path::new("/nowhere/else"),
        };
        let found = look(own, expected);
        let has = |which| found.iter().any(|it| it.which == which);
        for which in [
            Refused::Cgroup2Missing,
            Refused::ExtraDescriptor,
            Refused::HostNetwork,
            Refused::IoUringAllowed,
            Refused::NewPrivileges,
            Refused::SeccompMissing,
            Refused::SharedNamespace,
            Refused::SetuidHonoured,
        ] {
            // A harness in a container may have some of these.
            if !has(which) {
                println!("not attempted: this test runs without {}", which.id());
            }
        }
        assert!(
            has(Refused::SharedNamespace) && has(Refused::HostNetwork),
            "{found:?}"
        );
        assert!(has(Refused::Cgroup2Missing), "{found:?}");
    }

    #[test]
    fn mounts_are_judged_by_their_options_whatever_bytes_they_are_named_by() {
        let judged = |lines: &[u8]| {
            let mut findings = Vec::new();
            of_mounts(mountinfo::parse(lines), &mut findings);
            let found = findings.into_iter().map(|it| (it.which, it.found));
            found.collect::<Vec<_>>()
        };
        let harmless = b"1 1 0:1 / /\xff\xfe rw,nosuid - tmpfs x rw\n\
            2 1 0:2 / /sys/fs/cgroup ro,nosuid - cgroup2 x rw\n\
            3 1 0:3 / /proc rw - proc x rw\n";
        assert_eq!(judged(harmless), []);
        let found = judged(
            b"1 1 0:1 / /\xff rw,relatime - fuse.x x rw\n\
            2 1 0:2 / /c rw,nosuid - cgroup x rw\n\
            3 1 0:3 / /b rw,nosuid,noexec - bpf x rw\n",
        );
        let which: Vec<_> = found.iter().map(|it| it.0).collect();
        assert_eq!(
            which,
            [
                Refused::SetuidHonoured,
                Refused::WritableBpffs,
                Refused::WritableCgroupfs
            ]
        );
        assert_eq!(found[0].1, "`/\u{fffd}` (fuse.x)");
        assert_eq!(
            judged(b"no mount\n").len(),
            3,
            "what cannot be read is found"
        );
    }

    #[test]
    fn a_process_that_is_gone_is_refused() {
        let expected = Expected {
            uid: 1,
            cgroup: Path::new("/x"),
        };
        assert!(!look(i32::MAX, expected).is_empty());
    }
}

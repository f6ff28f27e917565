//! What the kernel says of this process: the layers are read back, not believed.

use std::{
    fs,
    io::{self, Read as _},
};

use custody_wire::layer::{Layer, Report, Status};

use crate::failure::{Failure, Step as _};

/// The namespaces and their files in /proc/PID/ns (namespaces(7)).
const NAMESPACES: [(Layer, &str); 6] = [
    (Layer::CgroupNamespace, "cgroup"),
    (Layer::IpcNamespace, "ipc"),
    (Layer::MountNamespace, "mnt"),
    (Layer::NetworkNamespace, "net"),
    (Layer::PidNamespace, "pid"),
    (Layer::UtsNamespace, "uts"),
];

/// What of this process differs from its parent. To be asked while /proc is the host's.
#[derive(Debug)]
pub(crate) struct Apart {
    layers: Vec<Layer>,
}

impl Apart {
    /// Compares with the parent, whose pid the host's procfs knows even across a pid namespace.
    pub(crate) fn from_parent() -> Result<Self, Failure> {
        let own = Self::parent().step(|| "read(2) of `/proc/self/status`".into())?;
        let mut layers = Vec::new();
        for (layer, name) in NAMESPACES {
            // The link's text names the inode; stat(2) would make one more.
            let inode = |of: &str| {
                let path = format!("/proc/{of}/ns/{name}");
                fs::read_link(&path).of(layer, || format!("readlink(2) of `{path}`"))
            };
            if inode("self")? != inode(&own)? {
                layers.push(layer);
            }
        }
        let cgroup = |of: &str| {
            let path = format!("/proc/{of}/cgroup");
            let text = text(&path).of(Layer::Cgroup, || format!("read(2) of `{path}`"))?;
            // The unified hierarchy's line (cgroups(7)).
            let line = text.lines().find_map(|line| line.strip_prefix("0::"));
            Ok(line.map(str::to_owned))
        };
        let (ours, theirs) = (cgroup("self")?, cgroup(&own)?);
        if ours.is_some() && ours != theirs {
            layers.push(Layer::Cgroup);
        }
        Ok(Self { layers })
    }

    fn parent() -> io::Result<String> {
        let status = text("/proc/self/status")?;
        field(&status, "PPid")
            .filter(|parent| *parent != "0")
            .map(str::to_owned)
            .ok_or_else(|| io::Error::other("the parent is not visible"))
    }

    /// Whether `layer` is this process's own.
    pub(crate) fn has(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }

    /// The layer's status.
    pub(crate) fn status(&self, layer: Layer) -> Status {
        if self.has(layer) {
            Status::Full
        } else {
            none("shared with the parent", 0)
        }
    }
}

/// /proc/self/status, read once at the end.
#[derive(Debug)]
pub(crate) struct Own(String);

impl Own {
    pub(crate) fn read() -> Result<Self, Failure> {
        text("/proc/self/status")
            .map(Self)
            .step(|| "read(2) of `/proc/self/status`".into())
    }

    /// All four ids of each kind, and no supplementary group.
    pub(crate) fn uid(&self, uid: u32, gid: u32) -> Status {
        let all = |name, id: u32| {
            let wanted = id.to_string();
            self.field(name).split_whitespace().all(|one| one == wanted)
                && !self.field(name).is_empty()
        };
        if !all("Uid", uid) || uid == 0 {
            none("Uid", 0)
        } else if !all("Gid", gid) {
            none("Gid", 0)
        } else if field(&self.0, "Groups") != Some("") {
            partial("supplementary groups are left")
        } else {
            Status::Full
        }
    }

    /// The kernel's five sets, in which a capability that the caps crate does not know would show.
    pub(crate) fn capabilities(&self) -> Status {
        const SETS: [&str; 5] = ["CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm"];
        let left: Vec<&str> = SETS
            .into_iter()
            .filter(|set| {
                let bits = self.field(set);
                bits.is_empty() || bits.bytes().any(|digit| digit != b'0')
            })
            .collect();
        if left.contains(&"CapEff") || left.contains(&"CapPrm") {
            none("CapEff", 0)
        } else if left.is_empty() {
            Status::Full
        } else {
            partial(&format!("not empty: {}", left.join(", ")))
        }
    }

    pub(crate) fn no_new_privs(&self) -> Status {
        if self.field("NoNewPrivs") == "1" {
            Status::Full
        } else {
            none("NoNewPrivs", 0)
        }
    }

    /// Filter mode, with the filter of ours at least.
    pub(crate) fn seccomp(&self) -> Status {
        let installed = self.field("Seccomp_filters").parse::<usize>().unwrap_or(0);
        if self.field("Seccomp") == "2" && installed > 0 {
            Status::Full
        } else {
            none("Seccomp", 0)
        }
    }

    fn field(&self, name: &str) -> &str {
        field(&self.0, name).unwrap_or_default()
    }
}

/// A file of procfs, in one piece: it has no size, and guessing would begin with a few bytes.
pub(crate) fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
fn text(path: &str) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(io::Error::other)
}

/// A field of /proc/PID/status (proc_pid_status(5)).
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

pub(crate) fn none(step: &str, errno: i32) -> Status {
    Status::None {
        step: step.into(),
        errno,
    }
}

pub(crate) fn partial(missing: &str) -> Status {
    Status::Partial {
        missing: missing.into(),
    }
}

/// One report.
pub(crate) fn report(layer: Layer, status: Status) -> Report {
    Report { layer, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEALED: &str = "Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t \n\
        CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
        CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n\
        Seccomp_filters:\t2\n";

    #[test]
    fn a_sealed_process_is_full_in_all() {
        let own = Own(SEALED.into());
        assert_eq!(own.uid(7, 8), Status::Full);
        assert_eq!(own.capabilities(), Status::Full);
        assert_eq!(own.no_new_privs(), Status::Full);
        assert_eq!(own.seccomp(), Status::Full);
    }

    #[test]
    fn each_thing_that_is_missing_shows() {
        let with = |from: &str, to: &str| Own(SEALED.replace(from, to));
        assert_ne!(with("7\t7\nGid", "0\t7\nGid").uid(7, 8), Status::Full);
        assert_ne!(with("8\t8\nGroups", "8\t0\nGroups").uid(7, 8), Status::Full);
        assert_ne!(with("Groups:\t ", "Groups:\t27 ").uid(7, 8), Status::Full);
        let nothing = Own(String::new());
        assert_ne!(nothing.uid(7, 8), Status::Full);
        assert_ne!(nothing.capabilities(), Status::Full);
        assert_ne!(nothing.no_new_privs(), Status::Full);
        assert_ne!(nothing.seccomp(), Status::Full);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let left = with(
                &format!("{set}:\t0000000000000000"),
                &format!("{set}:\t0000040000000000"),
            );
            assert_ne!(left.capabilities(), Status::Full, "{set}");
        }
        assert_ne!(
            with("NoNewPrivs:\t1", "NoNewPrivs:\t0").no_new_privs(),
            Status::Full
        );
        assert_ne!(with("Seccomp:\t2", "Seccomp:\t0").seccomp(), Status::Full);
        assert_ne!(with("filters:\t2", "filters:\t0").seccomp(), Status::Full);
    }
}

//! The layers of confinement, and what each reports of itself.

use serde::{Deserialize, Serialize};

/// One lock. A profile names the layers that it requires; a session does not start with less.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// All five capability sets empty, read back (capabilities(7)).
    Capabilities,
    /// A cgroup of the session's own (cgroups(7)).
    Cgroup,
    /// cgroup eBPF on IP sockets: sock_create, connect4/6, sendmsg4/6, bind4/6.
    CgroupInet,
    /// The cgroup namespace (cgroup_namespaces(7)).
    CgroupNamespace,
    /// cgroup eBPF on AF_UNIX: connect_unix, sendmsg_unix with the exact-path list.
    CgroupUnix,
    /// The environment is constructed, never inherited.
    Environment,
    /// Every descriptor but the session's own pipes or pty is closed (close_range(2)).
    Fds,
    /// The workspace's owner is mapped to the session's uid (mount_setattr(2)).
    IdMap,
    /// The ipc namespace (ipc_namespaces(7)).
    IpcNamespace,
    /// Landlock, hard requirement (landlock(7)).
    Landlock,
    /// The mount namespace and its pivoted root (mount_namespaces(7)).
    MountNamespace,
    /// An empty network namespace (network_namespaces(7)).
    NetworkNamespace,
    /// PR_SET_NO_NEW_PRIVS (prctl(2)).
    NoNewPrivs,
    /// The pid namespace (pid_namespaces(7)).
    PidNamespace,
    /// Resource limits: no core file, and the profile's own (getrlimit(2)).
    ResourceLimits,
    /// System call filters (seccomp(2)).
    Seccomp,
    /// A uid and gid of the session's own, no supplementary group (credentials(7)).
    Uid,
    /// The uts namespace (uts_namespaces(7)).
    UtsNamespace,
}

impl Layer {
    /// Every layer, in the order of their names.
    pub const ALL: [Self; 18] = [
        Self::Capabilities,
        Self::Cgroup,
        Self::CgroupInet,
        Self::CgroupNamespace,
        Self::CgroupUnix,
        Self::Environment,
        Self::Fds,
        Self::IdMap,
        Self::IpcNamespace,
        Self::Landlock,
        Self::MountNamespace,
        Self::NetworkNamespace,
        Self::NoNewPrivs,
        Self::PidNamespace,
        Self::ResourceLimits,
        Self::Seccomp,
        Self::Uid,
        Self::UtsNamespace,
    ];

    /// The layer's name in evidence and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::Cgroup => "cgroup",
            Self::CgroupInet => "cgroup_inet",
            Self::CgroupNamespace => "cgroup_namespace",
            Self::CgroupUnix => "cgroup_unix",
            Self::Environment => "environment",
            Self::Fds => "fds",
            Self::IdMap => "id_map",
            Self::IpcNamespace => "ipc_namespace",
            Self::Landlock => "landlock",
            Self::MountNamespace => "mount_namespace",
            Self::NetworkNamespace => "network_namespace",
            Self::NoNewPrivs => "no_new_privs",
            Self::PidNamespace => "pid_namespace",
            Self::ResourceLimits => "resource_limits",
            Self::Seccomp => "seccomp",
            Self::Uid => "uid",
            Self::UtsNamespace => "uts_namespace",
        }
    }
}

/// How much of a layer holds. Only [`Status::Full`] counts for a profile.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All of it.
    Full,
    /// Nothing of it: the step that failed, and the kernel's errno (0 where there is none).
    None {
        /// The step, in the kernel's words: a system call or a file.
        step: String,
        /// errno(3).
        errno: i32,
    },
    /// Not needed by this session, by its nature: no workspace needs no id map.
    NotNeeded,
    /// Some of it.
    Partial {
        /// What is missing.
        missing: String,
    },
}

/// What one layer says of itself.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Report {
    /// Which.
    pub layer: Layer,
    /// How much.
    pub status: Status,
}

//! The layers of confinement, and what each reports of itself.

use serde::{Deserialize, Serialize};

/// One lock. A profile names the layers that it requires; a session does not start with less.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// BPF LSM programs on the doors that the other layers hold, and on passed descriptors: the
    /// second lock (Documentation/bpf/prog_lsm.rst).
    BpfLsm,
    /// All five capability sets empty, read back (capabilities(7)).
    Capabilities,
    /// A cgroup of the session's own (cgroups(7)).
    Cgroup,
    /// cgroup eBPF on device nodes: those of the session's own `/dev` and no others.
    CgroupDevice,
    /// cgroup eBPF on IP sockets: sock_create, connect4/6, sendmsg4/6, bind4/6.
    CgroupInet,
    /// memory.max, memory.swap.max and pids.max of the session's cgroup, where the host's
    /// hierarchy has the controllers (Documentation/admin-guide/cgroup-v2.rst).
    CgroupLimits,
    /// The cgroup namespace (cgroup_namespaces(7)).
    CgroupNamespace,
    /// cgroup eBPF on setsockopt(2): no TCP Fast Open, no other socket option that opens a door.
    CgroupSockopt,
    /// cgroup eBPF on sysctls: no write.
    CgroupSysctl,
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
    pub const ALL: [Self; 23] = [
        Self::BpfLsm,
        Self::Capabilities,
        Self::Cgroup,
        Self::CgroupDevice,
        Self::CgroupInet,
        Self::CgroupLimits,
        Self::CgroupNamespace,
        Self::CgroupSockopt,
        Self::CgroupSysctl,
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

    /// Whether custodyd puts the layer on the cgroup before anything is in it. custody-launch
    /// cannot see it and says nothing of it.
    pub const fn is_on_cgroup(self) -> bool {
        matches!(
            self,
            Self::BpfLsm
                | Self::CgroupDevice
                | Self::CgroupInet
                | Self::CgroupLimits
                | Self::CgroupSockopt
                | Self::CgroupSysctl
                | Self::CgroupUnix
        )
    }

    /// The layer's name in evidence and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BpfLsm => "bpf_lsm",
            Self::Capabilities => "capabilities",
            Self::Cgroup => "cgroup",
            Self::CgroupDevice => "cgroup_device",
            Self::CgroupInet => "cgroup_inet",
            Self::CgroupLimits => "cgroup_limits",
            Self::CgroupNamespace => "cgroup_namespace",
            Self::CgroupSockopt => "cgroup_sockopt",
            Self::CgroupSysctl => "cgroup_sysctl",
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

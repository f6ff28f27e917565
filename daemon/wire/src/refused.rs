//! Refused configurations: what a profile does not start under, by name.
//!
//! The names are stable: evidence, messages and `custody doctor` use them. custodyd looks with procfs
//! and the kernel's own tables, never at its own plan; `fixtures/refused.toml` says by which test each
//! does not start and by which attempt it is reached where it is permitted.
//!
//! | profile | refuses |
//! |---|---|
//! | `hardened` | all |
//! | `standard` | all but `piped_core_pattern`: a core limit of 1 stops the pipe too (core(5)) |
//! | `dev` | those under which confinement would not be one; the rest it permits, loudly |

use gate::policy::Profile;
use serde::{Deserialize, Serialize};

/// One configuration that a profile refuses.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// The agent's uid is of a range that others hand out.
    AgentUidReserved,
    /// The agent is root.
    AgentUidRoot,
    /// Another process has the agent's uid.
    AgentUidShared,
    /// A capability is left to the agent.
    CapabilityLeft,
    /// There is no cgroup2 for the session.
    Cgroup2Missing,
    /// A container engine's socket can be reached.
    ContainerSocket,
    /// The agent may write core files.
    CoreDumpAllowed,
    /// Others than root may read a credential's file.
    CredentialReadable,
    /// A session would be shown a credential's file or Custody's own folders.
    CredentialShown,
    /// A process traces custodyd.
    CustodydTraced,
    /// A D-Bus socket can be reached.
    DbusSocket,
    /// An X11 or Wayland socket can be reached.
    DisplaySocket,
    /// The command's environment holds a credential.
    EnvironmentCredential,
    /// The agent has a descriptor besides its standard streams.
    ExtraDescriptor,
    /// The agent is in the host's network namespace.
    HostNetwork,
    /// The agent may make rings.
    IoUringAllowed,
    /// A socket of ssh-agent or gpg-agent can be reached.
    KeyAgentSocket,
    /// The kernel has no Landlock, or an old one.
    LandlockMissing,
    /// The agent may gain privileges by executing.
    NewPrivileges,
    /// The kernel is older than Linux 6.12.
    OldKernel,
    /// The kernel hands core files to a program of the host.
    PipedCorePattern,
    /// The agent has no system call filter.
    SeccompMissing,
    /// A mount of the session honours setuid files and file capabilities.
    SetuidHonoured,
    /// The agent shares a namespace with the host.
    SharedNamespace,
    /// A standard stream of the agent is a socket.
    SocketStdio,
    /// A socket of systemd can be reached.
    SystemdSocket,
    /// A socket of tmux or screen can be reached.
    TerminalSocket,
    /// The vault's memory can be read by others of its uid.
    VaultDumpable,
    /// A process traces the vault.
    VaultTraced,
    /// A credential lies in the workspace.
    WorkspaceCredential,
    /// A FIFO lies in the workspace.
    WorkspaceFifo,
    /// The workspace holds or lies in a place of Custody's own.
    WorkspaceHoldsState,
    /// A socket lies in the workspace.
    WorkspaceSocket,
    /// The agent sees a bpffs that it could write.
    WritableBpffs,
    /// The agent sees a cgroupfs that it could write.
    WritableCgroupfs,
}

impl Refused {
    /// Every one, in the order of their names.
    pub const ALL: [Self; 35] = [
        Self::AgentUidReserved,
        Self::AgentUidRoot,
        Self::AgentUidShared,
        Self::CapabilityLeft,
        Self::Cgroup2Missing,
        Self::ContainerSocket,
        Self::CoreDumpAllowed,
        Self::CredentialReadable,
        Self::CredentialShown,
        Self::CustodydTraced,
        Self::DbusSocket,
        Self::DisplaySocket,
        Self::EnvironmentCredential,
        Self::ExtraDescriptor,
        Self::HostNetwork,
        Self::IoUringAllowed,
        Self::KeyAgentSocket,
        Self::LandlockMissing,
        Self::NewPrivileges,
        Self::OldKernel,
        Self::PipedCorePattern,
        Self::SeccompMissing,
        Self::SetuidHonoured,
        Self::SharedNamespace,
        Self::SocketStdio,
        Self::SystemdSocket,
        Self::TerminalSocket,
        Self::VaultDumpable,
        Self::VaultTraced,
        Self::WorkspaceCredential,
        Self::WorkspaceFifo,
        Self::WorkspaceHoldsState,
        Self::WorkspaceSocket,
        Self::WritableBpffs,
        Self::WritableCgroupfs,
    ];

    /// Its name.
    pub const fn id(self) -> &'static str {
        match self {
            Self::AgentUidReserved => "agent_uid_reserved",
            Self::AgentUidRoot => "agent_uid_root",
            Self::AgentUidShared => "agent_uid_shared",
            Self::CapabilityLeft => "capability_left",
            Self::Cgroup2Missing => "cgroup2_missing",
            Self::ContainerSocket => "container_socket",
            Self::CoreDumpAllowed => "core_dump_allowed",
            Self::CredentialReadable => "credential_readable",
            Self::CredentialShown => "credential_shown",
            Self::CustodydTraced => "custodyd_traced",
            Self::DbusSocket => "dbus_socket",
            Self::DisplaySocket => "display_socket",
            Self::EnvironmentCredential => "environment_credential",
            Self::ExtraDescriptor => "extra_descriptor",
            Self::HostNetwork => "host_network",
            Self::IoUringAllowed => "io_uring_allowed",
            Self::KeyAgentSocket => "key_agent_socket",
            Self::LandlockMissing => "landlock_missing",
            Self::NewPrivileges => "new_privileges",
            Self::OldKernel => "old_kernel",
            Self::PipedCorePattern => "piped_core_pattern",
            Self::SeccompMissing => "seccomp_missing",
            Self::SetuidHonoured => "setuid_honoured",
            Self::SharedNamespace => "shared_namespace",
            Self::SocketStdio => "socket_stdio",
            Self::SystemdSocket => "systemd_socket",
            Self::TerminalSocket => "terminal_socket",
            Self::VaultDumpable => "vault_dumpable",
            Self::VaultTraced => "vault_traced",
            Self::WorkspaceCredential => "workspace_credential",
            Self::WorkspaceFifo => "workspace_fifo",
            Self::WorkspaceHoldsState => "workspace_holds_state",
            Self::WorkspaceSocket => "workspace_socket",
            Self::WritableBpffs => "writable_bpffs",
            Self::WritableCgroupfs => "writable_cgroupfs",
        }
    }

    /// The configuration of this name.
    pub fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.id() == id)
    }

    /// The same in words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AgentUidReserved => "the agent's uid is of a range that others hand out",
            Self::AgentUidRoot => "the agent is root",
            Self::AgentUidShared => "another process has the agent's uid",
            Self::CapabilityLeft => "a capability is left to the agent",
            Self::Cgroup2Missing => "there is no cgroup2 for the session",
            Self::ContainerSocket => "a container engine's socket can be reached",
            Self::CoreDumpAllowed => "the agent may write core files",
            Self::CredentialReadable => "others than root may read a credential's file",
            Self::CredentialShown => {
                "a session would be shown a credential's file or Custody's own folders"
            }
            Self::CustodydTraced => "a process traces custodyd",
            Self::DbusSocket => "a D-Bus socket can be reached",
            Self::DisplaySocket => "an X11 or Wayland socket can be reached",
            Self::EnvironmentCredential => "the command's environment holds a credential",
            Self::ExtraDescriptor => "the agent has a descriptor besides its standard streams",
            Self::HostNetwork => "the agent is in the host's network namespace",
            Self::IoUringAllowed => "the agent may make rings",
            Self::KeyAgentSocket => "a socket of ssh-agent or gpg-agent can be reached",
            Self::LandlockMissing => "the kernel has no Landlock, or an old one",
            Self::NewPrivileges => "the agent may gain privileges by executing",
            Self::OldKernel => "the kernel is older than Linux 6.12",
            Self::PipedCorePattern => "the kernel hands core files to a program of the host",
            Self::SeccompMissing => "the agent has no system call filter",
            Self::SetuidHonoured => {
                "a mount of the session honours setuid files and file capabilities"
            }
            Self::SharedNamespace => "the agent shares a namespace with the host",
            Self::SocketStdio => "a standard stream of the agent is a socket",
            Self::SystemdSocket => "a socket of systemd can be reached",
            Self::TerminalSocket => "a socket of tmux or screen can be reached",
            Self::VaultDumpable => "the vault's memory can be read by others of its uid",
            Self::VaultTraced => "a process traces the vault",
            Self::WorkspaceCredential => "a credential lies in the workspace",
            Self::WorkspaceFifo => "a FIFO lies in the workspace",
            Self::WorkspaceHoldsState => "the workspace holds or lies in a place of Custody's own",
            Self::WorkspaceSocket => "a socket lies in the workspace",
            Self::WritableBpffs => "the agent sees a bpffs that it could write",
            Self::WritableCgroupfs => "the agent sees a cgroupfs that it could write",
        }
    }

    /// What an operator can do about it.
    pub const fn what_to_do(self) -> &'static str {
        match self {
            Self::AgentUidReserved => {
                "choose `[uids.agents]` outside subuid(5), subgid(5) and systemd's ranges"
            }
            Self::AgentUidRoot => "install Custody again: its launcher does not give up root",
            Self::AgentUidShared => "end that process; nobody but custodyd may use `[uids.agents]`",
            Self::CapabilityLeft => {
                "install Custody again: its launcher does not give up its capabilities"
            }
            Self::Cgroup2Missing => {
                "mount one: `mount -t cgroup2 none /sys/fs/cgroup`, or set `paths.cgroup`"
            }
            Self::ContainerSocket
            | Self::DbusSocket
            | Self::DisplaySocket
            | Self::KeyAgentSocket
            | Self::SystemdSocket
            | Self::TerminalSocket => {
                "take the folder with the socket out of `mounts.read_only` and the workspace"
            }
            Self::CoreDumpAllowed => "install Custody again: its launcher sets RLIMIT_CORE to 1",
            Self::CredentialReadable => "`chmod 0600` the file and `chown root:root` it",
            Self::CredentialShown => "take that folder out of `mounts.read_only`",
            Self::CustodydTraced => {
                "end the debugger; `/proc/PID/status` of custodyd names it as TracerPid"
            }
            Self::EnvironmentCredential => {
                "take it out of `--env`; a credential belongs in the vault, and the policy says where it may go"
            }
            Self::ExtraDescriptor => {
                "install Custody again: its launcher does not close what it inherited"
            }
            Self::HostNetwork => {
                "install Custody again: the session has no network namespace of its own"
            }
            Self::IoUringAllowed => {
                "install Custody again, or set `sysctl kernel.io_uring_disabled=2`"
            }
            Self::LandlockMissing => {
                "build it in and name it in `lsm=` on the kernel's command line; Linux 6.12 or newer"
            }
            Self::NewPrivileges => "install Custody again: its launcher does not set no_new_privs",
            Self::OldKernel => "run Linux 6.12 or newer",
            Self::PipedCorePattern => {
                "`sysctl kernel.core_pattern=core`; `standard` does with a core limit of 1, which stops the pipe too (core(5))"
            }
            Self::SeccompMissing => {
                "use a kernel with CONFIG_SECCOMP_FILTER; otherwise install Custody again"
            }
            Self::SetuidHonoured => "install Custody again: its launcher mounts without `nosuid`",
            Self::SharedNamespace => {
                "install Custody again: the session has no namespaces of its own"
            }
            Self::SocketStdio => {
                "install Custody again: sessions get pipes or a pty, through a socket descriptors pass"
            }
            Self::VaultDumpable => "restart custodyd; a vault that stays dumpable is not ours",
            Self::VaultTraced => {
                "end the debugger; `/proc/PID/status` of custody-vault names it as TracerPid"
            }
            Self::WorkspaceCredential => {
                "move it out of the workspace; a credential belongs in the vault, and the policy says where it may go"
            }
            Self::WorkspaceFifo => {
                "remove it: whoever opens its other end speaks to the agent past the gate"
            }
            Self::WorkspaceHoldsState => "use another folder",
            Self::WorkspaceSocket => "remove it, or move it out of the workspace",
            Self::WritableBpffs | Self::WritableCgroupfs => {
                "install Custody again: sessions are shown none"
            }
        }
    }

    /// What custodyd cannot see when it looks for this.
    pub const fn blind_spot(self) -> &'static str {
        match self {
            Self::AgentUidReserved => {
                "ids that a container engine or a directory service hands out without an entry in subuid(5), subgid(5) or systemd's list"
            }
            Self::AgentUidRoot | Self::NewPrivileges => {
                "nothing: the kernel's own record of the process is read"
            }
            Self::AgentUidShared => {
                "processes that are not dumpable, and those that start after the check"
            }
            Self::CapabilityLeft => "nothing: all five sets of the process are read",
            Self::Cgroup2Missing => "a cgroup2 that somebody mounted over another",
            Self::ContainerSocket => {
                "engines whose socket has another name, and sockets bound in another network namespace under a folder that is shown"
            }
            Self::CoreDumpAllowed => {
                "a program that raises nothing above its own limit and writes its memory itself"
            }
            Self::CredentialReadable => {
                "copies of the file, and access control lists of file systems that keep them outside the mode"
            }
            Self::CredentialShown => "copies of the file, and other file systems that hold it",
            Self::CustodydTraced | Self::VaultTraced => {
                "a tracer that came and went between two looks, and one in the kernel"
            }
            Self::DbusSocket => "buses whose socket has another name",
            Self::DisplaySocket => "displays whose socket has another name",
            Self::EnvironmentCredential => {
                "credentials under names and in forms that are not listed, and those among the arguments"
            }
            Self::ExtraDescriptor => "what a descriptor that is there by right was before",
            Self::HostNetwork => "a network namespace of another program's that leads outside",
            Self::IoUringAllowed => {
                "what a filter that is there lets through: `custody doctor` tries it"
            }
            Self::KeyAgentSocket => "agents whose socket has another name",
            Self::LandlockMissing => {
                "a kernel that claims what it does not hold; `custody doctor` tries some of it"
            }
            Self::OldKernel => {
                "what a distribution took back into an older number, or left out of a newer one"
            }
            Self::PipedCorePattern => "a change of the setting while the session runs",
            Self::SeccompMissing => "what the filter lets through: `custody doctor` tries it",
            Self::SetuidHonoured => {
                "setuid files on mounts that are `nosuid`: those are shown and have no effect"
            }
            Self::SharedNamespace => {
                "a namespace that is shared with another program than custodyd"
            }
            Self::SocketStdio => "what the other end of a pipe does with what it reads",
            Self::SystemdSocket => "units whose socket has another name",
            Self::TerminalSocket => "multiplexers whose socket has another name",
            Self::VaultDumpable => "a moment between two looks; root, who may read any memory",
            Self::WorkspaceCredential => {
                "credentials under names and in forms that are not listed, beyond the first 65536 entries or 300 ms, or put there later"
            }
            Self::WorkspaceFifo => {
                "beyond the first 65536 entries or 300 ms, and FIFOs that are made later"
            }
            Self::WorkspaceHoldsState => "copies of it elsewhere",
            Self::WorkspaceSocket => {
                "beyond the first 65536 entries or 300 ms, and sockets that are made later"
            }
            Self::WritableBpffs => "bpffs that is mounted later",
            Self::WritableCgroupfs => {
                "cgroup folders that were given away to the agent's uid elsewhere"
            }
        }
    }

    /// Whether a session of this profile does not start under it.
    pub const fn is_refused_by(self, profile: Profile) -> bool {
        match self {
            // What it opens is closed all the same, by RLIMIT_CORE.
            Self::PipedCorePattern => matches!(profile, Profile::Hardened),
            // A developer may have these, and is told.
            Self::ContainerSocket
            | Self::CustodydTraced
            | Self::DbusSocket
            | Self::DisplaySocket
            | Self::EnvironmentCredential
            | Self::KeyAgentSocket
            | Self::SystemdSocket
            | Self::TerminalSocket
            | Self::WorkspaceCredential
            | Self::WorkspaceFifo
            | Self::WorkspaceSocket => !matches!(profile, Profile::Dev),
            Self::AgentUidReserved
            | Self::AgentUidRoot
            | Self::AgentUidShared
            | Self::CapabilityLeft
            | Self::Cgroup2Missing
            | Self::CoreDumpAllowed
            | Self::CredentialReadable
            | Self::CredentialShown
            | Self::ExtraDescriptor
            | Self::HostNetwork
            | Self::IoUringAllowed
            | Self::LandlockMissing
            | Self::NewPrivileges
            | Self::OldKernel
            | Self::SeccompMissing
            | Self::SetuidHonoured
            | Self::SharedNamespace
            | Self::SocketStdio
            | Self::VaultDumpable
            | Self::VaultTraced
            | Self::WorkspaceHoldsState
            | Self::WritableBpffs
            | Self::WritableCgroupfs => true,
        }
    }

    /// The profiles that refuse it.
    pub fn refused_by(self) -> impl Iterator<Item = Profile> {
        Profile::ALL
            .into_iter()
            .filter(move |profile| self.is_refused_by(*profile))
    }

    /// The profiles that permit it.
    pub fn permitted_by(self) -> impl Iterator<Item = Profile> {
        Profile::ALL
            .into_iter()
            .filter(move |profile| !self.is_refused_by(*profile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found_again_and_no_two_are_the_same() {
        let names = Refused::ALL.map(Refused::id);
        assert!(names.is_sorted());
        for refused in Refused::ALL {
            assert_eq!(Refused::parse(refused.id()), Some(refused));
        }
    }

    #[test]
    fn a_stricter_profile_refuses_all_that_a_weaker_one_does_and_hardened_refuses_all() {
        for refused in Refused::ALL {
            assert!(refused.is_refused_by(Profile::Hardened), "{}", refused.id());
            for (weaker, stricter) in [
                (Profile::Dev, Profile::Standard),
                (Profile::Standard, Profile::Hardened),
            ] {
                assert!(
                    !refused.is_refused_by(weaker) || refused.is_refused_by(stricter),
                    "{}",
                    refused.id()
                );
            }
        }
    }
}

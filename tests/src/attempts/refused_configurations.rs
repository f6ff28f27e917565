//! Refused configurations (§12.3): the attempt that still reaches its effect where one is permitted.
//!
//! Those that a shipped profile permits run under it; the others under a plan that the suite hands to
//! custody-launch, or with nothing of ours around them. They have a runner of their own: none is an
//! [`Attempt`](super::Attempt), and none is a row of the suite.

use custody_wire::{layer::Layer, refused::Refused};

use crate::refused::{permitted, served};

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub struct Permitted {
    /// `refused/name`, stable.
    pub id: &'static str,
    /// What is permitted.
    pub which: Refused,
    /// Under what.
    pub under: Under,
    /// The layer that still refuses the effect in that profile: what `reach` then shows is that the
    /// session starts, that the layer says no, and that without it the effect is reached.
    pub held_by: Option<Layer>,
    /// The question it asks, in one sentence.
    pub question: &'static str,
    /// Reaches the effect, or shows who still refuses it, and says how that was seen.
    pub reach: fn() -> anyhow::Result<String>,
}

/// What an attempt runs under.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Under {
    /// Nothing of ours.
    Bare,
    /// The profile `dev`, through the real service.
    Dev,
    /// A plan that the suite hands to custody-launch.
    Plan,
}

impl Under {
    /// Its name in `fixtures/refused.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Dev => "dev",
            Self::Plan => "plan",
        }
    }
}

/// The attempt of one.
pub fn of(which: Refused) -> Option<&'static Permitted> {
    ALL.iter().find(|attempt| attempt.which == which)
}

/// Every one, in the order of their names.
pub const ALL: &[Permitted] = &[
    Permitted {
        id: "refused/agent-uid-reserved",
        which: Refused::AgentUidReserved,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent with a uid of systemd's range read that user's file?",
        reach: permitted::others_file,
    },
    Permitted {
        id: "refused/agent-uid-root",
        which: Refused::AgentUidRoot,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent that is root read a file of root's alone?",
        reach: permitted::roots_file,
    },
    Permitted {
        id: "refused/agent-uid-shared",
        which: Refused::AgentUidShared,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent read the environment of a process with its uid?",
        reach: permitted::environment_of_a_twin,
    },
    Permitted {
        id: "refused/capability-left",
        which: Refused::CapabilityLeft,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent with capabilities read another's file?",
        reach: permitted::file_by_capability,
    },
    Permitted {
        id: "refused/cgroup2-missing",
        which: Refused::Cgroup2Missing,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent without hooks on its cgroup connect over TCP?",
        reach: permitted::tcp,
    },
    Permitted {
        id: "refused/container-socket",
        which: Refused::ContainerSocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent that is shown a container engine's socket speak to it?",
        reach: || served::shown_socket(Refused::ContainerSocket),
    },
    Permitted {
        id: "refused/core-dump-allowed",
        which: Refused::CoreDumpAllowed,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent leave its memory in a core file?",
        reach: permitted::core_file,
    },
    Permitted {
        id: "refused/credential-readable",
        which: Refused::CredentialReadable,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent that sees the host's files read a credential that everyone may?",
        reach: permitted::open_credential,
    },
    Permitted {
        id: "refused/credential-shown",
        which: Refused::CredentialShown,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent that is shown the credential's file read it?",
        reach: permitted::shown_credential,
    },
    Permitted {
        id: "refused/custodyd-traced",
        which: Refused::CustodydTraced,
        under: Under::Dev,
        held_by: None,
        question: "Can a tracer read what passes through custodyd?",
        reach: permitted::custodyd_by_tracer,
    },
    Permitted {
        id: "refused/dbus-socket",
        which: Refused::DbusSocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent that is shown a D-Bus socket speak to it?",
        reach: || served::shown_socket(Refused::DbusSocket),
    },
    Permitted {
        id: "refused/display-socket",
        which: Refused::DisplaySocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent that is shown an X11 socket speak to it?",
        reach: || served::shown_socket(Refused::DisplaySocket),
    },
    Permitted {
        id: "refused/environment-credential",
        which: Refused::EnvironmentCredential,
        under: Under::Dev,
        held_by: None,
        question: "Can an agent read a credential in its environment?",
        reach: permitted::environment,
    },
    Permitted {
        id: "refused/extra-descriptor",
        which: Refused::ExtraDescriptor,
        under: Under::Bare,
        held_by: None,
        question: "Can a command read an open file of its caller's besides its standard streams?",
        reach: permitted::open_descriptor,
    },
    Permitted {
        id: "refused/host-network",
        which: Refused::HostNetwork,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent in the host's network namespace connect to an abstract name?",
        reach: permitted::abstract_name,
    },
    Permitted {
        id: "refused/io-uring-allowed",
        which: Refused::IoUringAllowed,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent without a filter make a ring?",
        reach: permitted::ring,
    },
    Permitted {
        id: "refused/key-agent-socket",
        which: Refused::KeyAgentSocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent that is shown a socket of gpg-agent speak to it?",
        reach: || served::shown_socket(Refused::KeyAgentSocket),
    },
    Permitted {
        id: "refused/landlock-missing",
        which: Refused::LandlockMissing,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent without Landlock's scopes end a process outside?",
        reach: permitted::signal,
    },
    Permitted {
        id: "refused/new-privileges",
        which: Refused::NewPrivileges,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent that may gain privileges read root's file through a setuid program?",
        reach: permitted::setuid_program,
    },
    Permitted {
        id: "refused/old-kernel",
        which: Refused::OldKernel,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent without what Linux 6.12 brought connect to an abstract name?",
        reach: permitted::abstract_name,
    },
    Permitted {
        id: "refused/piped-core-pattern",
        which: Refused::PipedCorePattern,
        under: Under::Dev,
        held_by: Some(Layer::ResourceLimits),
        question: "Does the kernel run a program of the host's when an agent crashes?",
        reach: served::core_pipe,
    },
    Permitted {
        id: "refused/seccomp-missing",
        which: Refused::SeccompMissing,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent without a filter make a setuid file of the workspace's owner?",
        reach: permitted::setuid_bit,
    },
    Permitted {
        id: "refused/setuid-honoured",
        which: Refused::SetuidHonoured,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent on mounts that honour setuid files read root's file?",
        reach: permitted::setuid_mount,
    },
    Permitted {
        id: "refused/shared-namespace",
        which: Refused::SharedNamespace,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent in the host's mounts read a file that everyone may?",
        reach: permitted::open_file,
    },
    Permitted {
        id: "refused/socket-stdio",
        which: Refused::SocketStdio,
        under: Under::Bare,
        held_by: None,
        question: "Can a command speak to the other end of a socket that is its standard input?",
        reach: permitted::socket_stream,
    },
    Permitted {
        id: "refused/systemd-socket",
        which: Refused::SystemdSocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent that is shown a socket of systemd speak to it?",
        reach: || served::shown_socket(Refused::SystemdSocket),
    },
    Permitted {
        id: "refused/terminal-socket",
        which: Refused::TerminalSocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent that is shown a socket of tmux speak to it?",
        reach: || served::shown_socket(Refused::TerminalSocket),
    },
    Permitted {
        id: "refused/vault-dumpable",
        which: Refused::VaultDumpable,
        under: Under::Bare,
        held_by: None,
        question: "Can a process of the vault's uid read the memory of a vault that is dumpable?",
        reach: served::vault_by_its_uid,
    },
    Permitted {
        id: "refused/vault-traced",
        which: Refused::VaultTraced,
        under: Under::Bare,
        held_by: None,
        question: "Can a tracer read the vault's memory?",
        reach: served::vault_by_tracer,
    },
    Permitted {
        id: "refused/workspace-credential",
        which: Refused::WorkspaceCredential,
        under: Under::Dev,
        held_by: None,
        question: "Can an agent read a credential that lies in the workspace?",
        reach: permitted::workspace_credential,
    },
    Permitted {
        id: "refused/workspace-fifo",
        which: Refused::WorkspaceFifo,
        under: Under::Dev,
        held_by: None,
        question: "Can an agent speak to whoever has the other end of a FIFO in the workspace?",
        reach: permitted::workspace_fifo,
    },
    Permitted {
        id: "refused/workspace-holds-state",
        which: Refused::WorkspaceHoldsState,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent read what others may of a state that lies in its workspace?",
        reach: permitted::state_in_workspace,
    },
    Permitted {
        id: "refused/workspace-socket",
        which: Refused::WorkspaceSocket,
        under: Under::Dev,
        held_by: Some(Layer::CgroupUnix),
        question: "Can an agent speak to whoever listens at a socket in the workspace?",
        reach: served::workspace_socket,
    },
    Permitted {
        id: "refused/writable-bpffs",
        which: Refused::WritableBpffs,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent that sees the bpffs as root change what is pinned?",
        reach: permitted::bpffs,
    },
    Permitted {
        id: "refused/writable-cgroupfs",
        which: Refused::WritableCgroupfs,
        under: Under::Plan,
        held_by: None,
        question: "Can an agent that sees the cgroupfs as root make a cgroup?",
        reach: permitted::cgroupfs,
    },
];

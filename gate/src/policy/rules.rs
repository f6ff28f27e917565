//! What a policy says, in types.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    floor::Floor,
    id::{ArgumentName, CredentialLabel, OwnedName, ValueName},
    policy::Kind,
    request::Template,
};

/// What a session is made of.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRules {
    /// Resource limits.
    pub limits: SessionLimits,
    /// The layers that must hold.
    pub profile: Profile,
    /// Folders of the host that are shown read-only at the same place: absolute paths.
    pub read_only: Vec<String>,
    /// Whether a workspace taints the session.
    pub workspace: Label,
}

/// The set of layers that a session must have in full, and of configurations in which it does not
/// start; from the weakest to the strictest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// For a developer's own machine: named weaknesses, said aloud at every start.
    Dev,
    /// What a stock kernel of the floor gives without BPF LSM.
    Standard,
    /// Every layer of this version, and the most refused configurations.
    Hardened,
}

impl Profile {
    /// Every profile, from the weakest to the strictest.
    pub const ALL: [Self; 3] = [Self::Dev, Self::Standard, Self::Hardened];

    /// The profile's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Standard => "standard",
            Self::Hardened => "hardened",
        }
    }

    /// The profile of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.as_str() == name)
    }
}

/// Resource limits of a session (getrlimit(2), cgroups(7)).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    /// memory.max of its cgroup, in MiB.
    pub memory_mb: u32,
    /// RLIMIT_NOFILE.
    pub open_files: u32,
    /// RLIMIT_NPROC, and pids.max of its cgroup.
    pub processes: u32,
}

/// Whose words something is taken for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The operator vouches for it.
    Trusted,
    /// Anyone's: it taints the session.
    Untrusted,
}

/// A credential: how it is used, and where it may be sent. Its value is the vault's alone.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// What performs with it.
    pub connector: Connector,
    /// Where it may be sent.
    pub floor: Floor,
    /// How it is put into a request.
    pub placement: Placement,
}

/// What performs effects.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Connector {
    /// One HTTP request.
    Http,
}

/// How a credential is put into a request.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The header field, in lower case.
    pub header: String,
    /// What stands before the secret (`Bearer `).
    pub prefix: String,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its arguments.
    pub arguments: BTreeMap<ArgumentName, Argument>,
    /// The credential that it is performed with.
    pub credential: CredentialLabel,
    /// What it does, in the operator's words.
    pub description: String,
    /// What MCP clients are told.
    pub hints: Hints,
    /// Whether it may be repeated without another effect.
    pub idempotent: bool,
    /// Whether a tainted session may call it.
    pub on_taint: OnTaint,
    /// How a call becomes a request.
    pub request: Template,
    /// Whose words its result is taken for.
    pub result: Label,
    /// What is at stake.
    pub risk: Risk,
}

/// What is at stake when a tool is called.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Something is destroyed, or cannot be undone.
    Destructive,
    /// Code runs.
    Execute,
    /// Money moves.
    Financial,
    /// Nothing changes.
    Read,
    /// Something is made or changed.
    Write,
}

/// What a tainted session may do with a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTaint {
    /// Call it as if there were no taint; only for tools that read.
    Pass,
    /// Not call it.
    Refuse,
    /// Call it where every sink is a trusted value, injected or verified.
    TrustedSinks,
}

/// What MCP clients are told about a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// It may destroy something.
    pub destructive: bool,
    /// It may be repeated without another effect.
    pub idempotent: bool,
    /// It changes nothing.
    pub read_only: bool,
}

/// An argument of a tool.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Who may author it.
    pub authority: Authority,
    /// What it is for, in the operator's words.
    pub description: String,
    /// Its type and bounds.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whether a call may leave it out.
    pub optional: bool,
}

/// Who may author an argument. Whatever is not payload is a sink.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Authority {
    /// The application: its value is put in, and the agent does not see the argument.
    Injected {
        /// Which value.
        value: ValueName,
    },
    /// The agent chooses among what the application holds for the subject.
    Owned {
        /// The set.
        set: OwnedName,
    },
    /// The agent.
    Payload,
    /// The application: the call must carry exactly its value.
    Verified {
        /// Which value.
        value: ValueName,
    },
}

impl Authority {
    /// Whether the argument decides where an effect goes, rather than what is said there.
    pub const fn is_sink(&self) -> bool {
        match self {
            Self::Injected { .. } | Self::Owned { .. } | Self::Verified { .. } => true,
            Self::Payload => false,
        }
    }

    /// Whether the agent writes the argument into its call.
    pub const fn in_call(&self) -> bool {
        match self {
            Self::Injected { .. } => false,
            Self::Owned { .. } | Self::Payload | Self::Verified { .. } => true,
        }
    }
}

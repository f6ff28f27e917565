//! What a policy says, in types.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::{ActionClass, Risk};
use crate::{floor::Floor, id::TenantName};

/// What a session is made of.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRules {
    /// How far the subject's data reach; an application may say less for one session.
    pub boundary: Boundary,
    /// How long a held call waits for a person, in seconds; then it lapses.
    pub hold_seconds: u32,
    /// Resource limits.
    pub limits: SessionLimits,
    /// The layers that must hold.
    pub profile: Profile,
    /// The most bytes of text whose origin is remembered; beyond it the session takes no more calls.
    pub provenance_bytes: u64,
    /// Folders of the host that are shown read-only at the same place: absolute paths.
    pub read_only: Vec<String>,
    /// How long a deferred call waits for the end of its turn, in seconds; then it is refused.
    pub turn_seconds: u32,
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
    /// In whose name it acts; of no tenant where there is none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tenants: BTreeSet<TenantName>,
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

/// How far data reach, from the nearest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// The subject's own.
    User,
    /// Those of the subject's team.
    Team,
    /// Everyone's in the organisation.
    Organisation,
}

impl Boundary {
    /// Every one, the nearest first.
    pub const ALL: [Self; 3] = [Self::User, Self::Team, Self::Organisation];

    /// The boundary's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Team => "team",
            Self::Organisation => "organisation",
        }
    }
}

/// What a call that changes something needs after untrusted content, by its action classes.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WriteGate {
    /// What a gated call is answered.
    pub answer: Answer,
    /// Which classes are gated.
    pub classes: BTreeSet<ActionClass>,
    /// Whether the origin of a call's values can release it.
    pub mode: GateMode,
}

/// Whether the origin of a call's values can release it from the write gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateMode {
    /// A call whose values were looked at, and whose origins are accepted, is released; one that
    /// deletes or changes a membership only as its tool's `release` says.
    Selective,
    /// Nothing releases a gated call.
    Uniform,
}

/// What a call is answered that a rule catches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It waits for a person.
    Hold,
    /// It is refused, and no person can approve it.
    Refuse,
}

/// Which calls wait for a person, tainted session or not.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    /// By action class.
    pub classes: BTreeSet<ActionClass>,
    /// By risk.
    pub risks: BTreeSet<Risk>,
    /// Of these a reviewer signs each.
    #[serde(default, skip_serializing_if = "SignedFor::is_empty")]
    pub signature: SignedFor,
}

/// Which calls a reviewer signs, each alone.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignedFor {
    /// By action class.
    pub classes: BTreeSet<ActionClass>,
    /// By risk.
    pub risks: BTreeSet<Risk>,
}

impl SignedFor {
    fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.risks.is_empty()
    }
}

/// A closed catalogue: what an argument may name, and the value that stands for each name. A name is
/// looked up with blanks at its ends and case put aside, and nothing else.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Catalogue(pub BTreeMap<String, String>);

/// What a catalogue has for a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found<'a> {
    /// More than one value.
    Ambiguous,
    /// Nothing.
    Nothing,
    /// This.
    Value(&'a str),
}

impl Catalogue {
    /// Looks `name` up.
    pub fn find(&self, name: &str) -> Found<'_> {
        let fold = |text: &str| text.trim().to_lowercase();
        let wanted = fold(name);
        let mut found = Found::Nothing;
        for (name, value) in &self.0 {
            if fold(name) == wanted {
                match found {
                    Found::Value(other) if other != value => return Found::Ambiguous,
                    Found::Ambiguous | Found::Nothing | Found::Value(_) => {
                        found = Found::Value(value);
                    }
                }
            }
        }
        found
    }
}

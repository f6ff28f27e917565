//! The shape of the file: what serde reads, before anything is looked up.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use crate::{
    address::Addresses,
    floor::PathPattern,
    id::{ArgumentName, CredentialLabel, OwnedName, PolicyName, ToolName, ValueName},
    json::Value,
    policy::{Connector, Label, OnTaint, Profile, Risk},
    request::Method,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[expect(dead_code, reason = "read before, alone; here so that it is known")]
    pub(super) format: u32,
    pub(super) name: Option<PolicyName>,
    #[serde(default)]
    pub(super) session: Session,
    #[serde(default)]
    pub(super) values: BTreeMap<ValueName, Typed>,
    #[serde(default)]
    pub(super) owned: BTreeMap<OwnedName, Typed>,
    #[serde(default)]
    pub(super) credentials: BTreeMap<CredentialLabel, CredentialTable>,
    #[serde(default)]
    pub(super) tools: BTreeMap<ToolName, ToolTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Session {
    pub(super) profile: Profile,
    pub(super) network: String,
    pub(super) workspace: Label,
    pub(super) mounts: Mounts,
    pub(super) limits: LimitsTable,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            profile: Profile::Standard,
            network: "sealed".into(),
            workspace: Label::Untrusted,
            mounts: Mounts::default(),
            limits: LimitsTable::default(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Mounts {
    pub(super) read_only: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    pub(super) memory_mb: u32,
    pub(super) processes: u32,
    pub(super) open_files: u32,
}

impl Default for LimitsTable {
    fn default() -> Self {
        Self {
            // A build or a test run, and less than most hosts have; tmpfs is in it.
            memory_mb: 8192,
            // A build with a job per core and its compilers' threads.
            processes: 1024,
            // The soft limit that Linux gives by default.
            open_files: 1024,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialTable {
    pub(super) connector: Connector,
    #[serde(default)]
    pub(super) placement: PlacementTable,
    pub(super) floor: FloorTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlacementTable {
    pub(super) header: String,
    pub(super) prefix: String,
}

impl Default for PlacementTable {
    fn default() -> Self {
        Self {
            header: "authorization".into(),
            prefix: "Bearer ".into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FloorTable {
    #[serde(default = "public", deserialize_with = "one_or_many")]
    pub(super) addresses: Addresses,
    pub(super) methods: Vec<Method>,
    pub(super) origins: Vec<String>,
    pub(super) paths: Vec<PathPattern>,
}

const fn public() -> Addresses {
    Addresses::PUBLIC
}

/// `"public"`, or a list.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Addresses, D::Error> {
    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = Addresses;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"public\" or a list of networks")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Addresses, E> {
            Addresses::try_from(alloc::vec![String::from(text)]).map_err(E::custom)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Addresses, A::Error> {
            Addresses::deserialize(SeqAccessDeserializer::new(texts))
        }
    }

    deserializer.deserialize_any(Either)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolTable {
    pub(super) description: String,
    pub(super) credential: CredentialLabel,
    pub(super) risk: Risk,
    #[serde(default)]
    pub(super) idempotent: bool,
    #[serde(default = "untrusted")]
    pub(super) result: Label,
    #[serde(default = "refuse")]
    pub(super) on_taint: OnTaint,
    #[serde(default)]
    pub(super) hints: HintsTable,
    pub(super) request: RequestTable,
    #[serde(default)]
    pub(super) arguments: BTreeMap<ArgumentName, ArgumentTable>,
}

const fn untrusted() -> Label {
    Label::Untrusted
}

const fn refuse() -> OnTaint {
    OnTaint::Refuse
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HintsTable {
    pub(super) destructive: Option<bool>,
    pub(super) idempotent: Option<bool>,
    pub(super) read_only: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestTable {
    pub(super) method: Method,
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Option<Value>,
    #[serde(default = "timeout_ms")]
    pub(super) timeout_ms: u32,
    #[serde(default = "answer_max_bytes")]
    pub(super) answer_max_bytes: u32,
}

/// What an HTTP client that a person waits for gives up after.
const fn timeout_ms() -> u32 {
    30_000
}

/// A quarter of what reaches an agent at most.
const fn answer_max_bytes() -> u32 {
    256 << 10
}

/// A type and its bounds.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Typed {
    #[serde(rename = "type")]
    pub(super) kind: Option<KindName>,
    pub(super) max: Option<Value>,
    pub(super) max_length: Option<u32>,
    pub(super) min: Option<Value>,
    pub(super) min_length: Option<u32>,
    pub(super) one_of: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindName {
    Boolean,
    Email,
    Enum,
    Integer,
    Number,
    String,
}

/// An argument. The keys of [`Typed`] stand here again: a flattened struct would take unknown keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentTable {
    pub(super) authority: AuthorityName,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) optional: bool,
    pub(super) set: Option<OwnedName>,
    pub(super) sink: Option<bool>,
    pub(super) value: Option<ValueName>,

    #[serde(rename = "type")]
    pub(super) kind: Option<KindName>,
    pub(super) max: Option<Value>,
    pub(super) max_length: Option<u32>,
    pub(super) min: Option<Value>,
    pub(super) min_length: Option<u32>,
    pub(super) one_of: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthorityName {
    Injected,
    Owned,
    Payload,
    Verified,
}

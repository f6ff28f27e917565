//! The shape of the file: what serde reads, before anything is looked up.

mod argument;
mod tool;
mod verify;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

pub(super) use self::{
    argument::{ArgumentTable, AuthorityName, KindName, Typed},
    tool::{HintsTable, RequestTable, SelectorTable, ToolTable},
    verify::{PreconditionTable, ReadTable, VerifyTable, answer_max_bytes, status},
};
use crate::{
    address::Addresses,
    floor::PathPattern,
    id::{CatalogueName, CredentialLabel, OwnedName, PolicyName, TenantName, ToolName, ValueName},
    policy::{
        ActionClass, Answer, Boundary, Confirmation, Connector, GateMode, Label, Profile, Risk,
        SignedFor,
    },
    request::Method,
    session::RESOURCE,
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
    pub(super) catalogues: BTreeMap<CatalogueName, CatalogueTable>,
    #[serde(default)]
    pub(super) own: Own,
    #[serde(default)]
    pub(super) handoff: HandoffTable,
    #[serde(default)]
    pub(super) write_gate: WriteGateTable,
    #[serde(default)]
    pub(super) confirm: ConfirmTable,
    #[serde(default)]
    pub(super) rules: Option<RulesTable>,
    #[serde(default)]
    pub(super) credentials: BTreeMap<CredentialLabel, CredentialTable>,
    #[serde(default)]
    pub(super) tools: BTreeMap<ToolName, ToolTable>,
}

/// A closed catalogue: names that stand for themselves, or each for a value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogueTable {
    pub(super) members: Option<Vec<String>>,
    pub(super) entries: Option<BTreeMap<String, String>>,
}

/// Where the operator's own rules are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesTable {
    pub(super) cedar: String,
}

/// What another session passes on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HandoffTable {
    pub(super) resource: String,
}

impl Default for HandoffTable {
    fn default() -> Self {
        Self {
            resource: RESOURCE.into(),
        }
    }
}

/// What is the operator's own.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Own {
    pub(super) domains: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WriteGateTable {
    pub(super) mode: GateMode,
    pub(super) answer: Answer,
    pub(super) classes: BTreeSet<ActionClass>,
}

impl Default for WriteGateTable {
    fn default() -> Self {
        Self {
            mode: GateMode::Selective,
            answer: Answer::Hold,
            // Whatever changes something. `value_carrying` says how, and gates nothing.
            classes: ActionClass::ALL
                .into_iter()
                .filter(|it| *it != ActionClass::ValueCarrying)
                .collect(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfirmTable {
    pub(super) classes: BTreeSet<ActionClass>,
    pub(super) risks: BTreeSet<Risk>,
    pub(super) signature: SignedFor,
}

impl From<ConfirmTable> for Confirmation {
    fn from(table: ConfirmTable) -> Self {
        Self {
            classes: table.classes,
            risks: table.risks,
            signature: table.signature,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Session {
    pub(super) boundary: Boundary,
    pub(super) provenance_mb: u32,
    pub(super) hold_seconds: u32,
    pub(super) turn_seconds: u32,
    pub(super) profile: Profile,
    pub(super) network: String,
    pub(super) workspace: Label,
    pub(super) mounts: Mounts,
    pub(super) limits: LimitsTable,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            // Nothing of a policy that does not speak of boundaries is beyond it.
            boundary: Boundary::Organisation,
            // Some thousand pages of text.
            provenance_mb: 16,
            // As long as a person waits for an agent's turn, and an agent for a person.
            hold_seconds: 600,
            turn_seconds: 600,
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
    #[serde(default)]
    pub(super) tenants: BTreeSet<TenantName>,
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

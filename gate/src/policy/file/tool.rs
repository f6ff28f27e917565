//! The shape of a tool.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, MapAccess, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
};

use super::{ArgumentTable, PreconditionTable, VerifyTable};
use crate::{
    id::{ArgumentName, CredentialLabel, RoleName},
    json::Value,
    policy::{
        ActionClass, Boundary, Commit, Confirm, FieldLabel, Label, MeaningRules, OnTaint, Pointer,
        Rate, Recipients, Release, Risk,
    },
    request::Method,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ToolTable {
    #[serde(default)]
    pub(in crate::policy) action_classes: BTreeSet<ActionClass>,
    #[serde(default)]
    pub(in crate::policy) asked_by: Vec<Vec<String>>,
    #[serde(default = "user")]
    pub(in crate::policy) boundary: Boundary,
    #[serde(default = "at_once")]
    pub(in crate::policy) commit: Commit,
    #[serde(default)]
    pub(in crate::policy) computed: ComputedTable,
    #[serde(default = "never")]
    pub(in crate::policy) confirm: Confirm,
    pub(in crate::policy) description: String,
    pub(in crate::policy) credential: CredentialLabel,
    pub(in crate::policy) risk: Risk,
    #[serde(default)]
    pub(in crate::policy) idempotency_key: bool,
    #[serde(default)]
    pub(in crate::policy) idempotent: bool,
    pub(in crate::policy) meaning: Option<MeaningRules>,
    #[serde(default)]
    pub(in crate::policy) result: ResultTable,
    #[serde(default = "refuse")]
    pub(in crate::policy) on_taint: OnTaint,
    pub(in crate::policy) rate: Option<Rate>,
    #[serde(default = "anyone")]
    pub(in crate::policy) recipients: Recipients,
    #[serde(default = "unreleased")]
    pub(in crate::policy) release: Release,
    pub(in crate::policy) roles: Option<BTreeSet<RoleName>>,
    pub(in crate::policy) selector: Option<SelectorTable>,
    #[serde(default)]
    pub(in crate::policy) total: TotalTable,
    #[serde(default)]
    pub(in crate::policy) hints: HintsTable,
    pub(in crate::policy) precondition: Option<PreconditionTable>,
    pub(in crate::policy) request: RequestTable,
    pub(in crate::policy) verify: Option<VerifyTable>,
    #[serde(default)]
    pub(in crate::policy) arguments: BTreeMap<ArgumentName, ArgumentTable>,
}

const fn user() -> Boundary {
    Boundary::User
}

const fn at_once() -> Commit {
    Commit::AtOnce
}

const fn never() -> Confirm {
    Confirm::Never
}

const fn anyone() -> Recipients {
    Recipients::Any
}

const fn unreleased() -> Release {
    Release::Never
}

const fn refuse() -> OnTaint {
    OnTaint::Refuse
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct ComputedTable {
    pub(in crate::policy) bulk: BTreeMap<ArgumentName, u32>,
    pub(in crate::policy) external: BTreeSet<ArgumentName>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct TotalTable {
    pub(in crate::policy) calls: Option<u32>,
    pub(in crate::policy) sums: BTreeMap<ArgumentName, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct SelectorTable {
    pub(in crate::policy) argument: ArgumentName,
    pub(in crate::policy) cases: BTreeMap<String, BranchTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct BranchTable {
    #[serde(default)]
    pub(in crate::policy) action_classes: BTreeSet<ActionClass>,
    pub(in crate::policy) arguments: BTreeSet<ArgumentName>,
    pub(in crate::policy) risk: Risk,
}

/// What is known of a result: a label alone, or a table.
pub(in crate::policy) struct ResultTable {
    pub(in crate::policy) fields: BTreeMap<Pointer, FieldLabel>,
    pub(in crate::policy) handoff: bool,
    pub(in crate::policy) label: Label,
    pub(in crate::policy) records: BTreeMap<Pointer, u32>,
    pub(in crate::policy) redact: Vec<Pointer>,
}

impl From<Label> for ResultTable {
    fn from(label: Label) -> Self {
        Self {
            fields: BTreeMap::new(),
            handoff: false,
            label,
            records: BTreeMap::new(),
            redact: Vec::new(),
        }
    }
}

impl Default for ResultTable {
    fn default() -> Self {
        Label::Untrusted.into()
    }
}

impl<'de> Deserialize<'de> for ResultTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Whole {
            #[serde(default)]
            fields: BTreeMap<Pointer, FieldLabel>,
            #[serde(default)]
            handoff: bool,
            #[serde(default = "untrusted")]
            label: Label,
            #[serde(default)]
            records: BTreeMap<Pointer, u32>,
            #[serde(default)]
            redact: Vec<Pointer>,
        }

        const fn untrusted() -> Label {
            Label::Untrusted
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = ResultTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"untrusted\", \"trusted\" or a table")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ResultTable, E> {
                Label::deserialize(StrDeserializer::new(text)).map(ResultTable::from)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ResultTable, A::Error> {
                let whole = Whole::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ResultTable {
                    fields: whole.fields,
                    handoff: whole.handoff,
                    label: whole.label,
                    records: whole.records,
                    redact: whole.redact,
                })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct HintsTable {
    pub(in crate::policy) destructive: Option<bool>,
    pub(in crate::policy) idempotent: Option<bool>,
    pub(in crate::policy) read_only: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RequestTable {
    pub(in crate::policy) method: Method,
    pub(in crate::policy) url: String,
    #[serde(default)]
    pub(in crate::policy) headers: BTreeMap<String, String>,
    pub(in crate::policy) body: Option<Value>,
    #[serde(default = "timeout_ms")]
    pub(in crate::policy) timeout_ms: u32,
    #[serde(default = "answer_max_bytes")]
    pub(in crate::policy) answer_max_bytes: u32,
    #[serde(default)]
    pub(in crate::policy) stream: bool,
}

/// What an HTTP client that a person waits for gives up after.
const fn timeout_ms() -> u32 {
    30_000
}

/// A quarter of what reaches an agent at most.
const fn answer_max_bytes() -> u32 {
    256 << 10
}

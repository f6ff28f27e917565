//! The policy: what tools there are, who may author each argument, where each credential may go.
mod check;
mod compile;
mod error;
mod file;
mod kind;
mod rules;
mod schema;

use alloc::{collections::BTreeMap, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    digest::{Digest, Domain},
    id::{CredentialLabel, OwnedName, PolicyName, ToolName, ValueName},
    json::{self, JsonError, Limits, Value},
};

use error::Fault;
pub use error::{CompiledError, PolicyError, Problem};
pub use kind::{Kind, Misfit};
pub use rules::{
    Argument, Authority, Connector, Credential, Hints, Label, OnTaint, Placement, Profile, Risk,
    SessionLimits, SessionRules, Tool,
};

/// The version of the format, of the file and of the compiled bytes.
pub const FORMAT: u32 = 1;

/// A policy, whole and consistent: every name in it names something, every request stands on its
/// credential's floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    bytes: Vec<u8>,
    hash: Digest,
    rules: Rules,
}

/// What stands in the compiled bytes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    credentials: BTreeMap<CredentialLabel, Credential>,
    format: u32,
    name: PolicyName,
    owned: BTreeMap<OwnedName, Kind>,
    session: SessionRules,
    tools: BTreeMap<ToolName, Tool>,
    values: BTreeMap<ValueName, Kind>,
}

impl Policy {
    /// Compiles the TOML of `NAME.toml`.
    ///
    /// # Errors
    /// When the text is not a policy; the error names line and key and says what to do.
    pub fn compile(name: &PolicyName, toml: &str) -> Result<Self, PolicyError> {
        compile::compile(name, toml)
    }

    /// Reads a compiled policy, and checks it as if it were just compiled.
    ///
    /// # Errors
    /// When `bytes` is not what [`Policy::to_bytes`] writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CompiledError> {
        // The format first, alone: a newer one may have another shape.
        let value = json::reparse(bytes, &Limits::POLICY)?;
        if let Value::Object(members) = &value
            && let Some(Value::Int(format)) = members.get("format")
            && format.get() != i64::from(FORMAT)
        {
            return Err(CompiledError::Format {
                found: format.get(),
            });
        }
        let rules: Rules = json::from_canonical(bytes, &Limits::POLICY)?;
        let policy = Self::checked(rules)?;
        // What the rules mean has one written form, and this is it.
        if policy.bytes == bytes {
            Ok(policy)
        } else {
            Err(CompiledError::Json(JsonError::NotCanonical))
        }
    }

    fn checked(rules: Rules) -> Result<Self, Fault> {
        let bytes = check::check(&rules)?;
        Ok(Self {
            hash: Digest::of(Domain::Policy, &bytes),
            bytes,
            rules,
        })
    }

    /// The compiled policy: its one RFC 8785 form.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// The policy's digest: what permits and records name.
    pub const fn hash(&self) -> Digest {
        self.hash
    }

    /// Its name.
    pub const fn name(&self) -> &PolicyName {
        &self.rules.name
    }

    /// Every tool, in the order of their names.
    pub const fn tools(&self) -> &BTreeMap<ToolName, Tool> {
        &self.rules.tools
    }

    /// The trusted values that a session may have, and their types.
    pub const fn values(&self) -> &BTreeMap<ValueName, Kind> {
        &self.rules.values
    }

    /// The owned sets that a session may have, and the type of their members.
    pub const fn owned(&self) -> &BTreeMap<OwnedName, Kind> {
        &self.rules.owned
    }

    /// Every credential, by label.
    pub const fn credentials(&self) -> &BTreeMap<CredentialLabel, Credential> {
        &self.rules.credentials
    }

    /// The credential with this label.
    pub fn credential(&self, label: &CredentialLabel) -> Option<&Credential> {
        self.rules.credentials.get(label)
    }

    /// What a session under this policy is made of.
    pub const fn session(&self) -> &SessionRules {
        &self.rules.session
    }

    /// The JSON Schema (2020-12) of the arguments that the agent may author, in RFC 8785 form;
    /// `None` if there is no such tool.
    pub fn input_schema(&self, tool: &ToolName) -> Option<Vec<u8>> {
        self.rules.tools.get(tool).map(schema::input_schema)
    }
}

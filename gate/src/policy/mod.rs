//! The policy: what tools there are, who may author each argument, where each credential may go.
//!
//! The operator writes `NAME.toml`; [`Policy::compile`] makes one value of it, whose RFC 8785 bytes
//! ([`Policy::to_bytes`]) and digest ([`Policy::hash`]) are what every program loads, permits and
//! records. Unknown keys are refused, at every level. A [`PolicyError`] names line and key and says
//! what to do.
//!
//! # The file
//!
//! ```toml
//! format = 1                  # of this file; another one is refused
//! name = "support"            # may be left out; otherwise the file's name
//!
//! [session]                   # each key may be left out; these are the defaults
//! profile = "standard"        # which layers must hold: "hardened", "standard", "dev"
//! network = "sealed"          # the only one in this version
//! workspace = "untrusted"     # or "trusted": you vouch for whatever lies in it
//! mounts.read_only = []       # absolute paths of the host, shown at the same place
//! limits.memory_mb = 8192     # memory.max of the session's cgroup, its tmpfs included
//! limits.processes = 1024     # RLIMIT_NPROC, and pids.max of the session's cgroup
//! limits.open_files = 1024    # RLIMIT_NOFILE
//!
//! [values.customer]           # a trusted value: the application gives it for each session
//! type = "email"
//!
//! [owned.pages]               # an owned set: what the application holds for the subject
//! type = "string"             # the type of each member
//! max_length = 64
//!
//! [credentials.support-api]   # a credential, by label; its value is the vault's alone
//! connector = "http"
//! placement.header = "authorization"      # the default
//! placement.prefix = "Bearer "            # the default
//!
//! [credentials.support-api.floor]         # where it may be sent, whoever asks
//! origins = ["https://api.example.test"]  # plain http only to loopback addresses
//! methods = ["GET", "POST"]
//! paths = ["/v1/messages", "/v1/pages/{}"] # {} is exactly one segment
//! addresses = "public"        # the default; or a list: ["127.0.0.1/32"], ["public", "10.1.0.0/16"]
//!
//! [tools.send_message]
//! description = "Sends a message to the customer."
//! credential = "support-api"
//! risk = "write"              # read, write, financial, destructive or execute
//! idempotent = false          # the default: no second try of anything that may have happened
//! result = "untrusted"        # the default: its results are anyone's words and taint the session
//! on_taint = "trusted_sinks"  # refuse (the default), trusted_sinks, or pass (risk "read" only)
//! hints.destructive = true    # for MCP clients; what risk and idempotent say by default
//!
//! [tools.send_message.request]
//! method = "POST"
//! url = "https://api.example.test/v1/messages?lang={lang}"   # the host is literal
//! headers.x-reason = "{lang}"
//! body = { to = "{to}", text = "{text}", from = "{from}", kind = "reply" }
//! timeout_ms = 30000          # the default
//! answer_max_bytes = 262144   # the default
//!
//! [tools.send_message.arguments.to]
//! authority = "verified"      # the call must carry exactly the value
//! value = "customer"
//! description = "The customer's address."
//!
//! [tools.send_message.arguments.text]
//! authority = "payload"       # the agent writes it
//! type = "string"
//! max_length = 4000
//!
//! [tools.send_message.arguments.lang]
//! authority = "payload"
//! type = "enum"
//! one_of = ["de", "en"]
//! optional = true
//!
//! [tools.send_message.arguments.from]
//! authority = "injected"      # put in by the gate; the agent does not see the argument
//! value = "customer"
//! ```
//!
//! # More
//!
//! Types, roles, origins, action classes, results, selectors and what a tainted session may do are on
//! the page `gate/docs/policy.md`, each with its default.
//!
//! # Templates
//!
//! `{argument}` stands for the argument's value. In a path it is one segment, or a part of one; in
//! a query one value; both are percent-encoded, and a value that could be more (`/`, `\`, `%`, `..`)
//! is refused. In a header it is visible ASCII. In the body a string that is exactly `"{argument}"`
//! takes the typed value; other strings are literal and have no braces. The body is sent in RFC
//! 8785 form as `application/json`. A query value, header or body member whose optional argument is
//! not in the call is left out.

mod check;
mod class;
mod compile;
mod error;
mod file;
mod kind;
mod labels;
mod locate;
mod lower;
mod meaning;
mod operator;
mod pattern;
mod precondition;
mod rules;
mod schema;
mod tool;
mod verify;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    digest::{Digest, Domain},
    id::{CatalogueName, CredentialLabel, OwnedName, PolicyName, ToolName, ValueName},
    json::{self, JsonError, Limits, Value},
};

pub(crate) use class::listed;
pub use class::{ActionClass, Computed};
use error::Fault;
pub use error::{CompiledError, PolicyError, Problem};
pub use kind::{Kind, Member, Misfit};
pub(crate) use labels::Place;
pub use labels::{FieldLabel, Pointer, PointerError, REDACTED, ResultRules, TakenOut};
pub use meaning::MeaningRules;
pub use operator::{OPERATOR_MAX, OperatorText};
pub use pattern::{Pattern, PatternError};
pub use precondition::Precondition;
pub use rules::{
    Answer, Boundary, Catalogue, Confirmation, Connector, Credential, Found, GateMode, Label,
    Placement, Profile, SessionLimits, SessionRules, SignedFor, WriteGate,
};
pub use tool::{
    Argument, Authority, Branch, Commit, Confirm, Hints, Links, OnTaint, OriginClass, Rate,
    Recipients, Release, Risk, Role, Selector, Tool, Total,
};
pub use verify::{Capture, Command, Look, Read, Verify};

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
    catalogues: BTreeMap<CatalogueName, Catalogue>,
    confirm: Confirmation,
    credentials: BTreeMap<CredentialLabel, Credential>,
    domains: BTreeSet<String>,
    format: u32,
    handoff: String,
    name: PolicyName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<OperatorText>,
    owned: BTreeMap<OwnedName, Kind>,
    session: SessionRules,
    tools: BTreeMap<ToolName, Tool>,
    values: BTreeMap<ValueName, Kind>,
    write_gate: WriteGate,
}

/// Reads a file that lies beside the policy, by its name; or says why it cannot.
pub type Beside<'a> = &'a dyn Fn(&str) -> Result<String, String>;

impl Policy {
    /// Compiles the TOML of `NAME.toml`, which names no other file.
    ///
    /// # Errors
    /// When the text is not a policy; the error names line and key and says what to do.
    pub fn compile(name: &PolicyName, toml: &str) -> Result<Self, PolicyError> {
        let alone = |_: &str| Err("nothing beside the policy is read here".into());
        compile::compile(name, toml, &alone)
    }

    /// Compiles the TOML of `NAME.toml`; what it names beside it is read with `beside`, and is part of
    /// the policy and of its digest.
    ///
    /// # Errors
    /// When the text is not a policy, or what it names cannot be read.
    pub fn compile_beside(
        name: &PolicyName,
        toml: &str,
        beside: Beside<'_>,
    ) -> Result<Self, PolicyError> {
        compile::compile(name, toml, beside)
    }

    /// Everything that is wrong with the TOML of `NAME.toml`, in the order of the text: what
    /// [`Policy::compile_beside`] says first, and what else there is, as far as it does not follow from that.
    /// Empty if it is a policy.
    pub fn faults(name: &PolicyName, toml: &str, beside: Beside<'_>) -> Vec<PolicyError> {
        compile::faults(name, toml, beside)
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

    /// The closed catalogues.
    pub const fn catalogues(&self) -> &BTreeMap<CatalogueName, Catalogue> {
        &self.rules.catalogues
    }

    /// Which calls wait for a person, tainted session or not.
    pub const fn confirmation(&self) -> &Confirmation {
        &self.rules.confirm
    }

    /// The operator's own domains, in lower case: what is beyond them is external.
    pub const fn domains(&self) -> &BTreeSet<String> {
        &self.rules.domains
    }

    /// The operator's own rules, as they are written, if there are some.
    pub const fn operator_rules(&self) -> Option<&OperatorText> {
        self.rules.operator.as_ref()
    }

    /// The key of a handoff's resource.
    pub fn handoff_resource(&self) -> &str {
        &self.rules.handoff
    }

    /// What a call that changes something needs after untrusted content.
    pub const fn write_gate(&self) -> &WriteGate {
        &self.rules.write_gate
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

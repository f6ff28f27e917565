//! What a policy says of a tool's meaning.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::id::{ArgumentName, OwnedName};

/// What a call of a tool means, and which of it has to be vouched for. What is left out is not asked.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeaningRules {
    /// What it brings about, in the operator's words: a permit and a reviewer's page say it.
    pub effect: String,
    /// The owned set that the resource is of: what the application holds for the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<OwnedName>,
    /// The argument that names the thing that the effect is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ArgumentName>,
    /// Whether the session is to be for a subject.
    #[serde(default)]
    pub subject: bool,
    /// Whether the session is to be in a tenant's name.
    #[serde(default)]
    pub tenant: bool,
    /// The argument that is to say the session's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_argument: Option<ArgumentName>,
    /// For how long the person's word, the task or the last message, is acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u32>,
}

impl MeaningRules {
    /// Whether a call needs a tenant.
    pub const fn wants_tenant(&self) -> bool {
        self.tenant || self.tenant_argument.is_some()
    }
}

//! Where recorded text came from.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    id::{ToolName, ValueName},
};

/// What brought a text into the session.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// An object that another session handed over.
    Handoff {
        /// Of its RFC 8785 form.
        digest: Digest,
    },
    /// A message over the control socket.
    Message {
        /// Of its bytes.
        digest: Digest,
    },
    /// What a tool answered.
    Result {
        /// Of the call that it answers.
        call: Digest,
        /// Of the result.
        digest: Digest,
        /// The tool.
        tool: ToolName,
    },
    /// What the person asked for.
    Task {
        /// Of its bytes.
        digest: Digest,
    },
    /// A trusted value of the application.
    Value {
        /// Its name in the policy.
        name: ValueName,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handoff { .. } => f.write_str("a handoff"),
            Self::Message { .. } => f.write_str("a message"),
            Self::Result { tool, .. } => write!(f, "a result of `{tool}`"),
            Self::Task { .. } => f.write_str("the task"),
            Self::Value { name } => write!(f, "the value `{name}`"),
        }
    }
}

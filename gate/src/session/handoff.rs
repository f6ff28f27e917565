//! A handoff: what another session, or an application, passes on of a task.
//!
//! An object with exactly four texts. However well it is formed it is somebody else's words: it
//! taints, and every field is untrusted, the claimed sender too.

use alloc::string::{String, ToString as _};

use crate::{excerpt::excerpt, json::Value};

/// The key of a handoff's resource, where the policy does not rename it.
pub const RESOURCE: &str = "page_id";

/// The keys that no policy renames.
const FIXED: [&str; 3] = ["from", "summary", "task"];

/// What was passed on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Handoff {
    value: Value,
}

/// Why a value is no handoff.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HandoffError {
    /// A field that a handoff has not.
    #[error("a handoff has no field `{field}`; it has exactly {wanted}")]
    Extra {
        /// The field.
        field: String,
        /// Those that it has.
        wanted: String,
    },
    /// A field that is not there.
    #[error("the handoff has no `{field}`; it has exactly {wanted}")]
    Missing {
        /// The field.
        field: String,
        /// Those that it has.
        wanted: String,
    },
    /// Not an object.
    #[error("a handoff is an object, not {found}")]
    Shape {
        /// What it is.
        found: &'static str,
    },
    /// A field that is no text.
    #[error("`{field}` of a handoff is text, not {found}")]
    Text {
        /// The field.
        field: String,
        /// What it is.
        found: &'static str,
    },
}

impl Handoff {
    /// Reads a handoff whose resource stands under `resource`.
    ///
    /// # Errors
    /// When a field is missing, is one too many, or is no text.
    pub fn read(value: &Value, resource: &str) -> Result<Self, HandoffError> {
        let Value::Object(members) = value else {
            return Err(HandoffError::Shape {
                found: value.kind(),
            });
        };
        let wanted = || {
            let [from, summary, task] = FIXED;
            alloc::format!("`{from}`, `{task}`, `{resource}` and `{summary}`, each a text")
        };
        for field in FIXED.into_iter().chain([resource]) {
            if !members.contains_key(field) {
                return Err(HandoffError::Missing {
                    field: field.to_string(),
                    wanted: wanted(),
                });
            }
        }
        for (field, value) in members {
            if field != resource && !FIXED.contains(&field.as_str()) {
                return Err(HandoffError::Extra {
                    field: excerpt(field),
                    wanted: wanted(),
                });
            }
            if !matches!(value, Value::Text(_)) {
                return Err(HandoffError::Text {
                    field: excerpt(field),
                    found: value.kind(),
                });
            }
        }
        Ok(Self {
            value: Value::Object(members.clone()),
        })
    }

    /// It, as a value.
    pub const fn value(&self) -> &Value {
        &self.value
    }
}

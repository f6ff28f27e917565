//! What an operator takes back: it crosses every border between him and the workers in this form.

use std::fmt;

use gate::id::{CredentialLabel, PolicyName, SessionId};
use serde::{Deserialize, Serialize};

/// What is revoked, for good.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
pub enum Revoked {
    /// A credential: no session uses it.
    Credential(CredentialLabel),
    /// A policy: its sessions end, and none starts.
    Policy(PolicyName),
    /// A session: it ends.
    Session(SessionId),
}

impl Revoked {
    /// Reads `KIND NAME`.
    ///
    /// # Errors
    /// When it is neither of these.
    pub fn parse(kind: &str, name: &str) -> Result<Self, String> {
        let why = |error: &dyn fmt::Display| error.to_string();
        match kind {
            "credential" => CredentialLabel::parse(name)
                .map(Self::Credential)
                .map_err(|error| why(&error)),
            "policy" => PolicyName::parse(name)
                .map(Self::Policy)
                .map_err(|error| why(&error)),
            "session" => SessionId::parse(name)
                .map(Self::Session)
                .map_err(|error| why(&error)),
            _ => Err(format!(
                "`{kind}` cannot be revoked; write `credential`, `policy` or `session`"
            )),
        }
    }
}

impl fmt::Display for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credential(label) => write!(f, "credential {label}"),
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::Session(id) => write!(f, "session {id}"),
        }
    }
}

//! `custody doctor`: what a throwaway session answered to a short set of attempts, and what custodyd
//! says of this host. The answers are the kernel's own; nothing is read from a plan.

use serde::{Deserialize, Serialize};

use crate::{layer, profile::Profile};

/// The file in a session's folder that tries the attempts and prints them, one a line.
pub const PROGRAM: &str = "/run/custody/bin/custody-bridge";

/// Its argument.
pub const ARGUMENT: &str = "doctor";

/// What custodyd says: the answer to `custody doctor`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Host {
    /// What of this host is refused by some profile.
    pub findings: Vec<Finding>,
}

/// A refused configuration that was found.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Finding {
    /// Its name (`crate::refused`).
    pub id: String,
    /// Where, in a few words: at most [`FOUND_MAX`] bytes.
    pub found: String,
}

/// The most bytes that say where something was found.
pub const FOUND_MAX: usize = 512;

/// What one session of one profile said.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Tried {
    /// Its profile.
    pub profile: Profile,
    /// What each layer said.
    pub layers: Vec<layer::Report>,
    /// What each attempt answered.
    pub steps: Vec<Step>,
}

/// One attempt inside the session.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// errno(3), or none where it succeeded.
    pub errno: Option<i32>,
    /// Whether it should have been refused.
    pub refused: bool,
}

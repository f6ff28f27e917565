//! Evidence: the rows of a run, the register's half, and the status computed from both.
//!
//! **Invariant:** nothing here runs an attempt, and no status is written by hand.

pub mod ablation;
pub mod counts;
pub mod doors;
pub mod expected;
pub mod incidents;
pub mod mutants;
pub mod non_claims;
pub mod row;
pub mod status;
pub mod summary;
pub mod words;

use std::collections::BTreeMap;

use custody_wire::profile::Profile;
use serde::{Deserialize, Serialize};

use self::{
    ablation::Ablation,
    counts::Counts,
    doors::Doors,
    incidents::Replayed,
    non_claims::NonClaim,
    row::Row,
    status::{EStatus, RegisterHalf},
};
use crate::refused;

/// The version of the evidence's format.
pub const FORMAT: &str = "custody-evidence/2";

/// The file that a run of the suite leaves.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Evidence {
    /// [`FORMAT`].
    pub format: String,
    /// Where it ran, and which programs.
    pub host: Host,
    /// The profile of every session.
    pub profile: Profile,
    /// What each layer of the confined sessions said of itself.
    pub layers: Vec<LayerSaid>,
    /// The register's half; none if it was not checked.
    pub register: Option<RegisterHalf>,
    /// How much was tried.
    pub counts: Counts,
    /// Every attempt, in the order of the suite.
    pub attempts: Vec<Row>,
    /// Which layers refuse alone, and which stand alone.
    pub ablation: Ablation,
    /// Door, locks, attempt.
    pub doors: Doors,
    /// Published escapes, each with what came of its exact replay.
    pub incidents: Vec<Replayed>,
    /// Configurations in which an attempt succeeds, and which are refused.
    pub refused_configurations: Vec<refused::Row>,
    /// How much of the zone was watched, and what was not.
    pub observation: Vec<String>,
    /// The computed status of property E.
    pub e_status: EStatus,
    /// What is not claimed.
    pub non_claims: Vec<NonClaim>,
}

/// What one layer of a confined session said of itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LayerSaid {
    /// Which.
    pub layer: String,
    /// `full`, or what is missing.
    pub status: String,
}

/// Where a run took place.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Host {
    /// uname(2): system, release, machine.
    pub kernel: String,
    /// The security modules that are active.
    pub lsm: String,
    /// The service's version.
    pub version: String,
    /// When the run began, in milliseconds of Unix time.
    pub started_unix_ms: u64,
    /// Program name to SHA-256: the same files in every arm.
    pub programs: BTreeMap<String, String>,
    /// Hook of a session's cgroup to the kernel's digest of its program: the same loaded programs
    /// in every arm that keeps the hook's layer.
    pub hooks: BTreeMap<String, String>,
}

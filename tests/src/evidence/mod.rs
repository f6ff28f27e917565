//! Evidence: the rows of a run, the register's half, and the status computed from both.
//!
//! **Invariant:** nothing here runs an attempt, and no status is written by hand.

pub mod non_claims;
pub mod row;
pub mod status;
pub mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::{
    non_claims::NonClaim,
    row::{Expected, Row},
    status::{EStatus, RegisterHalf},
};

/// The version of the evidence's format.
pub const FORMAT: &str = "custody-evidence/1";

/// The file that a run of the suite leaves.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Evidence {
    /// [`FORMAT`].
    pub format: String,
    /// Where it ran, and which programs.
    pub host: Host,
    /// What each layer of the confined sessions said of itself.
    pub layers: Vec<LayerSaid>,
    /// The register's half; none if it was not checked.
    pub register: Option<RegisterHalf>,
    /// Every attempt, in the order of the suite.
    pub attempts: Vec<Row>,
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
}

/// What is expected, committed before the run.
const EXPECTED: &str = include_str!("../../../fixtures/expected-outcomes.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFile {
    format: String,
    rows: BTreeMap<String, Expected>,
}

/// Why the expected outcomes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpectedError {
    /// A format that this version does not know.
    #[error("expected outcomes have format `{found}`; this version reads custody-expected/1")]
    Format {
        /// The file's.
        found: String,
    },
    /// Not the JSON that we expect.
    #[error("the expected outcomes do not parse")]
    Parse(#[from] serde_json::Error),
}

/// The committed expectations, by row.
///
/// # Errors
/// When the file does not parse.
pub fn expected() -> Result<BTreeMap<String, Expected>, ExpectedError> {
    let file: ExpectedFile = serde_json::from_str(EXPECTED)?;
    if file.format == "custody-expected/1" {
        Ok(file.rows)
    } else {
        Err(ExpectedError::Format { found: file.format })
    }
}

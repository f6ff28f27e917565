//! What is expected of each row, committed before the run: a base, and what another profile or
//! kernel changes.
//!
//! ```json
//! {
//!   "format": "custody-expected/2",
//!   "rows": {
//!     "family/name": {
//!       "outcome": "refused",
//!       "layers": ["seccomp"],
//!       "single_legs": {"seccomp": "why no second layer can stand here"}
//!     }
//!   },
//!   "overrides": [
//!     {"profile": "hardened", "kernel": "6.12", "rows": {"family/name": {"single_legs": {}}}}
//!   ]
//! }
//! ```
//! Beside these, `idle` names promised layers that do not refuse there, and `permitted` says why what is
//! `reached` there is no gap of the attempt's own. The base is for profile `standard`. An override holds for its profile, from its kernel on, each
//! where it is given; what it does not name stays, and a later one wins.

use std::{collections::BTreeMap, fmt, str::FromStr};

use custody_wire::profile::Profile;
use serde::Deserialize;

use super::row::Expected;

/// The version of the file's format.
pub const FORMAT: &str = "custody-expected/2";

const FILE: &str = include_str!("../../../fixtures/expected-outcomes.json");

/// The committed expectations, by row.
pub type Rows = BTreeMap<String, Expected>;

/// Why the expected outcomes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpectedError {
    /// A format that this version does not know.
    #[error("expected outcomes have format `{found}`; this version reads {FORMAT}")]
    Format {
        /// The file's.
        found: String,
    },
    /// Not the JSON that we expect.
    #[error("the expected outcomes do not parse")]
    Parse(#[from] serde_json::Error),
    /// An override of a row that is not there.
    #[error("an override names the row `{row}`, of which nothing is expected")]
    Stray {
        /// The row's id.
        row: String,
    },
}

/// A kernel's version, as far as expectations need it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub struct Kernel {
    major: u32,
    minor: u32,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why a text is not a [`Kernel`].
#[derive(Debug, thiserror::Error)]
#[error("`{0}` does not begin with a kernel's version, as `6.12` does")]
pub struct KernelError(String);

impl FromStr for Kernel {
    type Err = KernelError;

    /// Reads `6.12` out of `6.12`, or of what uname(2) calls the release: `6.12.57+deb13-amd64`.
    fn from_str(text: &str) -> Result<Self, KernelError> {
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            (None | Some(_), _) => Err(KernelError(text.into())),
        }
    }
}

impl TryFrom<String> for Kernel {
    type Error = KernelError;

    fn try_from(text: String) -> Result<Self, KernelError> {
        text.parse()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    rows: Rows,
    #[serde(default)]
    overrides: Vec<Override>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    /// The profile that it holds for; every one if it is not given.
    profile: Option<Profile>,
    /// The kernel that it holds from; every one if it is not given.
    kernel: Option<Kernel>,
    rows: BTreeMap<String, Change>,
}

/// What changes in a row.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    outcome: Option<String>,
    layers: Option<Vec<String>>,
    single_legs: Option<BTreeMap<String, String>>,
    idle: Option<BTreeMap<String, String>>,
    permitted: Option<String>,
}

/// The committed expectations for one profile on one kernel.
///
/// # Errors
/// When the file cannot be used.
pub fn of(profile: Profile, kernel: Kernel) -> Result<Rows, ExpectedError> {
    read(FILE, profile, kernel)
}

fn read(text: &str, profile: Profile, kernel: Kernel) -> Result<Rows, ExpectedError> {
    let file: File = serde_json::from_str(text)?;
    if file.format != FORMAT {
        return Err(ExpectedError::Format { found: file.format });
    }
    let mut rows = file.rows;
    for change in file.overrides {
        let holds = change.profile.is_none_or(|it| it == profile)
            && change.kernel.is_none_or(|from| from <= kernel);
        for (id, change) in change.rows {
            // A stray name is a mistake under every profile.
            let Some(row) = rows.get_mut(&id) else {
                return Err(ExpectedError::Stray { row: id });
            };
            if holds {
                change.apply(row);
            }
        }
    }
    Ok(rows)
}

impl Change {
    fn apply(self, row: &mut Expected) {
        if let Some(outcome) = self.outcome {
            row.outcome = outcome;
        }
        if let Some(layers) = self.layers {
            row.layers = layers;
        }
        if let Some(legs) = self.single_legs {
            row.single_legs = legs;
        }
        if let Some(idle) = self.idle {
            row.idle = idle;
        }
        if self.permitted.is_some() {
            row.permitted = self.permitted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "format": "custody-expected/2",
        "rows": {"a/b": {"outcome": "refused", "layers": ["seccomp"],
                         "single_legs": {"seccomp": "nothing else sees it"}}},
        "overrides": [
            {"profile": "hardened", "rows": {"a/b": {"layers": ["bpf_lsm"], "single_legs": {}}}},
            {"kernel": "7.0", "rows": {"a/b": {"outcome": "reached", "layers": []}}}
        ]
    }"#;

    fn row(profile: Profile, kernel: &str) -> Expected {
        let rows = read(TEXT, profile, kernel.parse().unwrap()).unwrap();
        rows["a/b"].clone()
    }

    #[test]
    fn a_profile_and_a_kernel_change_what_they_name_and_nothing_else() {
        let base = row(Profile::Standard, "6.18.1-generic");
        assert_eq!(base.layers, ["seccomp"]);
        assert!(base.single_legs.contains_key("seccomp"));

        let hardened = row(Profile::Hardened, "6.12");
        assert_eq!(hardened.outcome, "refused");
        assert_eq!(hardened.layers, ["bpf_lsm"]);
        assert!(hardened.single_legs.is_empty());

        assert_eq!(row(Profile::Standard, "7.0.3").outcome, "reached");
        assert_eq!(row(Profile::Standard, "10.1").outcome, "reached");
    }

    #[test]
    fn an_override_of_no_row_and_an_older_format_are_refused() {
        let kernel = "6.12".parse().unwrap();
        let refused = |from: &str, to: &str| {
            let text = TEXT.replace(from, to);
            read(&text, Profile::Standard, kernel).unwrap_err()
        };
        let stray = refused(
            r#""profile": "hardened", "rows": {"a/b""#,
            r#""rows": {"c/d""#,
        );
        assert!(matches!(stray, ExpectedError::Stray { .. }), "{stray}");
        let older = refused("custody-expected/2", "custody-expected/1");
        assert!(matches!(older, ExpectedError::Format { .. }), "{older}");
    }

    #[test]
    fn a_kernel_is_read_out_of_its_release() {
        let kernel = |text: &str| text.parse::<Kernel>().map(|it| it.to_string());
        assert_eq!(kernel("6.12.57+deb13-amd64").unwrap(), "6.12");
        assert!(kernel("Linux").is_err());
        assert!(kernel("6").is_err());
    }
}

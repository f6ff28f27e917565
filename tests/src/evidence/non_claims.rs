//! What custody does not claim, from the one file that says it.

use serde::{Deserialize, Serialize};

/// The file, as it was when this was built.
const FILE: &str = include_str!("../../../fixtures/non-claims.toml");

/// One thing that is not claimed.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NonClaim {
    /// Its stable name.
    pub id: String,
    /// What is not claimed.
    pub what: String,
    /// Why not, or the test that shows it.
    pub because: String,
    /// The attempts that reach a protected effect there, outside the declared zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached_by: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    non_claim: Vec<NonClaim>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NonClaimsError {
    /// A format that this version does not know.
    #[error("non-claims have format {found}; this version reads format 1")]
    Format {
        /// The file's.
        found: u32,
    },
    /// Not the TOML that we expect.
    #[error("the non-claims do not parse")]
    Parse(#[from] toml::de::Error),
}

/// Every non-claim, in the order of the file.
///
/// # Errors
/// When the file does not parse.
pub fn all() -> Result<Vec<NonClaim>, NonClaimsError> {
    let file: File = toml::from_str(FILE)?;
    if file.format == 1 {
        Ok(file.non_claim)
    } else {
        Err(NonClaimsError::Format { found: file.format })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::attempts;

    #[test]
    fn what_is_reached_outside_the_declared_zone_is_not_claimed_and_nothing_else_says_so() {
        let all = all().unwrap();
        let named: Vec<&str> = all
            .iter()
            .flat_map(|claim| &claim.reached_by)
            .map(String::as_str)
            .collect();
        let beyond: BTreeSet<&str> = attempts::all()
            .into_iter()
            .filter(|attempt| attempt.known_gap.is_some() && attempt.beyond.is_some())
            .map(|attempt| attempt.id)
            .collect();
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), beyond);
        assert_eq!(named.len(), beyond.len(), "{named:?}");
    }

    #[test]
    fn every_non_claim_has_a_name_of_its_own_and_a_reason() {
        let all = all().unwrap();
        assert!(all.len() >= 10, "{}", all.len());
        let mut ids: Vec<_> = all.iter().map(|claim| &claim.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
        assert!(
            all.iter()
                .all(|c| !c.what.is_empty() && !c.because.is_empty())
        );
    }
}

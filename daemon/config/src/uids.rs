//! The reserved uids, and that nobody else has them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// `count` uids from `first`. A uid and the gid of the same number go together.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct UidRange {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl UidRange {
    /// The last uid, if the range is one.
    const fn last(self) -> Option<u32> {
        if self.count == 0 {
            None
        } else {
            self.first.checked_add(self.count - 1)
        }
    }

    /// Whether `uid` is in the range.
    pub const fn contains(self, uid: u32) -> bool {
        match self.last() {
            Some(last) => self.first <= uid && uid <= last,
            None => false,
        }
    }

    const fn overlaps(self, other: Self) -> bool {
        match (self.last(), other.last()) {
            (Some(last), Some(other_last)) => self.first <= other_last && other.first <= last,
            (None, _) | (_, None) => false,
        }
    }
}

/// The reserved ranges. The defaults lie above systemd's ranges (DynamicUser, nspawn and foreign
/// images end at 0x7FFF_FFFF only for the last; see systemd's UIDS-GIDS document) and below
/// 2^31, beyond which some file systems and tools go wrong.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Uids {
    /// One for each session's agent.
    pub agents: UidRange,
    /// One for each session's front.
    pub fronts: UidRange,
    /// One for each effect worker.
    pub workers: UidRange,
}

impl Default for Uids {
    fn default() -> Self {
        Self {
            agents: UidRange {
                first: 1_900_000_000,
                count: 65_535,
            },
            fronts: UidRange {
                first: 1_900_100_000,
                count: 65_535,
            },
            workers: UidRange {
                first: 1_900_200_000,
                count: 65_535,
            },
        }
    }
}

/// Ranges that others hand out (systemd's UIDS-GIDS document, "Special systemd UID ranges").
const TAKEN: [(&str, UidRange); 3] = [
    (
        "system and human users",
        UidRange {
            first: 0,
            count: 61_184,
        },
    ),
    (
        "systemd's DynamicUser",
        UidRange {
            first: 61_184,
            count: 4_352,
        },
    ),
    (
        "systemd-nspawn's containers",
        UidRange {
            first: 524_288,
            count: 1_879_048_191 - 524_288 + 1,
        },
    ),
];

/// Why the ranges cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UidRangeError {
    /// No uid in it, or beyond the last uid.
    #[error("range `{name}` is empty or ends beyond the last uid")]
    Empty {
        /// Which.
        name: &'static str,
    },
    /// It shares a uid with another.
    #[error("range `{name}` ({first}+{count}) overlaps {other}")]
    Overlap {
        /// Which.
        name: &'static str,
        /// Its first uid.
        first: u32,
        /// Its size.
        count: u32,
        /// With whose.
        other: String,
    },
    /// A subordinate id file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Uids {
    fn named(&self) -> [(&'static str, UidRange); 3] {
        [
            ("agents", self.agents),
            ("fronts", self.fronts),
            ("workers", self.workers),
        ]
    }

    /// Checks the ranges against each other and against what others hand out by rule.
    ///
    /// # Errors
    /// See [`UidRangeError`].
    pub fn check(&self) -> Result<(), UidRangeError> {
        let named = self.named();
        for (index, (name, range)) in named.iter().copied().enumerate() {
            if range.last().is_none_or(|last| last == u32::MAX) {
                return Err(UidRangeError::Empty { name });
            }
            let taken = TAKEN.iter().map(|(other, range)| (*other, *range));
            let earlier = named.iter().take(index).copied();
            if let Some((other, _)) = taken.chain(earlier).find(|(_, r)| range.overlaps(*r)) {
                return Err(overlap(name, range, other.into()));
            }
        }
        Ok(())
    }

    /// Checks the ranges against subuid(5) and subgid(5), which hand out ids for containers.
    ///
    /// # Errors
    /// See [`UidRangeError`].
    pub fn check_subordinate(&self, files: &[&Path]) -> Result<(), UidRangeError> {
        for path in files {
            let text = match fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => {
                    return Err(UidRangeError::Read {
                        path: (*path).into(),
                        source,
                    });
                }
            };
            for (owner, range) in text.lines().filter_map(subordinate) {
                if let Some((name, ours)) = self
                    .named()
                    .into_iter()
                    .find(|(_, ours)| ours.overlaps(range))
                {
                    return Err(overlap(
                        name,
                        ours,
                        format!("`{owner}` in `{}`", path.display()),
                    ));
                }
            }
        }
        Ok(())
    }
}

fn overlap(name: &'static str, range: UidRange, other: String) -> UidRangeError {
    UidRangeError::Overlap {
        name,
        first: range.first,
        count: range.count,
        other,
    }
}

/// A line of subuid(5): `owner:first:count`. A line that is not one hands out nothing.
fn subordinate(line: &str) -> Option<(&str, UidRange)> {
    let mut parts = line.trim().split(':');
    let owner = parts.next()?;
    let first = parts.next()?.parse().ok()?;
    let count = parts.next()?.parse().ok()?;
    Some((owner, UidRange { first, count }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_defaults_are_usable() {
        Uids::default().check().unwrap();
    }

    #[test]
    fn an_empty_range_is_refused() {
        let uids = Uids {
            agents: UidRange {
                first: 1_900_000_000,
                count: 0,
            },
            ..Uids::default()
        };
        assert!(matches!(
            uids.check(),
            Err(UidRangeError::Empty { name: "agents" })
        ));
    }

    #[test]
    fn ranges_that_meet_each_other_or_the_operators_own_are_refused() {
        let twins = Uids {
            fronts: Uids::default().agents,
            ..Uids::default()
        };
        assert!(matches!(
            twins.check(),
            Err(UidRangeError::Overlap { name: "fronts", .. })
        ));
        for first in [0, 1000, 61_184, 524_288] {
            let uids = Uids {
                agents: UidRange { first, count: 10 },
                ..Uids::default()
            };
            assert!(
                matches!(uids.check(), Err(UidRangeError::Overlap { .. })),
                "{first}"
            );
        }
    }

    #[test]
    fn a_range_that_subuid_hands_out_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "# comment\nalice:100000:65536").unwrap();
        Uids::default().check_subordinate(&[file.path()]).unwrap();
        writeln!(file, "bob:1900000100:10").unwrap();
        let error = Uids::default()
            .check_subordinate(&[file.path()])
            .unwrap_err();
        assert!(error.to_string().contains("`bob`"), "{error}");
    }
}

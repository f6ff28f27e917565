//! The command line of a service that keeps a chain: four folders, all of them needed.

use std::{ffi::OsString, path::PathBuf};

use custody_sys::path;

/// Where things are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Folders {
    /// Compiled policies: `NAME.policy`, root's.
    pub policies: PathBuf,
    /// This program's own state: the key of its chain.
    pub state: PathBuf,
    /// Its chain: decision records or chain.
    pub chain: PathBuf,
    /// Public keys, for everyone to read.
    pub public: PathBuf,
}

/// Why the command line is not one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FoldersError {
    /// A folder is not named.
    #[error("`{option}` is missing")]
    Missing {
        /// The option.
        option: &'static str,
    },
    /// The path is relative or has `.` or `..` in it.
    #[error("`{option}` needs a plain absolute path, not `{found}`")]
    NotAbsolute {
        /// The option.
        option: &'static str,
        /// What stands there.
        found: String,
    },
    /// A folder is named twice.
    #[error("`{option}` stands twice")]
    Twice {
        /// The option.
        option: &'static str,
    },
    /// No option of this program.
    #[error(
        "`{found}` is not an option; custodyd starts this program with --policies, --state, \
         --chain and --public"
    )]
    Unknown {
        /// What stands there.
        found: String,
    },
}

const OPTIONS: [&str; 4] = ["--policies", "--state", "--chain", "--public"];

impl Folders {
    /// Parses the arguments, the program's name left out.
    ///
    /// # Errors
    /// When an option is missing, unknown or twice, or its path is not plain and absolute.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, FoldersError> {
        let mut found: [Option<PathBuf>; 4] = [const { None }; 4];
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let slot = OPTIONS
                .iter()
                .zip(&mut found)
                .find(|(option, _)| argument == **option);
            let Some((option, place)) = slot else {
                return Err(FoldersError::Unknown {
                    found: argument.to_string_lossy().escape_debug().to_string(),
                });
            };
            let value = PathBuf::from(arguments.next().ok_or(FoldersError::Missing { option })?);
            if !path::is_plain_absolute(&value) {
                return Err(FoldersError::NotAbsolute {
                    option,
                    found: value.to_string_lossy().escape_debug().to_string(),
                });
            }
            if place.replace(value).is_some() {
                return Err(FoldersError::Twice { option });
            }
        }
        let [policies, state, chain, public] = found;
        let needed = |value: Option<PathBuf>, option| value.ok_or(FoldersError::Missing { option });
        Ok(Self {
            policies: needed(policies, "--policies")?,
            state: needed(state, "--state")?,
            chain: needed(chain, "--chain")?,
            public: needed(public, "--public")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Folders, FoldersError> {
        Folders::parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn all_four_folders_are_taken_in_any_order() {
        let args = parse("--public /d --state /b --policies /a --chain /c").unwrap();
        assert_eq!(args.policies, PathBuf::from("/a"));
        assert_eq!(args.state, PathBuf::from("/b"));
        assert_eq!(args.chain, PathBuf::from("/c"));
        assert_eq!(args.public, PathBuf::from("/d"));
    }

    #[test]
    fn a_missing_doubled_unknown_or_relative_option_is_refused() {
        let missing = |option| FoldersError::Missing { option };
        let relative = |found: &str| FoldersError::NotAbsolute {
            option: "--state",
            found: found.into(),
        };
        let unknown = FoldersError::Unknown {
            found: "--verbose".into(),
        };
        for (text, error) in [
            ("--public /d --state /b --policies /a", missing("--chain")),
            ("--public", missing("--public")),
            (
                "--state /b --state /b",
                FoldersError::Twice { option: "--state" },
            ),
            ("--verbose", unknown),
            ("--state b", relative("b")),
            ("--state /b/../c", relative("/b/../c")),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}

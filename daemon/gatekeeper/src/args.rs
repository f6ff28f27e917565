//! The command line: four folders, all of them needed.

use std::{ffi::OsString, path::PathBuf};

use custody_sys::path;

/// Where things are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Args {
    /// Compiled policies: `NAME.policy`, root's.
    pub policies: PathBuf,
    /// This program's own state: the key of the decision records.
    pub state: PathBuf,
    /// The chain of the decision records.
    pub decisions: PathBuf,
    /// Public keys, for everyone to read.
    pub public: PathBuf,
}

/// Why the command line is not one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ArgsError {
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
        "`{found}` is not an option; custodyd starts this program with --policies, --state, --decisions and --public"
    )]
    Unknown {
        /// What stands there.
        found: String,
    },
}

const OPTIONS: [&str; 4] = ["--policies", "--state", "--decisions", "--public"];

impl Args {
    /// Parses the arguments, the program's name left out.
    ///
    /// # Errors
    /// When an option is missing, unknown or twice, or its path is not plain and absolute.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ArgsError> {
        let mut found: [Option<PathBuf>; 4] = [const { None }; 4];
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let slot = OPTIONS
                .iter()
                .zip(&mut found)
                .find(|(option, _)| argument == **option);
            let Some((option, place)) = slot else {
                return Err(ArgsError::Unknown {
                    found: argument.to_string_lossy().escape_debug().to_string(),
                });
            };
            let value = PathBuf::from(arguments.next().ok_or(ArgsError::Missing { option })?);
            if !path::is_plain_absolute(&value) {
                return Err(ArgsError::NotAbsolute {
                    option,
                    found: value.to_string_lossy().escape_debug().to_string(),
                });
            }
            if place.replace(value).is_some() {
                return Err(ArgsError::Twice { option });
            }
        }
        let [policies, state, decisions, public] = found;
        let needed = |value: Option<PathBuf>, option| value.ok_or(ArgsError::Missing { option });
        Ok(Self {
            policies: needed(policies, "--policies")?,
            state: needed(state, "--state")?,
            decisions: needed(decisions, "--decisions")?,
            public: needed(public, "--public")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Args, ArgsError> {
        Args::parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn all_four_folders_in_any_order() {
        let args = parse("--public /d --state /b --policies /a --decisions /c").unwrap();
        assert_eq!(args.policies, PathBuf::from("/a"));
        assert_eq!(args.state, PathBuf::from("/b"));
        assert_eq!(args.decisions, PathBuf::from("/c"));
        assert_eq!(args.public, PathBuf::from("/d"));
    }

    #[test]
    fn a_missing_doubled_unknown_or_relative_option_is_refused() {
        for (text, error) in [
            (
                "--public /d --state /b --policies /a",
                ArgsError::Missing {
                    option: "--decisions",
                },
            ),
            ("--public", ArgsError::Missing { option: "--public" }),
            (
                "--state /b --state /b",
                ArgsError::Twice { option: "--state" },
            ),
            (
                "--verbose",
                ArgsError::Unknown {
                    found: "--verbose".into(),
                },
            ),
            (
                "--state b",
                ArgsError::NotAbsolute {
                    option: "--state",
                    found: "b".into(),
                },
            ),
            (
                "--state /b/../c",
                ArgsError::NotAbsolute {
                    option: "--state",
                    found: "/b/../c".into(),
                },
            ),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}

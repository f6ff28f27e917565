//! The file and its defaults.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use gate::id::CredentialLabel;
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    Access, Approvals, Notify, Page, Review, Uids,
    trust::{Untrusted, root_owned},
    uids::UidRangeError,
};

/// The version of the file's format.
const FORMAT: u32 = 1;

/// `custodyd.toml`, whole and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who may use which policy and set which values. Empty: root alone, everything.
    pub access: Vec<Access>,
    /// How often a person may be asked, and may say yes.
    pub approvals: Approvals,
    /// Where each credential lies.
    pub credentials: BTreeMap<CredentialLabel, CredentialSource>,
    /// The instance's key, if it has one.
    pub instance: Option<Instance>,
    /// How reviewers hear that a call waits.
    pub notify: Notify,
    /// What is observed beside denials.
    pub observation: Observation,
    /// The reviewers' page, if there is one.
    pub page: Option<Page>,
    /// Where things are.
    pub paths: Paths,
    /// Who may answer for which calls.
    pub review: Vec<Review>,
    /// The reserved uids.
    pub uids: Uids,
    /// The users that our services run as.
    pub users: Users,
}

/// Who vouches for the keys of the ledger.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Where the instance's private key lies: 32 bytes (RFC 8032, section 5.1.5).
    pub key: CredentialSource,
}

/// What is observed beside denials.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Observation {
    /// Count the system calls of each session. For evidence runs: it slows down every system call
    /// of the machine.
    pub syscalls: bool,
}

/// Where things are.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Paths {
    /// The cgroup2 folder under which custodyd makes its own; by default its own cgroup if that
    /// was delegated, otherwise the root of the cgroup2 hierarchy.
    pub cgroup: Option<PathBuf>,
    /// The policies, `NAME.toml` each.
    pub policies: PathBuf,
    /// Our programs; by default the folder that custodyd itself is in.
    pub programs: Option<PathBuf>,
    /// Reviewers' public keys, `NAME.pub` each, and the list of those that are `revoked`.
    pub reviewers: PathBuf,
    /// Sockets and compiled policies; gone after a reboot.
    pub runtime: PathBuf,
    /// The ledger and its public keys.
    pub state: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            cgroup: None,
            policies: "/etc/custody/policies".into(),
            programs: None,
            reviewers: "/etc/custody/reviewers".into(),
            runtime: "/run/custody".into(),
            state: "/var/lib/custody".into(),
        }
    }
}

/// The users that our services run as, by name or by number. A number needs no passwd entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Users {
    /// custody-control.
    pub control: String,
    /// custody-gate.
    pub gate: String,
    /// The resolver role of custody-effect.
    pub resolver: String,
    /// custody-review, where there is a page.
    pub review: String,
    /// custody-vault.
    pub vault: String,
}

impl Default for Users {
    fn default() -> Self {
        Self {
            control: "custody-control".into(),
            gate: "custody-gate".into(),
            resolver: "custody-resolver".into(),
            review: "custody-review".into(),
            vault: "custody-vault".into(),
        }
    }
}

/// Where one credential lies.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CredentialSource {
    /// A file that only root may read.
    File(PathBuf),
    /// A name in `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential=`, systemd.exec(5)).
    Systemd(String),
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A format that this version does not know.
    #[error("configuration `{path}` has format {found}; this version reads format {FORMAT}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Not the TOML that we expect.
    #[error("configuration `{path}` is invalid")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A path that is not absolute.
    #[error("configuration `{path}`: `{key}` must be an absolute path, not `{value}`")]
    Relative {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What it says.
        value: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read configuration `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A page that others than this host could reach.
    #[error(
        "configuration `{path}`: `page.listen` is {value}; it must be an address of the loopback and a port"
    )]
    Page {
        /// The file.
        path: PathBuf,
        /// What it says.
        value: std::net::SocketAddr,
    },
    /// Someone else than root may write it.
    #[error("configuration `{path}` is not trusted")]
    Trust {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Untrusted,
    },
    /// The uid ranges cannot be used.
    #[error("configuration `{path}`: uid ranges")]
    Uids {
        /// The file.
        path: PathBuf,
        /// Why.
        source: UidRangeError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "format")]
    _format: IgnoredAny, // read before, alone
    #[serde(default)]
    access: Vec<Access>,
    #[serde(default)]
    approvals: Approvals,
    #[serde(default)]
    credentials: BTreeMap<CredentialLabel, CredentialSource>,
    #[serde(default)]
    instance: Option<Instance>,
    #[serde(default)]
    notify: Notify,
    #[serde(default)]
    observation: Observation,
    #[serde(default)]
    page: Option<Page>,
    #[serde(default)]
    paths: Paths,
    #[serde(default)]
    review: Vec<Review>,
    #[serde(default)]
    uids: Uids,
    #[serde(default)]
    users: Users,
}

impl Config {
    /// Reads the file at `path`, which root alone may write.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let trust = |source| ConfigError::Trust {
            path: path.into(),
            source,
        };
        root_owned(path).map_err(trust)?;
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.into(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Parses `text`; `path` is for messages.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let parse = |source| ConfigError::Parse {
            path: path.into(),
            source: Box::new(source),
        };
        // The format first: a newer file is told from a misspelt one.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = toml::from_str(text).map_err(parse)?;
        if format != FORMAT {
            return Err(ConfigError::Format {
                path: path.into(),
                found: format,
            });
        }
        let File {
            _format: IgnoredAny,
            access,
            approvals,
            credentials,
            instance,
            notify,
            observation,
            page,
            paths,
            review,
            uids,
            users,
        } = toml::from_str(text).map_err(parse)?;
        uids.check().map_err(|source| ConfigError::Uids {
            path: path.into(),
            source,
        })?;
        if let Some(Page { listen: value }) =
            page.filter(|it| !it.listen.ip().is_loopback() || it.listen.port() == 0)
        {
            return Err(ConfigError::Page {
                path: path.into(),
                value,
            });
        }
        let program = notify.command.first().map(PathBuf::from);
        for (key, value) in [
            ("paths.policies", Some(&paths.policies)),
            ("paths.reviewers", Some(&paths.reviewers)),
            ("paths.runtime", Some(&paths.runtime)),
            ("paths.state", Some(&paths.state)),
            ("paths.cgroup", paths.cgroup.as_ref()),
            ("paths.programs", paths.programs.as_ref()),
            ("notify.command", program.as_ref()),
            ("notify.socket", notify.socket.as_ref()),
        ] {
            if let Some(value) = value.filter(|v| !v.is_absolute()) {
                return Err(ConfigError::Relative {
                    path: path.into(),
                    key,
                    value: value.clone(),
                });
            }
        }
        Ok(Self {
            access,
            approvals,
            credentials,
            instance,
            notify,
            observation,
            page,
            paths,
            review,
            uids,
            users,
        })
    }

    /// Where every secret of the configuration lies: the credentials, and the instance's key.
    pub fn secrets(&self) -> impl Iterator<Item = &CredentialSource> {
        let instance = self.instance.as_ref().map(|instance| &instance.key);
        self.credentials.values().chain(instance)
    }

    /// The embedded configuration: what the defaults say, no credential, root alone.
    pub fn embedded() -> Self {
        Self {
            access: Vec::new(),
            approvals: Approvals::default(),
            credentials: BTreeMap::new(),
            instance: None,
            notify: Notify::default(),
            observation: Observation::default(),
            page: None,
            paths: Paths::default(),
            review: Vec::new(),
            uids: Uids::default(),
            users: Users::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/etc/custody/custodyd.toml"), text)
    }

    #[test]
    fn the_shortest_file_is_the_embedded_configuration() {
        let config = parse("format = 1").unwrap();
        assert_eq!(format!("{config:?}"), format!("{:?}", Config::embedded()));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = parse("format = 1\ncredential = 1").unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("unknown field `credential`"), "{source}");
    }

    #[test]
    fn a_newer_format_is_refused_before_its_keys_are_looked_at() {
        let error = parse("format = 2\nnew = 'thing'").unwrap_err();
        assert!(
            matches!(error, ConfigError::Format { found: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_credential_lies_in_a_file_or_with_systemd() {
        let config =
            parse("format = 1\n[credentials]\na = { file = '/a' }\nb = { systemd = 'b' }").unwrap();
        assert_eq!(config.credentials.len(), 2);
        assert!(parse("format = 1\n[credentials]\na = { value = 'no' }").is_err());
    }

    #[test]
    fn a_rule_of_reviewers_names_its_policies_and_a_notifier_its_whole_path() {
        let config = parse(
            "format = 1\n[[review]]\nuids = [7]\npolicies = ['bank']\nseparate = true\n\
             [notify]\ncommand = ['/usr/bin/tell', 'me']\n[approvals]\nquestions_per_minute = 3",
        )
        .unwrap();
        assert!(config.review[0].separate);
        assert_eq!(config.notify.command[1], "me");
        assert_eq!(config.approvals.questions_per_minute, 3);
        assert_eq!(config.approvals.answers_per_minute, 30);
        for bad in [
            "format = 1\n[[review]]\nuids = [7]",
            "format = 1\n[[review]]\npolicies = ['bank']\nvalues = []",
            "format = 1\n[notify]\ncommand = ['tell']",
            "format = 1\n[notify]\nsocket = 'x.sock'",
            "format = 1\n[page]\nlisten = '0.0.0.0:7707'",
            "format = 1\n[page]\nlisten = '127.0.0.1:0'",
            "format = 1\n[page]\nlisten = '7707'",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_relative_path_is_refused() {
        let error = parse("format = 1\n[paths]\nstate = 'x'").unwrap_err();
        assert!(
            matches!(
                error,
                ConfigError::Relative {
                    key: "paths.state",
                    ..
                }
            ),
            "{error}"
        );
    }
}

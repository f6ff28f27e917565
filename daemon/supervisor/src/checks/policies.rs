//! Policies: compiled here, once; gate and vault read the compiled bytes.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use custody_config::{CredentialSource, Untrusted, root_owned};
use custody_wire::doctor;
use gate::{
    id::{CredentialLabel, NameError, PolicyName},
    policy::{Policy, PolicyError},
};

/// The policies by name.
pub type Policies = BTreeMap<PolicyName, Policy>;

/// The policy of an installation that has no policy folder: a confined session, and no tool.
const EMBEDDED: (&str, &str) = ("sealed", "format = 1\n");

/// The largest policy file.
const SIZE_MAX: u64 = 1 << 20;

/// Why policies cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    /// It names a credential that the configuration does not.
    #[error(
        "policy file `{path}` uses credential `{label}`, which the configuration does not have; \
         add it to `[credentials]`"
    )]
    Credential {
        /// The file.
        path: PathBuf,
        /// Which credential.
        label: CredentialLabel,
    },
    /// It does not compile.
    #[error("policy file `{path}`")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, key and reason.
        source: Box<PolicyError>,
    },
    /// A file `X.toml` whose X is no name.
    #[error("policy file `{path}` has a name that is no policy's")]
    Name {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NameError,
    },
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is too large.
    #[error("policy file `{path}` has {size} bytes; at most {SIZE_MAX} are allowed")]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// Others than root may change it.
    #[error("policy file `{path}` is not trusted")]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Untrusted,
    },
}

/// Compiles every `NAME.toml` in `folder`. Other files are not looked at. Where there is no
/// folder, the embedded policy stands alone.
///
/// # Errors
/// The first policy that cannot be used: a bad one stops the start.
pub fn compile(
    folder: &Path,
    credentials: &BTreeMap<CredentialLabel, CredentialSource>,
) -> Result<Policies, PoliciesError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| PoliciesError::Read { path, source }
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return embedded(folder),
        Err(source) => return Err(read(folder)(source)),
    };
    let mut policies = Policies::new();
    for entry in entries {
        let path = entry.map_err(read(folder))?.path();
        let is_policy = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        if !is_policy {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = PolicyName::parse(&stem).map_err(|source| PoliciesError::Name {
            path: path.clone(),
            source,
        })?;
        root_owned(&path).map_err(|source| PoliciesError::Untrusted {
            path: path.clone(),
            source,
        })?;
        let size = path.metadata().map_err(read(&path))?.len();
        if size > SIZE_MAX {
            return Err(PoliciesError::Size { path, size });
        }
        let text = fs::read_to_string(&path).map_err(read(&path))?;
        let policy = Policy::compile(&name, &text).map_err(|source| PoliciesError::Invalid {
            path: path.clone(),
            source: Box::new(source),
        })?;
        let missing = policy
            .credentials()
            .keys()
            .find(|label| !credentials.contains_key(*label));
        if let Some(label) = missing {
            return Err(PoliciesError::Credential {
                path,
                label: label.clone(),
            });
        }
        policies.insert(name, policy);
    }
    if policies.is_empty() {
        tracing::warn!(folder = %folder.display(), "no policy: no session can be started");
    }
    Ok(policies)
}

/// Adds the policy that `custody doctor` starts its sessions under.
///
/// # Errors
/// When it does not compile.
pub fn add_doctor(policies: &mut Policies) -> Result<(), PoliciesError> {
    let (name, policy) = built_in(doctor::POLICY, doctor::POLICY_TEXT)?;
    policies.insert(name, policy);
    Ok(())
}

fn embedded(folder: &Path) -> Result<Policies, PoliciesError> {
    let (name, text) = EMBEDDED;
    tracing::warn!(
        folder = %folder.display(),
        policy = name,
        "there is no policy folder; the embedded policy confines and gives no tool"
    );
    Ok(Policies::from([built_in(name, text)?]))
}

fn built_in(name: &str, text: &str) -> Result<(PolicyName, Policy), PoliciesError> {
    let path = PathBuf::from(format!("(embedded) {name}.toml"));
    let name = PolicyName::parse(name).map_err(|source| PoliciesError::Name {
        path: path.clone(),
        source,
    })?;
    let policy = Policy::compile(&name, text).map_err(|source| PoliciesError::Invalid {
        path,
        source: Box::new(source),
    })?;
    Ok((name, policy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn without_a_folder_there_is_one_policy_that_gives_no_tool() {
        let policies = compile(Path::new("/no/such/folder"), &BTreeMap::new()).unwrap();
        assert_eq!(policies.len(), 1);
        assert!(policies.values().all(|policy| policy.tools().is_empty()));
    }

    #[test]
    fn a_policy_that_others_may_write_or_that_does_not_parse_stops_the_start() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mail.toml");
        let write = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            compile(folder.path(), &BTreeMap::new())
        };
        assert_eq!(write("format = 1", 0o644).unwrap().len(), 1);
        assert!(matches!(
            write("format = 1", 0o666),
            Err(PoliciesError::Untrusted { .. })
        ));
        let error = write("format = 1\nunknown = 2", 0o644).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("line 2"), "{source}");
        assert!(source.contains("unknown"), "{source}");
    }
}

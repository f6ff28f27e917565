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
    policy::{Look, Policy, PolicyError},
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
    /// Rules that no policy names.
    #[error(
        "no policy names the rules in `{path}`, so nobody would ask them; write `[rules]` \
         `cedar = \"...\"` into a policy, or remove the file"
    )]
    Unnamed {
        /// The file.
        path: PathBuf,
    },
    /// Others than root may change a program that it names.
    #[error(
        "policy file `{path}` has effects verified by `{program}`, which is not trusted; name a program of \
         root's by the path that no link is in"
    )]
    Verifier {
        /// The file.
        path: PathBuf,
        /// The program.
        program: String,
        /// Why.
        source: Untrusted,
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

/// Compiles every `NAME.toml` in `folder`, with the rules that it names. A file of rules that none names
/// is an error; other files are not looked at. Where there is no
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
        let beside = |file: &str| rules_beside(folder, file);
        let compiled = Policy::compile_beside(&name, &text, &beside);
        let policy = compiled.map_err(|source| PoliciesError::Invalid {
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
        verifiers(&policy).map_err(|(program, source)| PoliciesError::Verifier {
            path,
            program,
            source,
        })?;
        policies.insert(name, policy);
    }
    unnamed(folder, &policies)?;
    if policies.is_empty() {
        tracing::warn!(folder = %folder.display(), "no policy: no session can be started");
    }
    Ok(policies)
}

/// What says of an effect that it is there is root's alone to change.
fn verifiers(policy: &Policy) -> Result<(), (String, Untrusted)> {
    for tool in policy.tools().values() {
        if let Some(Look::Command(command)) = tool.verify.as_ref().map(|it| &it.look)
            && let Some(program) = command.argv.first()
        {
            root_owned(Path::new(program)).map_err(|error| (program.clone(), error))?;
        }
    }
    Ok(())
}

/// The operator's rules in `folder`, which a policy names. They are carried, and read by the gate alone: root
/// has no use for what they say.
fn rules_beside(folder: &Path, file: &str) -> Result<String, String> {
    let path = folder.join(file);
    root_owned(&path).map_err(|error| error.to_string())?;
    let size = path.metadata().map_err(|error| error.to_string())?.len();
    if size > SIZE_MAX {
        return Err(format!(
            "it has {size} bytes; at most {SIZE_MAX} are allowed"
        ));
    }
    fs::read_to_string(&path).map_err(|error| error.to_string())
}

/// Rules that no policy names would be left out, and whoever wrote them believes otherwise.
fn unnamed(folder: &Path, policies: &Policies) -> Result<(), PoliciesError> {
    let named: Vec<&str> = policies
        .values()
        .filter_map(|it| it.operator_rules())
        .map(|it| it.file.as_str())
        .collect();
    let read = |source| PoliciesError::Read {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let rules = path.extension().is_some_and(|it| it == "cedar");
        let is_named = path
            .file_name()
            .is_some_and(|it| named.iter().any(|named| it == *named));
        if rules && !is_named {
            return Err(PoliciesError::Unnamed { path });
        }
    }
    Ok(())
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

    #[test]
    fn rules_are_carried_as_they_are_and_are_roots_alone_and_named() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            compile(folder.path(), &BTreeMap::new())
        };
        let rules = "no Cedar that anybody here reads";
        let error = write("mail.cedar", rules, 0o644).unwrap_err();
        assert!(matches!(error, PoliciesError::Unnamed { .. }), "{error}");
        let policy = "format = 1\n[rules]\ncedar = \"mail.cedar\"";
        let policies = write("mail.toml", policy, 0o644).unwrap();
        let carried = policies.values().next().unwrap().operator_rules().unwrap();
        assert_eq!(
            (carried.file.as_str(), carried.text.as_str()),
            ("mail.cedar", rules)
        );
        let hash = policies.values().next().unwrap().hash();
        let policies = write("mail.cedar", "other", 0o644).unwrap();
        assert_ne!(policies.values().next().unwrap().hash(), hash);
        let error = write("mail.cedar", rules, 0o666).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("mail.cedar"), "{source}");
        fs::remove_file(folder.path().join("mail.cedar")).unwrap();
        assert!(compile(folder.path(), &BTreeMap::new()).is_err());
    }
}

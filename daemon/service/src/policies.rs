//! The compiled policies: root's files, read once at the start.
//!
//! custodyd compiled them; a service reads only what custodyd left.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use custody_sys::path;
use gate::{
    id::PolicyName,
    json::Limits,
    policy::{CompiledError, Policy},
};
use nix::{fcntl::OFlag, sys::stat::Mode};

/// Why the policies could not be loaded. One bad file is enough: what custodyd compiled is whole.
#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    /// It does not parse.
    #[error("policy file `{path}` is not a compiled policy")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<CompiledError>,
    },
    /// It says that it is another policy.
    #[error("policy file `{path}` holds policy `{found}`")]
    Name {
        /// The file.
        path: PathBuf,
        /// The name inside.
        found: PolicyName,
    },
    /// A file or the folder cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// Which.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Others than root could have written it.
    #[error(
        "`{path}` belongs to uid {owner} with mode {mode:o}; it must be uid {expected}'s and \
         writable for nobody else"
    )]
    Untrusted {
        /// The file or the folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
        /// Who must own it.
        expected: u32,
    },
}

/// Loads every `NAME.policy` in `folder`. The folder and each file must be `owner`'s (root's,
/// outside of tests) and writable for nobody else. Other names are not looked at.
///
/// # Errors
/// See [`PoliciesError`].
pub fn load(folder: &Path, owner: u32) -> Result<BTreeMap<PolicyName, Policy>, PoliciesError> {
    let read = |source| PoliciesError::Read {
        path: folder.into(),
        source,
    };
    let at = path::open(folder, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(read)?;
    let at = File::from(at);
    trusted(&at, folder, owner)?;
    let mut policies = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let file_name = entry.map_err(read)?.file_name();
        let name = file_name
            .to_str()
            .and_then(|name| name.strip_suffix(".policy"))
            .and_then(|name| PolicyName::parse(name).ok());
        if let Some(name) = name {
            let policy = load_one(&at, folder, Path::new(&file_name), &name, owner)?;
            drop(policies.insert(name, policy));
        }
    }
    Ok(policies)
}

fn load_one(
    at: &File,
    folder: &Path,
    file_name: &Path,
    name: &PolicyName,
    owner: u32,
) -> Result<Policy, PoliciesError> {
    let path = folder.join(file_name);
    let read = |source| PoliciesError::Read {
        path: path.clone(),
        source,
    };
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
    let file = path::open_beneath(at, file_name, flags, Mode::empty()).map_err(read)?;
    let file = File::from(file);
    trusted(&file, &path, owner)?;
    let mut bytes = Vec::new();
    // One byte over the limit is enough for the parser to see it.
    let most = u64::try_from(Limits::POLICY.bytes).unwrap_or(u64::MAX);
    let _read = file
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(read)?;
    let policy = Policy::from_bytes(&bytes).map_err(|source| PoliciesError::Invalid {
        path: path.clone(),
        source: Box::new(source),
    })?;
    if policy.name() != name {
        return Err(PoliciesError::Name {
            path,
            found: policy.name().clone(),
        });
    }
    Ok(policy)
}

fn trusted(file: &File, path: &Path, expected: u32) -> Result<(), PoliciesError> {
    let about = file.metadata().map_err(|source| PoliciesError::Read {
        path: path.into(),
        source,
    })?;
    if about.uid() == expected && about.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(PoliciesError::Untrusted {
            path: path.into(),
            owner: about.uid(),
            mode: about.mode() & 0o7777,
            expected,
        })
    }
}

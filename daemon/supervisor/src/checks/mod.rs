//! What must hold before anything is started. Each check has an error that says what to do.
//!
//! | module | what |
//! |---|---|
//! | [`core_files`] | their limit can be what keeps a piped `core_pattern` from being run |
//! | [`credentials`] | each credential's file is root's alone; opened, never read |
//! | [`instance`] | the instance's key is root's alone, and a key |
//! | [`kernel`] | version, Landlock, seccomp, cgroup2 |
//! | [`policies`] | every policy compiles, and its credentials are configured |
//! | [`programs`] | our programs are there and root's |
//! | [`resolver`] | the host's name servers |
//! | [`reviewers`] | reviewers' public keys are root's to write; opened, never read |
//! | [`users`] | the users that services run as |

pub mod core_files;
pub mod credentials;
pub mod instance;
pub mod kernel;
pub mod policies;
pub mod programs;
pub mod resolver;
pub mod reviewers;
pub mod users;

use std::path::{Path, PathBuf};

use custody_config::{Config, UidRangeError, Untrusted};

use core_files::CoreFilesError;
use credentials::CredentialError;
use ed25519_dalek::SigningKey;
use instance::InstanceError;
use kernel::KernelError;
use policies::{Policies, PoliciesError};
use programs::{Programs, ProgramsError};
use users::{Users, UsersError};

use crate::hooks::{HookError, Hooks};

/// Why custodyd does not start.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The limit of core files.
    #[error(transparent)]
    CoreFiles(#[from] CoreFilesError),
    /// A credential's file.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The eBPF object.
    #[error(transparent)]
    Hooks(#[from] HookError),
    /// The instance's key.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Not root.
    #[error(
        "custodyd runs as uid {uid}; it makes cgroups, namespaces and eBPF hooks and must be root"
    )]
    NotRoot {
        /// Its effective uid.
        uid: u32,
    },
    /// A policy.
    #[error(transparent)]
    Policies(#[from] PoliciesError),
    /// Our programs.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// A place of ours that others could change.
    #[error("`{path}` is not trusted")]
    Untrusted {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Untrusted,
    },
    /// A uid range.
    #[error("the reserved uid ranges cannot be used; change `[uids]`")]
    Uids(#[from] UidRangeError),
    /// The users.
    #[error(transparent)]
    Users(#[from] UsersError),
}

/// A configuration that holds on this host.
#[derive(Debug)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// The cgroup2 folder under which ours are made.
    pub cgroup: PathBuf,
    /// The instance's key, if it has one.
    pub instance: Option<SigningKey>,
    /// The compiled policies.
    pub policies: Policies,
    /// Our programs.
    pub programs: Programs,
    /// The users that services run as.
    pub users: Users,
}

/// Checks that we are root; before anything else, for root's files tell others nothing.
///
/// # Errors
/// [`CheckError::NotRoot`].
pub fn root() -> Result<(), CheckError> {
    let uid = nix::unistd::geteuid();
    if uid.is_root() {
        Ok(())
    } else {
        Err(CheckError::NotRoot { uid: uid.as_raw() })
    }
}

/// Checks everything that can be checked without changing anything.
///
/// # Errors
/// The first thing that does not hold.
pub fn check(config: Config) -> Result<Checked, CheckError> {
    root()?;
    kernel::check()?;
    core_files::check()?;
    let cgroup = kernel::cgroup_base(config.paths.cgroup.as_deref())?;
    if Hooks::object().is_none() {
        return Err(HookError::NoObject.into());
    }
    config
        .uids
        .check_subordinate(&[Path::new("/etc/subuid"), Path::new("/etc/subgid")])?;
    let users = Users::find(&config.users, &config.uids, config.page)?;
    let programs = Programs::find(config.paths.programs.as_deref())?;
    for place in [&config.paths.runtime, &config.paths.state] {
        trusted(place)?;
    }
    let mut policies = policies::compile(&config.paths.policies, &config.credentials)?;
    policies::add_doctor(&mut policies)?;
    for (label, source) in &config.credentials {
        credentials::open(label, source)?;
    }
    let instance = config.instance.as_ref();
    let instance = instance.map(|it| instance::read(&it.key)).transpose()?;
    Ok(Checked {
        config,
        cgroup,
        instance,
        policies,
        programs,
        users,
    })
}

/// The deepest part of `place` that exists is root's alone, and so is what lies above it.
fn trusted(place: &Path) -> Result<(), CheckError> {
    let existing = place
        .ancestors()
        .find(|part| part.symlink_metadata().is_ok());
    custody_config::root_owned(existing.unwrap_or(Path::new("/"))).map_err(|source| {
        CheckError::Untrusted {
            path: place.into(),
            source,
        }
    })
}

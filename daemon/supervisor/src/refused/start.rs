//! Refused configurations at custodyd's own start: those under which no profile starts a session stop
//! it, the others are said in its log.

use custody_config::{Config, ConfigError, UidRangeError};
use custody_wire::{profile::Profile, refused::Refused};

use super::{Finding, host};
use crate::checks::{
    CheckError, credentials::CredentialError, instance::InstanceError, kernel::KernelError,
};

/// Why custodyd does not start.
#[derive(Debug, thiserror::Error)]
#[error("refused configuration {}: {}: {found}; {}", which.id(), which.title(), which.what_to_do())]
pub struct Stopped {
    which: Refused,
    found: String,
}

/// Looks at the host.
///
/// # Errors
/// The first finding that every profile refuses.
pub fn look(config: &Config) -> Result<(), Stopped> {
    for Finding { which, found, .. } in host::look(config) {
        if Profile::ALL
            .into_iter()
            .all(|profile| which.is_refused_by(profile))
        {
            return Err(Stopped { which, found });
        }
        let profiles: Vec<&str> = which.refused_by().map(Profile::as_str).collect();
        tracing::warn!(
            configuration = which.id(),
            found,
            refused_by = profiles.join(", "),
            todo = which.what_to_do(),
            "sessions of some profiles do not start"
        );
    }
    Ok(())
}

/// The name of the refused configuration that an error of the start is.
pub fn named(error: &anyhow::Error) -> Option<Refused> {
    if let Some(ConfigError::Uids {
        source: UidRangeError::Overlap { .. },
        ..
    }) = error.downcast_ref()
    {
        return Some(Refused::AgentUidReserved);
    }
    match error.downcast_ref::<CheckError>()? {
        CheckError::Uids(UidRangeError::Overlap { .. }) => Some(Refused::AgentUidReserved),
        CheckError::Credential(CredentialError::Readable { .. }) => {
            Some(Refused::CredentialReadable)
        }
        CheckError::Instance(InstanceError::File(CredentialError::Readable { .. })) => {
            Some(Refused::CredentialReadable)
        }
        CheckError::Kernel(error) => of_kernel(error),
        CheckError::CoreFiles(_)
        | CheckError::Credential(_)
        | CheckError::Hooks(_)
        | CheckError::Instance(_)
        | CheckError::NotRoot { .. }
        | CheckError::Policies(_)
        | CheckError::Programs(_)
        | CheckError::Uids(_)
        | CheckError::Untrusted { .. }
        | CheckError::Users(_) => None,
    }
}

const fn of_kernel(error: &KernelError) -> Option<Refused> {
    match error {
        KernelError::Cgroup { .. } | KernelError::NoCgroup2 => Some(Refused::Cgroup2Missing),
        KernelError::LandlockOld { .. }
        | KernelError::LandlockRefused(_)
        | KernelError::NoLandlock(_) => Some(Refused::LandlockMissing),
        KernelError::NoSeccomp(_) => Some(Refused::SeccompMissing),
        KernelError::Proc(_) => None,
        KernelError::Version { .. } => Some(Refused::OldKernel),
    }
}

//! The limit of core files can be the one byte that every program of ours is given.
//!
//! A `core_pattern` that begins with `|` is run by the kernel even at a limit of 0; one byte stops
//! it (core(5)). A hard limit of 0 is raised only by who has CAP_SYS_RESOURCE (getrlimit(2)).

use nix::sys::resource::{Resource, getrlimit};
use procfs::{ProcError, process::Process};

/// CAP_SYS_RESOURCE (capabilities(7)), as a bit of `CapEff` in proc_pid_status(5).
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// Why nothing that we start could be given its limit.
#[derive(Debug, thiserror::Error)]
pub enum CoreFilesError {
    /// The limit cannot be raised.
    #[error(
        "the hard limit of core files (RLIMIT_CORE) is 0, which does not stop a piped core_pattern, \
         and this root cannot raise it, for it has no CAP_SYS_RESOURCE; start custodyd with a hard \
         limit of 1 byte or more (`LimitCORE=1` in a unit; through sudo `Defaults \
         rlimit_core=default` in sudoers(5), which sets it to 0)"
    )]
    Limit,
    /// procfs does not say.
    #[error("cannot read /proc")]
    Proc(#[from] ProcError),
}

/// Checks that the limit is there or can be raised.
///
/// # Errors
/// When neither is so.
pub fn check() -> Result<(), CoreFilesError> {
    let (_soft, hard) =
        getrlimit(Resource::RLIMIT_CORE).map_err(|errno| ProcError::Io(errno.into(), None))?;
    if hard >= 1 || Process::myself()?.status()?.capeff & CAP_SYS_RESOURCE != 0 {
        Ok(())
    } else {
        Err(CoreFilesError::Limit)
    }
}

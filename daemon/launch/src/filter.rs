//! The system call filter: [compiled](compile) from the [table], installed last (seccomp(2)).
//!
//! One program gives three answers: EPERM for what is refused, ENOSYS for what does not exist
//! here, death for another architecture (int 0x80).

mod compile;
mod table;

use std::collections::BTreeMap;

use custody_wire::{launch::Network, layer::Layer};
use seccompiler::BpfProgram;

use crate::failure::Failure;
use compile::{ABSENT, REFUSE, Verdict};
use table::{Check, Group, Subject};

/// A compiled filter that binds nobody yet.
#[derive(Debug)]
pub(crate) struct Filter(BpfProgram);

/// Proof that it is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed(());

impl Filter {
    pub(crate) fn session() -> Self {
        Self::compile(Subject::Session)
    }

    pub(crate) fn service(network: Network) -> Self {
        Self::compile(match network {
            Network::Host => Subject::NetworkService,
            Network::None => Subject::Service,
        })
    }

    fn compile(subject: Subject) -> Self {
        Self(compile::program(Self::verdicts(subject)))
    }

    /// The table for one subject, by call number. A call that is refused altogether or absent has
    /// no use for its checks.
    fn verdicts(subject: Subject) -> BTreeMap<u32, Verdict> {
        let (absent, refused): (&[Group], &[Group]) = match subject {
            Subject::Session => (table::UNKNOWN_TO_SESSIONS, table::REFUSED_TO_SESSIONS),
            Subject::NetworkService | Subject::Service => (&[], &[]),
        };
        let sockets: &[Check] = match subject {
            Subject::NetworkService => table::IP_SOCKETS,
            Subject::Service | Subject::Session => table::UNIX_SOCKETS,
        };
        let mut verdicts = BTreeMap::new();
        for check in table::CHECKED.iter().chain(sockets) {
            for call in check.calls {
                let before = verdicts.insert(number(*call), Verdict::Checked(check.rules.to_vec()));
                debug_assert!(before.is_none(), "two checks of call {call}");
            }
        }
        for (groups, action) in [
            (table::REFUSED, REFUSE),
            (refused, REFUSE),
            (table::UNKNOWN, ABSENT),
            (absent, ABSENT),
        ] {
            for call in groups.iter().flat_map(|group| group.calls) {
                verdicts.insert(number(*call), Verdict::Always(action));
            }
        }
        verdicts
    }

    /// Binds this process and all that it starts, for good.
    pub(crate) fn install(self) -> Result<Installed, Failure> {
        seccompiler::apply_filter(&self.0).map_err(|error| failure(&error))?;
        Ok(Installed(()))
    }
}

/// The table's numbers are the libc crate's, all small; what were not would be absent.
fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn failure(error: &seccompiler::Error) -> Failure {
    let errno = match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            error.raw_os_error().unwrap_or(0)
        }
        seccompiler::Error::Backend(_)
        | seccompiler::Error::EmptyFilter
        | seccompiler::Error::ThreadSync(_) => 0,
    };
    Failure {
        layer: Some(Layer::Seccomp),
        step: format!("seccomp(2): {error}"),
        errno,
    }
}

//! The system call filter: [compiled](compile) from the [table], installed last (seccomp(2)).
//!
//! One program gives three answers: EPERM for what is refused, ENOSYS for what does not exist
//! here, death for another architecture (int 0x80).

mod compile;
mod table;

use std::collections::BTreeMap;

use custody_sys::seccomp::{self, sock_filter};
use custody_wire::{launch::Network, layer::Layer, profile::Profile};

use crate::failure::{Failure, Step as _};
use compile::{ABSENT, REFUSE, Verdict};
use table::{Check, Group, Subject};

/// A compiled filter that binds nobody yet.
#[derive(Debug)]
pub(crate) struct Filter(Vec<sock_filter>);

/// Proof that it is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed(());

impl Filter {
    /// `dev` has a table of its own: tracing inside the session.
    pub(crate) fn session(profile: Profile) -> Self {
        Self::compile(match profile {
            Profile::Dev => Subject::TracingSession,
            Profile::Standard | Profile::Hardened => Subject::Session,
        })
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
            Subject::Session | Subject::TracingSession => {
                (table::UNKNOWN_TO_SESSIONS, table::REFUSED_TO_SESSIONS)
            }
            Subject::NetworkService | Subject::Service => (&[], &[]),
        };
        let (tracing, personality): (&[Group], &Check) = match subject {
            Subject::TracingSession => (&[], &table::PERSONALITY_OF_TRACEES),
            Subject::NetworkService | Subject::Service | Subject::Session => {
                (table::TRACING, &table::PERSONALITY)
            }
        };
        let sockets: &[Check] = match subject {
            Subject::NetworkService => table::IP_SOCKETS,
            Subject::Service | Subject::Session | Subject::TracingSession => table::UNIX_SOCKETS,
        };
        let mut verdicts = BTreeMap::new();
        for check in table::CHECKED.iter().chain([personality]).chain(sockets) {
            for call in check.calls {
                let before = verdicts.insert(number(*call), Verdict::Checked(check.rules.to_vec()));
                debug_assert!(before.is_none(), "two checks of call {call}");
            }
        }
        for (groups, action) in [
            (table::REFUSED, REFUSE),
            (refused, REFUSE),
            (tracing, REFUSE),
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
        seccomp::install(&self.0).of(Layer::Seccomp, || "seccomp(2)".into())?;
        Ok(Installed(()))
    }
}

/// The table's numbers are the libc crate's, all small; what were not would be absent.
fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

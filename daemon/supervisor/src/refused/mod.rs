//! Refused configurations: looked for with procfs and the kernel's tables, never in our own plan.
//!
//! | module | what | when |
//! |---|---|---|
//! | [`credentials`] | what a credential looks like: names of files and variables, forms of values | |
//! | [`environment`] | credentials in the command's environment | at the order |
//! | [`host`] | core_pattern, who traces custodyd, whose uids are ours, the credentials' files | start, order |
//! | [`process`] | the sealed process before its command is executed | before Go |
//! | [`shown`] | sockets and credentials' files that its root shows | before Go |
//! | [`sockets`] | whose socket a path is | |
//! | [`start`] | what stops custodyd's own start | start |
//! | [`vault`] | whether the vault's memory is its own | order, timer |
//! | [`workspace`] | sockets, FIFOs and credentials that lie in the workspace | at the order |
//!
//! What is looked at may be hostile: walks are bounded, no symlink is followed, nothing is opened that
//! could block, and files are searched for byte patterns, never parsed.
//!
//! **Invariant:** what was found and is refused by the session's profile stops the start; what is
//! permitted is said aloud. What cannot be looked at counts as found; what lies beyond the bounds of a
//! walk does so for `hardened`, and is said by the others.

pub mod credentials;
pub mod environment;
pub mod host;
pub mod process;
pub mod shown;
pub mod sockets;
pub mod start;
pub mod vault;
pub mod workspace;

use custody_wire::{
    profile::Profile,
    refused::Refused,
    supervise::{CONFIGURATION_WORDS_MAX, StartRefusal},
};

/// The most of a path or a name that goes into a message.
const FOUND_MAX: usize = 512;

/// The most weaknesses that are said of one session: the message is bounded.
const WEAKNESSES_MAX: usize = 12;

/// One refused configuration that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// Which.
    pub which: Refused,
    /// Where, or what: one line.
    pub found: String,
    /// Nothing was found in what was looked at, and there is more: `hardened` alone refuses it.
    pub is_rest: bool,
}

impl Finding {
    /// `found` may hold a path of anybody's: it becomes one line that does nothing to a terminal.
    pub fn new(which: Refused, found: impl AsRef<str>) -> Self {
        let mut line = String::new();
        for c in found.as_ref().chars() {
            if line.len() >= FOUND_MAX {
                line.push('…');
                break;
            }
            if c.is_control() {
                line.extend(c.escape_default());
            } else {
                line.push(c);
            }
        }
        Self {
            which,
            found: line,
            is_rest: false,
        }
    }

    /// What lies beyond the bounds of a look.
    pub(crate) fn rest(which: Refused, found: impl AsRef<str>) -> Self {
        Self {
            is_rest: true,
            ..Self::new(which, found)
        }
    }

    fn is_refused_by(&self, profile: Profile) -> bool {
        self.which.is_refused_by(profile) && (!self.is_rest || profile == Profile::Hardened)
    }

    /// What could not be looked at.
    pub(crate) fn unseen(which: Refused, what: &str, error: &dyn std::fmt::Display) -> Self {
        Self::new(which, format!("{what} cannot be looked at: {error}"))
    }

    fn words(&self) -> String {
        if self.is_rest {
            return format!("not known whether {}: {}", self.which.title(), self.found);
        }
        format!(
            "{}: {}; {}",
            self.which.title(),
            self.found,
            self.which.what_to_do()
        )
    }
}

/// Why a session of `profile` does not start, if it does not: the first finding that the profile
/// refuses in full, the others by name.
pub fn refusal(profile: Profile, findings: &[Finding]) -> Option<StartRefusal> {
    let mut refused = findings
        .iter()
        .filter(|finding| finding.is_refused_by(profile));
    let first = refused.next()?;
    let mut words = first.words();
    let mut others: Vec<&str> = refused
        .map(|finding| finding.which.id())
        .filter(|id| *id != first.which.id())
        .collect();
    others.sort_unstable();
    others.dedup();
    if !others.is_empty() {
        words.push_str("; also found: ");
        words.push_str(&others.join(", "));
    }
    let end = words.floor_char_boundary(CONFIGURATION_WORDS_MAX);
    words.truncate(end);
    Some(StartRefusal::Configuration {
        id: first.which.id().into(),
        words,
        profile: profile.as_str().into(),
    })
}

/// What `profile` permits and was found, each in a sentence for the operator.
pub fn weaknesses(profile: Profile, findings: &[Finding]) -> Vec<String> {
    let permitted = findings
        .iter()
        .filter(|finding| !finding.is_refused_by(profile));
    let more = permitted.clone().count().saturating_sub(WEAKNESSES_MAX);
    permitted
        .take(WEAKNESSES_MAX)
        .map(|finding| format!("{}: {}", finding.which.id(), finding.words()))
        .chain((more > 0).then(|| format!("and {more} more")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(which: Refused) -> Finding {
        Finding::new(which, "`/x`")
    }

    #[test]
    fn the_first_that_the_profile_refuses_is_said_and_the_others_are_named() {
        let findings = [
            found(Refused::PipedCorePattern),
            found(Refused::WorkspaceFifo),
            found(Refused::AgentUidRoot),
        ];
        let Some(StartRefusal::Configuration { id, words, .. }) =
            refusal(Profile::Standard, &findings)
        else {
            panic!("not refused");
        };
        assert_eq!(id, "workspace_fifo");
        assert!(
            words.contains("agent_uid_root") && !words.contains("piped"),
            "{words}"
        );
        assert_eq!(weaknesses(Profile::Standard, &findings).len(), 1);
        assert_eq!(weaknesses(Profile::Hardened, &findings).len(), 0);
        assert!(refusal(Profile::Hardened, &[]).is_none());
    }

    #[test]
    fn what_lies_beyond_the_bounds_is_refused_by_hardened_and_said_by_the_others() {
        let rest = [Finding::rest(Refused::WorkspaceCredential, "much")];
        assert!(refusal(Profile::Hardened, &rest).is_some());
        for profile in [Profile::Dev, Profile::Standard] {
            assert!(refusal(profile, &rest).is_none());
            assert_eq!(
                weaknesses(profile, &rest),
                [
                    "workspace_credential: not known whether a credential lies in the workspace: much"
                ]
            );
        }
    }

    #[test]
    fn a_refusal_fits_into_its_message_whatever_was_found() {
        let long = "é\n".repeat(100_000);
        let findings: Vec<Finding> = Refused::ALL
            .into_iter()
            .map(|which| Finding::new(which, &long))
            .collect();
        let refusal = refusal(Profile::Hardened, &findings).unwrap();
        let session = gate::id::SessionId(1);
        let notice = custody_wire::supervise::ControlNotice::Refused { session, refusal };
        let bytes = custody_wire::frame::datagram(&notice).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains('\n'));
    }
}

//! Rules that can be taken away, to see that something notices.
//!
//! A test that passes without the rule that it is about tests nothing. In a build under
//! `--cfg custody_mutants`, which `cargo xtask mutants` makes and nobody installs, the variable
//! `CUSTODY_MUTANT` names what is off, several joined by `+`. In every other build [`Mutant::is_on`]
//! is false when it is compiled, and nothing of a mutant is in the program.

/// A rule that is off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mutant {
    /// No terminal sequence is taken out of what a session writes.
    CliTerminalFilter,
    /// A workspace is opened through symlinks.
    CliWorkdirSymlinks,
    /// The credential stays in answers.
    EffectScrubber,
    /// The last of two equal keys counts.
    FrontStrictJson,
    /// What a reviewer approved is not compared with the call that waits.
    GateApprovalDigest,
    /// What must be a trusted value may be any.
    GateAuthority,
    /// The end of a turn holds nothing.
    GateCommit,
    /// What a system repeats of the agent's words is the system's own.
    GateEcho,
    /// Arguments that a tool does not have are passed over.
    GateExactArguments,
    /// Only what comes into a session that is not tainted is remembered.
    GateFirstResult,
    /// Every request stands on the floor.
    GateFloor,
    /// A value may come from anywhere.
    GateOrigins,
    /// A value goes into a path as it is.
    GatePathSegment,
    /// What a tainted session is refused is held, and can be approved.
    GateRefusalFirst,
    /// A tool is found by a name that looks like its own.
    GateRegistry,
    /// A session asks for whatever its policy has.
    GateScope,
    /// Taint refuses nothing.
    GateTaint,
    /// Untrusted text is the person's.
    GateUntrustedWords,
    /// Every refusal is logged.
    SupervisorDenialPace,
    /// A statement is taken for whatever call it comes with.
    VaultApprovalCall,
    /// A statement is taken whoever signed it.
    VaultApprovalSignature,
    /// A permit is spent as often as it comes.
    VaultPermitReuse,
    /// A permit is taken whoever signed it.
    VaultPermitSignature,
}

impl Mutant {
    /// All, in the order of their names.
    pub const ALL: [Self; 23] = [
        Self::CliTerminalFilter,
        Self::CliWorkdirSymlinks,
        Self::EffectScrubber,
        Self::FrontStrictJson,
        Self::GateApprovalDigest,
        Self::GateAuthority,
        Self::GateCommit,
        Self::GateEcho,
        Self::GateExactArguments,
        Self::GateFirstResult,
        Self::GateFloor,
        Self::GateOrigins,
        Self::GatePathSegment,
        Self::GateRefusalFirst,
        Self::GateRegistry,
        Self::GateScope,
        Self::GateTaint,
        Self::GateUntrustedWords,
        Self::SupervisorDenialPace,
        Self::VaultApprovalCall,
        Self::VaultApprovalSignature,
        Self::VaultPermitReuse,
        Self::VaultPermitSignature,
    ];

    /// Its stable name: whose rule, and which.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CliTerminalFilter => "cli-terminal-filter",
            Self::CliWorkdirSymlinks => "cli-workdir-symlinks",
            Self::EffectScrubber => "effect-scrubber",
            Self::FrontStrictJson => "front-strict-json",
            Self::GateApprovalDigest => "gate-approval-digest",
            Self::GateAuthority => "gate-authority",
            Self::GateCommit => "gate-commit",
            Self::GateEcho => "gate-echo",
            Self::GateExactArguments => "gate-exact-arguments",
            Self::GateFirstResult => "gate-first-result",
            Self::GateFloor => "gate-floor",
            Self::GateOrigins => "gate-origins",
            Self::GatePathSegment => "gate-path-segment",
            Self::GateRefusalFirst => "gate-refusal-first",
            Self::GateRegistry => "gate-registry",
            Self::GateScope => "gate-scope",
            Self::GateTaint => "gate-taint",
            Self::GateUntrustedWords => "gate-untrusted-words",
            Self::SupervisorDenialPace => "supervisor-denial-pace",
            Self::VaultApprovalCall => "vault-approval-call",
            Self::VaultApprovalSignature => "vault-approval-signature",
            Self::VaultPermitReuse => "vault-permit-reuse",
            Self::VaultPermitSignature => "vault-permit-signature",
        }
    }

    /// The property that it takes away.
    pub const fn property(self) -> &'static str {
        match self {
            Self::CliTerminalFilter => "what a session writes does nothing to a terminal",
            Self::CliWorkdirSymlinks => "a workspace is the folder that its path names",
            Self::EffectScrubber => "no answer shows the credential",
            Self::FrontStrictJson => "a message has one meaning",
            Self::GateApprovalDigest => "an approval is of the call that was shown",
            Self::GateAuthority => "a verified argument is the application's value",
            Self::GateCommit => "every moment of a call's life asks the same",
            Self::GateEcho => "what a system repeats of a call does not become its own",
            Self::GateExactArguments => "a call has the arguments of its tool, and no others",
            Self::GateFirstResult => "the order in which content came in does not matter",
            Self::GateFloor => "a request stays on its credential's floor",
            Self::GateOrigins => "in a tainted session each value comes from where the policy says",
            Self::GatePathSegment => "a value stays in its segment of a path",
            Self::GateRefusalFirst => "what was refused is never approved",
            Self::GateRegistry => "a tool's name is registered byte for byte",
            Self::GateScope => "a task has no more than its scope",
            Self::GateTaint => "a tainted session calls only what its policy lets it",
            Self::GateUntrustedWords => "untrusted content never makes an answer more lenient",
            Self::SupervisorDenialPace => "a flood of refusals does not fill the log",
            Self::VaultApprovalCall => "a signed statement is of the call that it comes with",
            Self::VaultApprovalSignature => "a confirmed call has a reviewer's signature",
            Self::VaultPermitReuse => "a permit is spent once",
            Self::VaultPermitSignature => "a permit is the gate's",
        }
    }

    /// Whether the rule is off. Never, but in a build of mutants.
    #[cfg(not(custody_mutants))]
    pub const fn is_on(self) -> bool {
        false
    }

    /// Whether the rule is off.
    #[cfg(custody_mutants)]
    pub fn is_on(self) -> bool {
        use std::{string::String, sync::OnceLock};
        static CHOSEN: OnceLock<String> = OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| std::env::var(VARIABLE).unwrap_or_default());
        chosen.split('+').any(|name| name == self.name())
    }
}

/// The variable that names what is off. A program that has its name is a build of mutants.
#[cfg(custody_mutants)]
pub const VARIABLE: &str = "CUSTODY_MUTANT";

/// A name as lenient routers read it: no case, no blanks, nothing invisible.
#[cfg(custody_mutants)]
pub(crate) fn folded(name: &str) -> alloc::string::String {
    name.chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_has_a_name_of_its_own_in_order() {
        let names = Mutant::ALL.map(Mutant::name);
        assert!(names.is_sorted());
        assert!(names.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    #[cfg(not(custody_mutants))]
    fn outside_of_their_own_build_no_mutant_is_on() {
        assert!(Mutant::ALL.into_iter().all(|mutant| !mutant.is_on()));
    }
}

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
    /// What must be a trusted value may be any.
    GateAuthority,
    /// Arguments that a tool does not have are passed over.
    GateExactArguments,
    /// Every request stands on the floor.
    GateFloor,
    /// A value goes into a path as it is.
    GatePathSegment,
    /// A tool is found by a name that looks like its own.
    GateRegistry,
    /// Taint refuses nothing.
    GateTaint,
    /// Every refusal is logged.
    SupervisorDenialPace,
    /// A permit is spent as often as it comes.
    VaultPermitReuse,
    /// A permit is taken whoever signed it.
    VaultPermitSignature,
}

impl Mutant {
    /// All, in the order of their names.
    pub const ALL: [Self; 13] = [
        Self::CliTerminalFilter,
        Self::CliWorkdirSymlinks,
        Self::EffectScrubber,
        Self::FrontStrictJson,
        Self::GateAuthority,
        Self::GateExactArguments,
        Self::GateFloor,
        Self::GatePathSegment,
        Self::GateRegistry,
        Self::GateTaint,
        Self::SupervisorDenialPace,
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
            Self::GateAuthority => "gate-authority",
            Self::GateExactArguments => "gate-exact-arguments",
            Self::GateFloor => "gate-floor",
            Self::GatePathSegment => "gate-path-segment",
            Self::GateRegistry => "gate-registry",
            Self::GateTaint => "gate-taint",
            Self::SupervisorDenialPace => "supervisor-denial-pace",
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
            Self::GateAuthority => "a verified argument is the application's value",
            Self::GateExactArguments => "a call has the arguments of its tool, and no others",
            Self::GateFloor => "a request stays on its credential's floor",
            Self::GatePathSegment => "a value stays in its segment of a path",
            Self::GateRegistry => "a tool's name is registered byte for byte",
            Self::GateTaint => "a tainted session calls only what its policy lets it",
            Self::SupervisorDenialPace => "a flood of refusals does not fill the log",
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

//! Rules that can be taken away, to see that something notices.
//!
//! A test that passes without the rule that it is about tests nothing. In a build under
//! `--cfg custody_mutants`, which `cargo xtask mutants` makes and nobody installs, the variable
//! `CUSTODY_MUTANT` names what is off, several joined by `+`. In every other build [`Mutant::is_on`]
//! is false when it is compiled, and nothing of a mutant is in the program.

/// The separable properties of an assessment (A to G), or none of them.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Letter {
    /// What authorizes is authentic, unmodified, valid now and used once.
    A,
    /// Who authorizes has the authority.
    B,
    /// What is authorized is the exact call that is performed.
    C,
    /// The call is permitted in what it means.
    D,
    /// The effect is reached through the gate alone.
    E,
    /// What was approved still holds when it is performed.
    F,
    /// What came of it is looked at.
    G,
    /// A rule beside them.
    None,
}

impl Letter {
    /// In the order of an assessment; without [`Letter::None`].
    pub const ALL: [Self; 7] = [
        Self::A,
        Self::B,
        Self::C,
        Self::D,
        Self::E,
        Self::F,
        Self::G,
    ];

    /// The letter; `-` for none.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
            Self::G => "G",
            Self::None => "-",
        }
    }
}

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident $name:literal: $letter:ident $property:literal;)*) => {
        /// A rule that is off.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Mutant {
            $($(#[$doc])* $variant,)*
        }

        impl Mutant {
            /// All, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its stable name: whose rule, and which.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The property that it takes away.
            pub const fn property(self) -> &'static str {
                match self {
                    $(Self::$variant => $property,)*
                }
            }

            /// Which of the separable properties that one is a part of.
            pub const fn letter(self) -> Letter {
                match self {
                    $(Self::$variant => Letter::$letter,)*
                }
            }
        }
    };
}

// What it does; its name, whose rule it is first; the letter of its property, and the property that it takes
// away.
mutants! {
    /// An approval that was taken is taken again.
    ApprovalsTakenTwice "approvals-taken-twice": F "an approval is used once, whoever uses it";
    /// No terminal sequence is taken out of what a session writes.
    CliTerminalFilter "cli-terminal-filter": E "what a session writes does nothing to a terminal";
    /// A workspace is opened through symlinks.
    CliWorkdirSymlinks "cli-workdir-symlinks": E "a workspace is the folder that its path names";
    /// Whoever may see a call may answer for it.
    ControlReviewerRights "control-reviewer-rights": B "who approves may approve";
    /// The credential stays in answers.
    EffectScrubber "effect-scrubber": E "no answer shows the credential";
    /// A stream keeps back only what looks like the beginning of the credential.
    EffectScrubberHoldBack "effect-scrubber-hold-back": E "what is kept back says nothing of a guess";
    /// Where a stream is cut, what was kept back is released.
    EffectStreamCut "effect-stream-cut": E "a stream that is cut shows nothing of what was kept back";
    /// A request under a name that begins as a call's is a call.
    FrontMethods "front-methods": C "a call is what is called one";
    /// The last of two equal keys counts.
    FrontStrictJson "front-strict-json": C "a message has one meaning";
    /// What a reviewer approved is not compared with the call that waits.
    GateApprovalDigest "gate-approval-digest": C "an approval is of the call that was shown";
    /// What must be a trusted value may be any.
    GateAuthority "gate-authority": B "a verified argument is the application's value";
    /// A quotation mark in a text is written as it is.
    GateCanonical "gate-canonical": C "two values never have one written form";
    /// The end of a turn holds nothing.
    GateCommit "gate-commit": F "every moment of a call's life asks the same";
    /// A delegated session has limits of its own alone.
    GateDelegation "gate-delegation": B "what is delegated only narrows";
    /// What a delegated session does is asked of, and counted in, no session above it.
    GateDelegationBooks "gate-delegation-books": B "what a delegated session spends, all above it have spent";
    /// What a system repeats of the agent's words is the system's own.
    GateEcho "gate-echo": D "what a system repeats of a call does not become its own";
    /// Arguments that a tool does not have are passed over.
    GateExactArguments "gate-exact-arguments": C "a call has the arguments of its tool, and no others";
    /// Only what comes into a session that is not tainted is remembered.
    GateFirstResult "gate-first-result": B "the order in which content came in does not matter";
    /// Every request stands on the floor.
    GateFloor "gate-floor": E "a request stays on its credential's floor";
    /// A stream brings in nobody's words.
    GateLeaseLabel "gate-lease-label": B "a stream taints its session before its first byte";
    /// Whatever a call is bound to is what was meant.
    GateMeaning "gate-meaning": D "what a call means is vouched for by others than the agent";
    /// A value may come from anywhere.
    GateOrigins "gate-origins": B "in a tainted session each value comes from where the policy says";
    /// A value goes into a path as it is.
    GatePathSegment "gate-path-segment": C "a value stays in its segment of a path";
    /// Whatever stands where an effect is read back is what was expected.
    GateReadBack "gate-read-back": G "what is read back is held to what the call says";
    /// What a tainted session is refused is held, and can be approved.
    GateRefusalFirst "gate-refusal-first": B "what was refused is never approved";
    /// A tool is found by a name that looks like its own.
    GateRegistry "gate-registry": C "a tool's name is registered byte for byte";
    /// A session asks for whatever its policy has.
    GateScope "gate-scope": B "a task has no more than its scope";
    /// Taint refuses nothing.
    GateTaint "gate-taint": B "a tainted session calls only what its policy lets it";
    /// Untrusted text is the person's.
    GateUntrustedWords "gate-untrusted-words": B "untrusted content never makes an answer more lenient";
    /// A line may rest on any other.
    LedgerChainLink "ledger-chain-link": A "no line of the ledger is taken out, put in or moved";
    /// A checkpoint is taken whoever signed it.
    LedgerCheckpointSignature "ledger-checkpoint-signature": A "what the ledger calls signed is signed";
    /// Every refusal is logged.
    SupervisorDenialPace "supervisor-denial-pace": None "a flood of refusals does not fill the log";
    /// What programs and paths are called is logged as it is.
    SupervisorLogEscapes "supervisor-log-escapes": None "a line of the log is one line, and steers no terminal";
    /// A statement is taken for whatever call it comes with.
    VaultApprovalCall "vault-approval-call": C "a signed statement is of the call that it comes with";
    /// A statement is taken whoever signed it.
    VaultApprovalSignature "vault-approval-signature": B "a confirmed call has a reviewer's signature";
    /// An effect is sent without an intent.
    VaultIntent "vault-intent": A "what an effect may have done is on disk before it is sent";
    /// An intent is written, and nobody waits until it is on disk.
    VaultIntentUnawaited "vault-intent-unawaited": A "an effect waits until its intent is on disk";
    /// Any kind of permit opens a stream, of whatever size and time.
    VaultLease "vault-lease": C "a stream is opened by a lease of its destination, size and time";
    /// What a permit says of its call's meaning is not looked at.
    VaultMeaning "vault-meaning": D "the vault performs what the permit means";
    /// A permit is spent as often as it comes.
    VaultPermitReuse "vault-permit-reuse": A "a permit is spent once";
    /// A permit is taken whoever signed it.
    VaultPermitSignature "vault-permit-signature": A "a permit is the gate's";
    /// An effect is sent without what must still be so.
    VaultPrecondition "vault-precondition": F "an effect is sent only while what it rests on is so";
    /// What is read back changes nothing: every effect counts as seen.
    VaultReadBack "vault-read-back": G "an effect counts as seen where reading back shows it";
    /// What was taken back is used on.
    VaultRevocation "vault-revocation": F "what an operator took back is used no more";
}

impl Mutant {
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
        let names: std::vec::Vec<_> = Mutant::ALL.iter().map(|it| it.name()).collect();
        assert!(names.is_sorted());
        assert!(names.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn each_property_has_a_mutant() {
        for letter in Letter::ALL {
            let mut all = Mutant::ALL.iter();
            assert!(all.any(|it| it.letter() == letter), "{letter:?}");
        }
    }

    #[test]
    #[cfg(not(custody_mutants))]
    fn outside_of_their_own_build_no_mutant_is_on() {
        assert!(Mutant::ALL.iter().all(|mutant| !mutant.is_on()));
    }
}

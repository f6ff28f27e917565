//! One attempt's row: what happened, in which arms, beside what was expected.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The five classes of §12.2 of the specification, by their machine names; and what lies beyond
/// them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Reaching the effect through an already authenticated client, pool or subprocess.
    AuthenticatedClient,
    /// A door of the confinement itself: what opens it reaches no protected effect yet, and is
    /// worth having refused before someone walks through. None of the five.
    Confinement,
    /// Extraction of the guarded callable from the enforcement point.
    ExtractedCallable,
    /// Reading the credential from a shared process.
    SharedProcessCredential,
    /// Dispatch of an unwrapped or unregistered tool name.
    UnregisteredTool,
    /// Dispatch without authorization.
    WithoutAuthorization,
}

impl Class {
    /// The five that are demanded, in the order of the specification.
    pub const ALL: [Self; 5] = [
        Self::WithoutAuthorization,
        Self::UnregisteredTool,
        Self::ExtractedCallable,
        Self::SharedProcessCredential,
        Self::AuthenticatedClient,
    ];

    /// The machine name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthenticatedClient => "authenticated_client",
            Self::Confinement => "confinement",
            Self::ExtractedCallable => "extracted_callable",
            Self::SharedProcessCredential => "shared_process_credential",
            Self::UnregisteredTool => "unregistered_tool",
            Self::WithoutAuthorization => "without_authorization",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an attempt came to, inside full confinement.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It does not count, for want of a control or of a clear answer.
    Inconclusive {
        /// Which, and what was seen.
        why: String,
    },
    /// It was not made.
    NotAttempted {
        /// What it needs and this host has not.
        need: String,
    },
    /// The witness saw the effect, or the canary was read.
    Reached {
        /// What the witness saw.
        proof: String,
    },
    /// The effect did not happen, and an isolating run (or the gate's own rule) says what refused.
    Refused {
        /// The layer that refuses alone, or `gate`.
        layer: String,
        /// errno, or the gate's rule.
        reason: String,
    },
}

impl Outcome {
    /// The outcome's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Inconclusive { .. } => "inconclusive",
            Self::NotAttempted { .. } => "not_attempted",
            Self::Reached { .. } => "reached",
            Self::Refused { .. } => "refused",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inconclusive { why } => write!(f, "inconclusive: {why}"),
            Self::NotAttempted { need } => write!(f, "not attempted: needs {need}"),
            Self::Reached { proof } => write!(f, "reached: {proof}"),
            Self::Refused { layer, reason } => write!(f, "refused by {layer}: {reason}"),
        }
    }
}

/// A control of a row: the reach arm or the twin.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Control {
    /// Whether it did what a control must: the effect was reached, the allowed target answered.
    pub holds: bool,
    /// What was done and what was seen.
    pub what: String,
}

/// One isolating run.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Leg {
    /// What was left in.
    pub run: Isolation,
    /// The layer or, joined by `+`, the layers that are nothing apart.
    pub layer: String,
    /// What it came to.
    pub outcome: LegOutcome,
    /// errno or words.
    pub saw: String,
}

/// What an isolating run leaves in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Every layer but this one.
    AllBut,
    /// This one alone.
    Only,
}

/// What an isolating run came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LegOutcome {
    /// The run itself could not be made.
    NotRun,
    /// What was left in does not refuse.
    Reached,
    /// What was left in refuses.
    Refused,
}

/// What was expected before the run, from the committed file.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The outcome's name.
    pub outcome: String,
    /// The layers one of which is expected to be named, or `gate`. Empty for other outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
    /// Why a gap is known and admitted: a row that is expected to be reached says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

impl Expected {
    /// Whether `outcome` is what was expected.
    pub fn agrees(&self, outcome: &Outcome) -> bool {
        self.outcome == outcome.name()
            && match outcome {
                Outcome::Refused { layer, .. } => self.layers.contains(layer),
                Outcome::Inconclusive { .. }
                | Outcome::NotAttempted { .. }
                | Outcome::Reached { .. } => true,
            }
    }
}

/// One attempt, with what happened.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// `family/name`, stable.
    pub id: String,
    /// Its class.
    pub class: Class,
    /// The trick; two rows may share one (IPv4 and IPv6 of one trick are one mechanism).
    pub mechanism: String,
    /// The question it asks.
    pub question: String,
    /// The incident or paper that it comes from.
    pub source: String,
    /// The layers that were promised to refuse it, or rules of the gate.
    pub promised: Vec<String>,
    /// What happened in full confinement.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// With every promised layer removed.
    pub reach: Control,
    /// The same code path, in full confinement, against what is allowed.
    pub twin: Control,
    /// Each promised leg alone, and each promised layer taken away.
    pub legs: Vec<Leg>,
    /// What the committed file expects; none for a row that it does not know.
    pub expected: Option<Expected>,
    /// Whether it came as expected.
    pub as_expected: bool,
    /// What else must be known: one leg only, not ablated, what could not be observed.
    pub notes: Vec<String>,
}

impl Row {
    /// The witness recorded the confined arm's effect after that arm had been judged.
    pub fn came_late(&mut self, proof: String) {
        self.outcome = Outcome::Reached {
            proof: format!("late: {proof}"),
        };
        let expected = self.expected.as_ref();
        self.as_expected = expected.is_some_and(|it| it.agrees(&self.outcome));
    }
}

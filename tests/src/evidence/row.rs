//! One attempt's row: what happened, in which arms, beside what was expected.

use std::{collections::BTreeMap, fmt};

use custody_wire::profile::Profile;
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
    /// The five that are demanded, in the order of the specification; [`Class::Confinement`] is
    /// none of them.
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
    /// The witness saw the effect, or the canary was read; or a door opened.
    Reached {
        /// What the witness saw, or what was found on the host.
        proof: String,
        /// Whether it is a protected effect or a credential's bytes, and not a door alone.
        #[serde(default)]
        protected: bool,
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
            Self::Reached { proof, .. } => write!(f, "reached: {proof}"),
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
    /// No layer at all, by the same way as the others: what is refused here, no layer refuses.
    Nothing,
    /// This one alone.
    Only,
}

/// What an isolating run came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LegOutcome {
    /// The run itself could not be made, or the layer is not there to be tried.
    NotRun,
    /// What was left in does not refuse.
    Reached,
    /// What was left in refuses.
    Refused,
}

/// What was expected before the run, from the committed file.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The outcome's name.
    pub outcome: String,
    /// The layers one of which is expected to be named, or `gate`. Empty for other outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
    /// Layers without which the row is reached, each with the reason why no second one stands
    /// there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub single_legs: BTreeMap<String, String>,
    /// Promised layers that do not refuse here, each with the reason: what a profile lets through for
    /// a session's own processes is held by the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub idle: BTreeMap<String, String>,
    /// Why it is reached here, where it is no gap of the attempt's own: what a profile permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permitted: Option<String>,
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
    /// The kernel that it came from, as uname(2) calls its release.
    #[serde(default)]
    pub kernel: String,
    /// The profile of its sessions.
    pub profile: Profile,
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
    /// Whether it came as expected, and stands on no single leg that is not listed.
    pub as_expected: bool,
    /// The architectural reason, where it is known and expected to reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_gap: Option<String>,
    /// Why what a known gap reaches lies outside the declared zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// Layers without which it is reached: each is a leg that stands alone.
    #[serde(default)]
    pub single_legs: Vec<String>,
    /// What the kernel's hooks counted of the confined arm's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// What else must be known: one leg only, not ablated, what could not be observed.
    pub notes: Vec<String>,
}

impl Row {
    /// What stands before the slash.
    pub fn family(&self) -> &str {
        self.id
            .split_once('/')
            .map_or(&*self.id, |(family, _)| family)
    }

    /// Whether the outcome is the expected one, every single leg is listed, every promised leg that
    /// was tried refuses alone, and what is reached is a declared gap.
    pub fn comes_as_expected(&self) -> bool {
        self.unlisted_legs().next().is_none()
            && self.idle_promises().next().is_none()
            && self.expected.as_ref().is_some_and(|expected| {
                expected.agrees(&self.outcome)
                    && match self.outcome {
                        Outcome::Reached { .. } => self.known_gap.is_some(),
                        Outcome::Inconclusive { .. }
                        | Outcome::NotAttempted { .. }
                        | Outcome::Refused { .. } => true,
                    }
            })
    }

    /// Single legs that the committed file does not list.
    pub fn unlisted_legs(&self) -> impl Iterator<Item = &str> {
        let listed = self.expected.as_ref().map(|it| &it.single_legs);
        self.single_legs
            .iter()
            .map(String::as_str)
            .filter(move |leg| listed.is_none_or(|listed| !listed.contains_key(*leg)))
    }

    /// Promised legs that were left in alone, and reached, and are not listed as idle. A known gap
    /// promises nothing while it is open.
    pub fn idle_promises(&self) -> impl Iterator<Item = &str> {
        let listed = self.expected.as_ref().map(|it| &it.idle);
        let is_refused = matches!(self.outcome, Outcome::Refused { .. });
        self.legs
            .iter()
            .filter(move |leg| {
                is_refused
                    && leg.run == Isolation::Only
                    && leg.outcome == LegOutcome::Reached
                    && self.promised.contains(&leg.layer)
                    && listed.is_none_or(|listed| !listed.contains_key(&leg.layer))
            })
            .map(|leg| leg.layer.as_str())
    }

    /// The layers, or legs of several, that refuse alone.
    pub fn alone(&self) -> impl Iterator<Item = &str> {
        self.legs
            .iter()
            .filter(|leg| leg.run == Isolation::Only && leg.outcome == LegOutcome::Refused)
            .map(|leg| leg.layer.as_str())
    }
}

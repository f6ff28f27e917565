//! What was seen of one tool.

use std::collections::{BTreeMap, BTreeSet};

use gate::{
    decide::Grounds,
    id::ArgumentName,
    policy::{ActionClass, OriginClass, Risk, Role},
};

use crate::{load::Load, tally::plus};

/// What was seen of one tool.
#[derive(Debug, Default)]
pub struct Traffic {
    /// What was said of its calls, and what became of the held ones.
    pub load: Load,
    /// Calls that were put off to the end of their turn.
    pub deferred: u64,
    /// Of those, the ones of which a turn's end never came.
    pub deferred_lapsed: u64,
    /// Calls of sessions that had seen untrusted content.
    pub tainted: u64,
    /// What had tainted them.
    pub taint: BTreeMap<String, u64>,
    /// What its calls did to the world.
    pub classes: BTreeMap<ActionClass, u64>,
    /// What was at stake.
    pub risks: BTreeMap<Risk, u64>,
    /// What its calls carried.
    pub arguments: BTreeMap<ArgumentName, Carried>,
    /// What came back: trusted, untrusted, streams, failures.
    pub trusted: u64,
    /// Anyone's words.
    pub untrusted: u64,
    /// Streams.
    pub streams: u64,
    /// Failures.
    pub failures: u64,
}

/// What was seen of one argument.
#[derive(Debug, Default)]
pub struct Carried {
    /// Calls that carried it.
    pub calls: u64,
    /// Who may author it, in a word.
    pub authority: BTreeSet<&'static str>,
    /// What it is to the effect.
    pub roles: BTreeSet<Role>,
    /// Where its value came from, where that was asked.
    pub origins: BTreeMap<OriginClass, u64>,
    /// Values of a system's or of the person's that untrusted text had too.
    pub in_untrusted: u64,
}

impl Traffic {
    /// Results that reached the agent.
    pub const fn results(&self) -> u64 {
        self.trusted
            .saturating_add(self.untrusted)
            .saturating_add(self.streams)
    }

    pub(crate) fn ground(&mut self, grounds: &Grounds) {
        if !grounds.taint.is_empty() {
            plus(&mut self.tainted);
        }
        for taint in grounds.taint.iter().map(ToString::to_string) {
            if self.taint.len() < TAINTS_MAX || self.taint.contains_key(&taint) {
                plus(self.taint.entry(taint).or_default());
            }
        }
        for class in &grounds.classes {
            plus(self.classes.entry(*class).or_default());
        }
        plus(self.risks.entry(grounds.risk).or_default());
        for (name, ground) in &grounds.arguments {
            let carried = self.arguments.entry(name.clone()).or_default();
            plus(&mut carried.calls);
            let _new = carried.authority.insert(ground.authority.as_str());
            let _new = carried.roles.insert(ground.role);
            if let Some(origin) = ground.origin {
                plus(carried.origins.entry(origin).or_default());
            }
            if ground.in_untrusted {
                plus(&mut carried.in_untrusted);
            }
        }
    }
}

/// How many reasons of taint are counted apart: tools of the policy, and two more.
const TAINTS_MAX: usize = 1_000;

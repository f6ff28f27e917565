//! The calls of a session that wait: for a person, or for the end of their turn.

use std::collections::VecDeque;

use custody_wire::agent::Answer;
use gate::{chain::Place, digest::Digest};

/// The most calls of one session that wait at once.
pub(crate) const WAITING: usize = 64;

/// The most answers to deferred calls that are kept until the agent asks again.
const SETTLED: usize = 16;

/// What a call waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum For {
    /// A person.
    Person,
    /// The end of its turn.
    Turn,
}

/// A call that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) call: Digest,
    /// The record that says so; its position is what the call is called by.
    pub(crate) decision: Place,
    /// In milliseconds since 1970.
    pub(crate) expires: u64,
    pub(crate) waits_for: For,
    /// As the agent wrote it.
    pub(crate) tool: String,
    pub(crate) arguments: Vec<u8>,
    /// Why, for the agent.
    pub(crate) said: Said,
}

/// Why a call waits.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) rule: String,
    pub(crate) argument: Option<String>,
    pub(crate) why: String,
}

impl Waiting {
    /// What the agent is told.
    pub(crate) fn answer(&self, number: u64) -> Answer {
        Answer::Held {
            number,
            call: self.call,
            expires: self.expires,
            pending: self.decision.position,
            rule: self.said.rule.clone(),
            argument: self.said.argument.clone(),
            why: self.said.why.clone(),
        }
    }
}

/// The calls that wait, oldest first, and what became of those that did.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Those of a turn that ended, until it is known what became of them.
    ending: Vec<Waiting>,
    waiting: Vec<Waiting>,
    settled: VecDeque<(Digest, Answer)>,
}

/// Too many calls wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Full;

impl Pending {
    pub(crate) fn find(&self, call: Digest) -> Option<&Waiting> {
        let mut all = self.waiting.iter().chain(&self.ending);
        all.find(|it| it.call == call)
    }

    /// Whether one more may wait.
    pub(crate) fn room(&self) -> Result<(), Full> {
        if self.waiting.len().saturating_add(self.ending.len()) < WAITING {
            Ok(())
        } else {
            Err(Full)
        }
    }

    pub(crate) fn add(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
    }

    /// Takes the call out whose record is at `position`, if it still waits.
    pub(crate) fn take(&mut self, position: u64) -> Option<Waiting> {
        let at = self
            .waiting
            .iter()
            .position(|it| it.decision.position == position)?;
        Some(self.waiting.remove(at))
    }

    /// Takes every call out that waits for the end of its turn. Whoever asks for one again is told that it
    /// waits, until it is [over](Self::over): it is not another call.
    pub(crate) fn take_turn(&mut self) -> Vec<Waiting> {
        let taken: Vec<Waiting> = self
            .waiting
            .extract_if(.., |it| it.waits_for == For::Turn)
            .collect();
        self.ending.extend(taken.iter().cloned());
        taken
    }

    /// A call of a turn that ended waits for that no longer.
    pub(crate) fn over(&mut self, call: Digest) {
        self.ending.retain(|it| it.call != call);
    }

    /// Takes every call out.
    pub(crate) fn take_all(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Keeps what became of a deferred call until the agent asks again.
    pub(crate) fn settle(&mut self, call: Digest, answer: Answer) {
        if self.settled.len() == SETTLED {
            drop(self.settled.pop_front());
        }
        self.settled.push_back((call, answer));
    }

    /// What became of it, once.
    pub(crate) fn settled(&mut self, call: Digest) -> Option<Answer> {
        let at = self.settled.iter().position(|(it, _)| *it == call)?;
        self.settled.remove(at).map(|(_, answer)| answer)
    }
}

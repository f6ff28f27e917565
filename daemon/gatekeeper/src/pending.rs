//! The calls of a session that wait: for a person, or for the end of their turn.

use std::{collections::VecDeque, rc::Rc};

use custody_wire::{agent::Answer, session::Outcome};
use gate::{chain::Place, digest::Digest, record::Verification};

use crate::{call::Asked, shown::Shown};

/// The most calls of one session that wait at once.
pub(crate) const WAITING: usize = 64;

/// The most answers that are kept until the agent asks again: each is of a call that waited.
const SETTLED: usize = 1_024;

/// The most bytes of results among them. Beyond it the oldest are kept without their result: that they
/// were performed is not forgotten.
const SETTLED_BYTES: usize = 4 << 20;

/// How many calls that wait no longer are remembered, so that who answers late is told why.
const PAST: usize = 256;

/// What a call waits for.
#[derive(Clone, Debug)]
pub(crate) enum For {
    /// A person, who is shown this.
    Person(Rc<Shown>),
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
    /// The same by the clock that calls are decided by.
    pub(crate) deadline_ms: u64,
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

    fn is(&self, asked: Asked<'_>) -> bool {
        self.tool == asked.tool && self.arguments == asked.arguments
    }
}

/// What became of a call that waited for a person.
#[derive(Clone, Debug)]
pub(crate) enum Past {
    /// It was approved and is on its way.
    Approved,
    /// It is over.
    Over(Outcome),
}

/// What became of a call that waited, until the agent asks for it.
#[derive(Debug)]
struct Settled {
    tool: String,
    arguments: Vec<u8>,
    answer: Answer,
}

/// The calls that wait, oldest first, and what became of those that did.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Those that are on their way, until it is known what became of them.
    ending: Vec<Waiting>,
    waiting: Vec<Waiting>,
    settled: VecDeque<Settled>,
    past: VecDeque<(u64, Past)>,
}

/// Too many calls wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Full;

impl Pending {
    pub(crate) fn find(&self, call: Digest) -> Option<&Waiting> {
        let mut all = self.waiting.iter().chain(&self.ending);
        all.find(|it| it.call == call)
    }

    /// The call whose record is at `position`, if it still waits.
    pub(crate) fn at(&self, position: u64) -> Option<&Waiting> {
        self.waiting
            .iter()
            .find(|it| it.decision.position == position)
    }

    /// The calls that wait.
    pub(crate) fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// A call that is on its way, as the agent wrote it.
    pub(crate) fn on_its_way(&self, asked: Asked<'_>) -> Option<&Waiting> {
        self.ending.iter().find(|it| it.is(asked))
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

    /// Takes the call out that is to be performed. Whoever asks for it again is told that it waits, until
    /// it is [over](Self::over): it is not another call.
    pub(crate) fn take_approved(&mut self, position: u64) -> Option<Waiting> {
        let taken = self.take(position)?;
        self.ending.push(taken.clone());
        self.past(position, Past::Approved);
        Some(taken)
    }

    /// The same with every call that waits for the end of its turn.
    pub(crate) fn take_turn(&mut self) -> Vec<Waiting> {
        let taken: Vec<Waiting> = self
            .waiting
            .extract_if(.., |it| matches!(it.waits_for, For::Turn))
            .collect();
        self.ending.extend(taken.iter().cloned());
        taken
    }

    /// A call that was on its way is not any longer.
    pub(crate) fn over(&mut self, call: Digest) {
        self.ending.retain(|it| it.call != call);
    }

    /// Takes every call out.
    pub(crate) fn take_all(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Remembers what became of a call that waited for a person.
    pub(crate) fn past(&mut self, position: u64, past: Past) {
        match self.past.iter_mut().find(|(at, _)| *at == position) {
            Some((_, it)) => *it = past,
            None => {
                if self.past.len() == PAST {
                    drop(self.past.pop_front());
                }
                self.past.push_back((position, past));
            }
        }
    }

    /// What became of it.
    pub(crate) fn was(&self, position: u64) -> Option<&Past> {
        let (_, past) = self.past.iter().find(|(at, _)| *at == position)?;
        Some(past)
    }

    /// What became of those that are remembered and over.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (u64, Outcome)> {
        self.past.iter().filter_map(|(at, past)| match past {
            Past::Approved => None,
            Past::Over(outcome) => Some((*at, outcome.clone())),
        })
    }

    /// Keeps what became of a call that waited until the agent asks again.
    pub(crate) fn settle(&mut self, waiting: &Waiting, answer: Answer) {
        if self.settled.len() == SETTLED {
            drop(self.settled.pop_front());
        }
        self.settled.push_back(Settled {
            tool: waiting.tool.clone(),
            arguments: waiting.arguments.clone(),
            answer,
        });
        let mut bytes = 0_usize;
        for settled in self.settled.iter_mut().rev() {
            if let Answer::Done {
                result,
                status,
                verification,
                ..
            } = &settled.answer
            {
                bytes = bytes.saturating_add(result.len());
                if bytes > SETTLED_BYTES {
                    settled.answer = without_result(*status, verification.clone());
                }
            }
        }
    }

    /// What became of it, once.
    pub(crate) fn settled(&mut self, asked: Asked<'_>) -> Option<Answer> {
        let at = self
            .settled
            .iter()
            .position(|it| it.tool == asked.tool && it.arguments == asked.arguments)?;
        self.settled.remove(at).map(|it| it.answer)
    }
}

fn without_result(status: u16, verification: Verification) -> Answer {
    Answer::Failed {
        number: 0,
        why: format!(
            "the call was performed (status {status}), and its result is no longer kept: more than \
             {} MiB of results waited to be asked for",
            SETTLED_BYTES >> 20
        ),
        in_doubt: true,
        verification,
    }
}

//! What is asked, answered and kept. Times are milliseconds since 1970.

use std::fmt;

use gate::{
    approval::Scope,
    chain::Place,
    digest::Digest,
    id::{PolicyName, SessionId, ToolName},
};
use serde::{Deserialize, Serialize};

/// What a waiting call is called by: its session, and the position of the record that holds it. A ledger
/// gives a position once, and a session's number is drawn at random: no two daemons share both.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The session.
    pub session: SessionId,
    /// The record's position: what people call it by.
    pub position: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of session {}", self.position, self.session)
    }
}

/// A held call: what the store goes by, and what a reviewer is shown.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The digest of the call: what an approval binds.
    pub call: Digest,
    /// Who runs the session.
    pub caller: u32,
    /// What the call does to the world, by the names of the classes.
    pub classes: Vec<String>,
    /// The record that holds it.
    pub decision: Place,
    /// When it lapses.
    pub expires: u64,
    /// Which daemon of this host holds it.
    pub instance: String,
    /// The session's policy.
    pub policy: PolicyName,
    /// The session that asks.
    pub session: SessionId,
    /// Since when it waits.
    pub since: u64,
    /// The tool.
    pub tool: ToolName,
    /// All that the gate said of it, as JSON: the call's bytes, why it is held, whose its values are. It
    /// is kept and signed, and means nothing here.
    pub waits: String,
}

impl Asked {
    /// What it is called by.
    pub const fn key(&self) -> Key {
        Key {
            session: self.session,
            position: self.decision.position,
        }
    }
}

/// Who answered.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewer {
    /// As the kernel said.
    pub uid: u32,
    /// The key that he signed with, if he did: its fingerprint.
    pub key: Option<String>,
}

/// What he said.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Word {
    /// Yes.
    Approve {
        /// How far.
        scope: Scope,
    },
    /// No.
    Refuse {
        /// Why.
        why: String,
    },
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// When.
    pub at: u64,
    /// Who.
    pub by: Reviewer,
    /// The digest of the bytes that he was shown, as his own program computed it.
    pub call: Digest,
    /// The signed statement, if there is one.
    pub statement: Option<String>,
    /// Its signature (SSHSIG).
    pub signature: Option<String>,
    /// What.
    pub word: Word,
}

/// Where a call that waited is now.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A reviewer said yes; the gate was not told yet.
    Approved,
    /// It was performed.
    Done,
    /// It was not performed, or without effect.
    Failed,
    /// It may have been performed.
    InDoubt,
    /// Nobody answered in time, or the answer came too late to be used.
    Lapsed,
    /// It will not be performed.
    Refused,
    /// The approval is used; the outcome is not known yet.
    Taken,
    /// Nobody answered yet.
    Waiting,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Approved,
        Self::Done,
        Self::Failed,
        Self::InDoubt,
        Self::Lapsed,
        Self::Refused,
        Self::Taken,
        Self::Waiting,
    ];

    /// The state, in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Lapsed => "lapsed",
            Self::Refused => "refused",
            Self::Taken => "taken",
            Self::Waiting => "waiting",
        }
    }

    /// Whether nothing comes after it.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::InDoubt | Self::Lapsed | Self::Refused => true,
            Self::Approved | Self::Taken | Self::Waiting => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How it ended.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Over {
    /// When.
    pub at: u64,
    /// In words.
    pub why: String,
}

/// A row: what was asked and all that came of it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The answer, if there is one.
    pub answered: Option<Answered>,
    /// What was asked.
    pub asked: Asked,
    /// How often an approval was taken and given back unused.
    pub given_back: u32,
    /// How it ended, if it did.
    pub over: Option<Over>,
    /// Where it is.
    pub state: State,
    /// When it was taken, if it was.
    pub taken: Option<u64>,
}

impl Approval {
    /// A call that begins to wait.
    pub const fn new(asked: Asked) -> Self {
        Self {
            answered: None,
            asked,
            given_back: 0,
            over: None,
            state: State::Waiting,
            taken: None,
        }
    }

    /// Until when it may be answered, or its approval be used.
    pub fn until(&self) -> u64 {
        let limit = match self.answered.as_ref().map(|it| &it.word) {
            Some(Word::Approve { scope }) => scope.until,
            Some(Word::Refuse { .. }) | None => None,
        };
        limit.map_or(self.asked.expires, |it| it.min(self.asked.expires))
    }
}

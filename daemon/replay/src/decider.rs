//! Who decides: the seam between a replay and what it measures.

use std::collections::{BTreeMap, BTreeSet};

use gate::{
    id::{OwnedName, RoleName, TenantName, ValueName},
    json::Value,
    meaning::Subject,
};
use serde::Deserialize;

/// What a session is opened with.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// The uid of who asked for it.
    #[serde(default)]
    pub caller: Option<u32>,
    /// Owned sets, as the application says them.
    #[serde(default)]
    pub owned: BTreeMap<OwnedName, Vec<String>>,
    /// The roles that it has.
    #[serde(default)]
    pub roles: BTreeSet<RoleName>,
    /// For whom it works.
    #[serde(default)]
    pub subject: Option<Subject>,
    /// What the person asked for.
    #[serde(default)]
    pub task: Option<String>,
    /// In whose name.
    #[serde(default)]
    pub tenant: Option<TenantName>,
    /// Trusted values, as the application says them.
    #[serde(default)]
    pub values: BTreeMap<ValueName, String>,
    /// Whether there is a workspace.
    #[serde(default)]
    pub workspace: bool,
}

impl Opening {
    /// Of what a person asked for, and nothing else.
    pub fn task(task: &str) -> Self {
        Self {
            task: Some(task.into()),
            ..Self::default()
        }
    }
}

/// What is said of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Answer {
    /// It is performed.
    Allow,
    /// A person is asked.
    Hold(String),
    /// It is not performed, and no person can change that.
    Refuse(String),
}

/// Decides on the calls of sessions.
pub trait Decider {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// A new session.
    ///
    /// # Errors
    /// When this decider has no session that is opened with that.
    fn open(&self, opening: &Opening) -> Result<Box<dyn Session + '_>, String>;
}

/// One session.
pub trait Session {
    /// What is said of this call, now. Nothing is performed.
    fn decide(&mut self, tool: &str, arguments: &Value) -> Answer;

    /// The call was performed, and this came back.
    fn record(&mut self, tool: &str, arguments: &Value, result: &Recorded);
}

/// What came back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Recorded {
    /// The tool failed and said so: anyone's words.
    Failed(String),
    /// Its result.
    Result(Value),
}

/// Everything is allowed: what happens without a gate.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Decider for Nobody {
    fn name(&self) -> &str {
        "none"
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Session + '_>, String> {
        Ok(Box::new(Self))
    }
}

impl Session for Nobody {
    fn decide(&mut self, _tool: &str, _arguments: &Value) -> Answer {
        Answer::Allow
    }

    fn record(&mut self, _tool: &str, _arguments: &Value, _result: &Recorded) {}
}

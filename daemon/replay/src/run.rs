//! One task: alone, or with an agent that obeys one attack fully.
//!
//! No model runs. The person's work is the recorded calls. In an attacked run every marker is replaced
//! by the attack's text; right after the first call of the person's whose result holds a marker the agent
//! makes the attack's calls, and then goes on. If that call was not performed, the text never arrived.

use std::collections::{BTreeMap, BTreeSet};

use gate::json::{self, Value};

use crate::{
    decider::{Answer, Decider, Opening, Recorded, Session},
    format::{InjectionTask, RecordedCall, Suite, UserTask},
    marker::{self, Fill},
};

/// Who answers questions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reviewer {
    /// Nobody: what is held is not performed.
    Absent,
    /// A person who approves every call of the task and none of the attack: an upper bound.
    Oracle,
}

/// What became of one task that nobody attacked.
#[derive(Debug, Default)]
pub struct Benign {
    /// Every call was allowed without a question.
    pub auto: bool,
    /// The questions and refusals.
    pub stopped: Vec<Stopped>,
    /// The calls without which the task is not done were all performed.
    pub useful: bool,
}

/// A call that was not simply allowed.
#[derive(Debug)]
pub struct Stopped {
    /// Which call of the task.
    pub index: usize,
    /// Whether a person was asked.
    pub question: bool,
    /// The tool.
    pub tool: String,
    /// Why.
    pub why: String,
}

/// What became of one attack.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Attacked {
    /// The attack's text reached the agent.
    pub delivered: bool,
    /// What stopped each call of the attack that was not performed.
    pub stopped: Vec<String>,
    /// The attack has what it wanted.
    pub won: bool,
}

/// What each call of the attacker's gives back: the result that was recorded for the same call in
/// another task of the suite, if there is one. Without that, an attacker's reads would bring nothing
/// that he could use.
#[derive(Debug)]
pub struct Elsewhere<'a>(BTreeMap<(&'a str, Vec<u8>), &'a RecordedCall>);

impl<'a> Elsewhere<'a> {
    /// Everything that the suite has recorded.
    pub fn of(suite: &'a Suite) -> Self {
        let calls = suite.user_tasks.iter().flat_map(|it| &it.calls);
        let mut known = BTreeMap::new();
        for call in calls {
            let args = marker::fill(&call.args, Fill::Default(&suite.vectors));
            known
                .entry((call.tool.as_str(), json::canonical(&args)))
                .or_insert(call);
        }
        Self(known)
    }

    fn find(&self, tool: &str, args: &Value) -> Option<&'a RecordedCall> {
        self.0.get(&(tool, json::canonical(args))).copied()
    }
}

/// Runs `task` as it is.
///
/// # Errors
/// When the decider has no session for it.
pub fn benign(
    suite: &Suite,
    task: &UserTask,
    decider: &dyn Decider,
    reviewer: Reviewer,
) -> Result<Benign, String> {
    let mut session = decider.open(&Opening::task(&task.prompt))?;
    let mut executed = BTreeSet::new();
    let mut done = Benign::default();
    for (index, call) in task.calls.iter().enumerate() {
        let filled = Filled::new(call, Fill::Default(&suite.vectors));
        let answer = session.decide(&call.tool, &filled.args);
        let (question, why) = match answer {
            Answer::Allow => (None, String::new()),
            Answer::Hold(why) => (Some(true), why),
            Answer::Refuse(why) => (Some(false), why),
        };
        if let Some(question) = question {
            done.stopped.push(Stopped {
                index,
                question,
                tool: call.tool.clone(),
                why,
            });
        }
        if performed(question, reviewer) {
            executed.insert(index);
            session.record(&call.tool, &filled.args, &filled.result);
        }
    }
    done.auto = done.stopped.is_empty();
    done.useful = task.required_calls.is_subset(&executed);
    Ok(done)
}

/// Whether a call that met `question` (none, a question, a refusal) is performed.
fn performed(question: Option<bool>, reviewer: Reviewer) -> bool {
    match question {
        None => true,
        Some(true) => reviewer == Reviewer::Oracle,
        Some(false) => false,
    }
}

/// Runs `task` with `attack` in every marker.
///
/// # Errors
/// When the decider has no session for it.
pub fn attacked(
    elsewhere: &Elsewhere<'_>,
    task: &UserTask,
    attack: &InjectionTask,
    text: &str,
    decider: &dyn Decider,
    reviewer: Reviewer,
) -> Result<Attacked, String> {
    let mut session = decider.open(&Opening::task(&task.prompt))?;
    let mut done = Attacked::default();
    for call in &task.calls {
        let filled = Filled::new(call, Fill::Attack(text));
        let question = match session.decide(&call.tool, &filled.args) {
            Answer::Allow => None,
            Answer::Hold(_) => Some(true),
            Answer::Refuse(_) => Some(false),
        };
        if !performed(question, reviewer) {
            continue;
        }
        session.record(&call.tool, &filled.args, &filled.result);
        if !done.delivered && !call.vectors.is_empty() {
            done.delivered = true;
            obey(&mut *session, elsewhere, attack, text, &mut done);
        }
    }
    Ok(done)
}

fn obey(
    session: &mut dyn Session,
    elsewhere: &Elsewhere<'_>,
    attack: &InjectionTask,
    text: &str,
    done: &mut Attacked,
) {
    let mut executed = BTreeSet::new();
    for (index, call) in attack.calls.iter().enumerate() {
        match session.decide(&call.tool, &call.args) {
            Answer::Allow => {
                executed.insert(index);
                if let Some(known) = elsewhere.find(&call.tool, &call.args) {
                    let filled = Filled::new(known, Fill::Attack(text));
                    session.record(&call.tool, &call.args, &filled.result);
                }
            }
            Answer::Hold(why) | Answer::Refuse(why) => {
                done.stopped.push(format!("{}: {why}", call.tool));
            }
        }
    }
    done.won = attack
        .minimal_success_sets
        .iter()
        .any(|set| set.is_subset(&executed));
}

struct Filled {
    args: Value,
    result: Recorded,
}

impl Filled {
    fn new(call: &RecordedCall, with: Fill<'_>) -> Self {
        Self {
            args: marker::fill(&call.args, with),
            result: match &call.error {
                None => Recorded::Result(marker::fill(&call.result, with)),
                Some(why) => Recorded::Failed(marker::fill_text(why, with)),
            },
        }
    }
}

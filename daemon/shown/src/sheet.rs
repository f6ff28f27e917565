//! A call on one sheet.

use custody_wire::{
    operator::{Shown, State},
    session::{Valued, Waits},
};
use gate::{
    approval::{Needs, Reach, Scope},
    call::Call,
    digest::Digest,
    json::{self, Value},
};
use serde::Serialize;

use crate::{
    inert,
    words::{moment, until},
};

/// Why there is no sheet: then there is nothing to answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SheetError {
    /// The service's digest is of other bytes.
    #[error(
        "the service says digest {said} of call {pending}, and its bytes have {found}: it is not answered; \
         the service or its store was changed"
    )]
    Digest {
        /// Which call.
        pending: u64,
        /// What it says.
        said: Digest,
        /// What the bytes have.
        found: Digest,
    },
    /// The bytes are no call.
    #[error("the bytes of call {pending} are no call: {why}")]
    NotACall {
        /// Which.
        pending: u64,
        /// What is wrong.
        why: String,
    },
    /// The tool is another than the call's.
    #[error("the service says tool {said} of call {pending}, and its bytes say {found}")]
    Tool {
        /// Which.
        pending: u64,
        /// What it says.
        said: String,
        /// What the bytes say.
        found: String,
    },
}

/// Everything that a reviewer is shown. All texts are inert.
#[derive(Clone, Debug, Serialize)]
pub struct Sheet {
    /// What the call is called.
    pub pending: u64,
    /// The digest, taken here from the bytes.
    pub digest: Digest,
    /// Where it is, in a word.
    pub state: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// What is known of it, each with its name.
    pub facts: Vec<Fact>,
    /// Why it waits.
    pub reasons: Vec<Why>,
    /// Every argument of the call.
    pub arguments: Vec<Argument>,
    /// Why the session is tainted.
    pub taint: Vec<String>,
    /// Why the viewer may not answer; none if he may.
    pub not_yours: Option<String>,
}

/// Something that is known of a call.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// What.
    pub name: &'static str,
    /// It.
    pub text: String,
}

/// Why a call waits.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    /// The rule.
    pub rule: String,
    /// The argument, if one.
    pub argument: Option<String>,
    /// Why.
    pub why: String,
    /// What would change it.
    pub change: String,
}

/// An argument and its origin.
#[derive(Clone, Debug, Serialize)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its value, line by line.
    pub value: Vec<Line>,
    /// Whether it is a text; otherwise it is shown as JSON.
    pub is_text: bool,
    /// What is unusual: characters that look like others, or like nothing.
    pub unusual: Option<String>,
    /// What it is to the effect, who authored it, from where it comes.
    pub origin: String,
    /// Where it was said, with the text around it.
    pub said_by: Vec<Said>,
}

/// A line of a value.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Line(pub String);

/// A place that said a value.
#[derive(Clone, Debug, Serialize)]
pub struct Said {
    /// Which.
    pub place: String,
    /// The text around it, if it is kept.
    pub excerpt: Option<String>,
}

impl Sheet {
    /// What is shown of `shown`.
    ///
    /// # Errors
    /// When the bytes are not those of the digest, or no call.
    pub fn of(shown: &Shown, now: u64) -> Result<Self, SheetError> {
        let waits = &shown.waits;
        let pending = waits.decision.position;
        let found = Call::digest_of(&waits.call);
        if found != waits.digest {
            return Err(SheetError::Digest {
                pending,
                said: waits.digest,
                found,
            });
        }
        let call = Call::from_bytes(&waits.call).map_err(|error| SheetError::NotACall {
            pending,
            why: error.to_string(),
        })?;
        if call.tool != waits.tool {
            return Err(SheetError::Tool {
                pending,
                said: waits.tool.to_string(),
                found: call.tool.to_string(),
            });
        }
        let arguments = call.arguments.iter().map(|(name, value)| {
            let valued = waits.values.iter().find(|it| it.argument == *name);
            argument(name.as_str(), value, valued)
        });
        Ok(Self {
            pending,
            digest: found,
            state: shown.state.as_str(),
            needs: waits.needs,
            facts: facts(shown, now),
            reasons: waits
                .reasons
                .iter()
                .map(|it| Why {
                    rule: inert::line(&it.rule),
                    argument: it.argument.as_ref().map(ToString::to_string),
                    why: inert::line(&it.why),
                    change: inert::line(&it.change),
                })
                .collect(),
            arguments: arguments.collect(),
            taint: waits.taint.iter().map(|it| inert::line(it)).collect(),
            not_yours: shown.not_yours.as_deref().map(inert::line),
        })
    }

    /// Whether it waits for the viewer.
    pub fn is_to_answer(&self) -> bool {
        self.not_yours.is_none() && self.state == State::Waiting.as_str()
    }
}

fn facts(shown: &Shown, now: u64) -> Vec<Fact> {
    let waits = &shown.waits;
    let mut facts = vec![
        fact("tool", waits.tool.to_string()),
        fact("does", does(waits)),
        fact("policy", format!("{}, {}", waits.policy, waits.policy_hash)),
        fact("session", waits.session.to_string()),
        fact("run by", format!("uid {}", waits.caller_uid)),
    ];
    if !waits.from.is_empty() {
        let from: Vec<String> = waits.from.iter().map(ToString::to_string).collect();
        facts.push(fact("delegated", format!("from {}", from.join(", from "))));
    }
    if let Some(task) = &waits.task {
        facts.push(fact("his words", inert::line(task)));
    }
    facts.push(fact("since", moment(waits.since)));
    let left = match shown.state {
        State::Waiting => format!(" ({})", until(now, waits.expires)),
        State::Approved
        | State::Done
        | State::Failed
        | State::InDoubt
        | State::Lapsed
        | State::Refused => String::new(),
    };
    facts.push(fact("until", format!("{}{left}", moment(waits.expires))));
    facts.push(fact(
        "needs",
        match waits.needs {
            Needs::Approval => "a reviewer's approval".into(),
            Needs::Signature => "a reviewer's signature, which the vault checks".into(),
        },
    ));
    facts.push(fact(
        "record",
        format!("{} {}", waits.decision.position, waits.decision.digest),
    ));
    if let Some(said) = &shown.answered {
        let key = said
            .key
            .as_ref()
            .map_or_else(String::new, |key| format!(", key {}", inert::line(key)));
        let word = said.scope.map_or_else(|| "refused".into(), scope);
        let (uid, at) = (said.uid, moment(said.at));
        facts.push(fact("answer", format!("{word} by uid {uid}{key}, {at}")));
    }
    if let Some(over) = &shown.over {
        let text = format!("{}, {}", inert::line(&over.why), moment(over.at));
        facts.push(fact("outcome", text));
    }
    facts
}

fn does(waits: &Waits) -> String {
    let classes = if waits.classes.is_empty() {
        "no class".into()
    } else {
        waits.classes.join(", ")
    };
    inert::line(&format!("{classes}; risk {}", waits.risk))
}

/// How far an approval goes, in words.
pub fn scope(scope: Scope) -> String {
    let reach = match scope.reach {
        Reach::Call => "approved for this call as often as the session makes it",
        Reach::Once => "approved once",
        Reach::Target => "approved for calls with this target in this session",
    };
    match scope.until {
        Some(until) => format!("{reach}, until {}", moment(until)),
        None => reach.into(),
    }
}

const fn fact(name: &'static str, text: String) -> Fact {
    Fact { name, text }
}

fn argument(name: &str, value: &Value, valued: Option<&Valued>) -> Argument {
    let (text, is_text) = match value {
        Value::Text(text) => (text.clone(), true),
        other @ (Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Object(_)
        | Value::Real(_)) => (
            String::from_utf8_lossy(&json::canonical(other)).into_owned(),
            false,
        ),
    };
    let value: Vec<Line> = text
        .split('\n')
        .map(|line| Line(inert::line(line)))
        .collect();
    Argument {
        name: name.into(),
        is_text,
        unusual: unusual(&text),
        value,
        origin: valued.map_or_else(|| "nothing is known of it".into(), origin),
        said_by: valued
            .into_iter()
            .flat_map(|it| &it.said_by)
            .map(|it| Said {
                place: inert::line(&it.place),
                excerpt: it.excerpt.as_deref().map(inert::line),
            })
            .collect(),
    }
}

fn origin(valued: &Valued) -> String {
    let from = valued
        .origin
        .as_ref()
        .map_or_else(String::new, |it| format!("; it comes from: {it}"));
    inert::line(&format!(
        "{}, authored by: {}{from}",
        valued.role, valued.authority
    ))
}

/// The characters outside ASCII by their numbers: an `а` that is no `a` is seen here.
fn unusual(text: &str) -> Option<String> {
    let mut numbers: Vec<String> = text
        .chars()
        .filter(|it| !it.is_ascii())
        .map(|it| format!("U+{:04X}", u32::from(it)))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return None;
    }
    let more = numbers.len().saturating_sub(NUMBERS);
    numbers.truncate(NUMBERS);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    Some(format!(
        "characters outside ASCII: {}{more}",
        numbers.join(" ")
    ))
}

/// So many are named.
const NUMBERS: usize = 12;

//! What a decision record says, as far as it is counted.

use custody_ledger::lookup::member;
use gate::{
    decide::{Grounds, Reason, Rule},
    json::{self, Value},
};
use serde::de::DeserializeOwned;

use crate::source::Record;

/// A record, as far as it is counted.
#[derive(Debug)]
pub(crate) struct Seen {
    /// When, by the host's clock.
    pub(crate) at: u64,
    /// The session; none for a start of the gate.
    pub(crate) session: Option<String>,
    /// What.
    pub(crate) event: Event,
}

/// What is counted of a record.
#[derive(Debug)]
pub(crate) enum Event {
    /// A call was asked for.
    Asked(Asked),
    /// A reviewer answered the call that was held at this position.
    Answered { held: u64, approved: bool },
    /// The session is over.
    Closed,
    /// A call that was held or deferred at this position waits no longer.
    Lapsed { waited: u64 },
    /// A session was opened: what the policy with this digest is called.
    Opened { policy: String, name: String },
    /// What an effect brought reached the agent, or how it failed.
    Result { tool: String, says: Brought },
    /// The gate started: nothing of an earlier run waits any more.
    Started,
}

/// A call that was asked for, and what was said of it.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The tool: of a refused call whatever the agent wrote.
    pub(crate) tool: String,
    /// The policy's digest.
    pub(crate) policy: String,
    /// What was said.
    pub(crate) said: Said,
    /// What it rests on, where that was asked.
    pub(crate) grounds: Option<Grounds>,
}

/// What was said of a call.
#[derive(Debug)]
pub(crate) enum Said {
    /// It may be performed; by an approval, if one is named.
    Allowed { approval: Option<u64> },
    /// It waits for the end of its turn, and is decided on again then.
    Deferred,
    /// It waits for a person until then, for these reasons.
    Held { expires: u64, reasons: Vec<Reason> },
    /// It was refused by this rule: before or after the policy's tool was found.
    Refused { rule: String, tool: Found },
}

/// Whether the name of a refused call's tool is one of the policy's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    /// The policy has it.
    InPolicy,
    /// Nobody looked: the name is whatever the agent wrote.
    Unknown,
}

/// What came back of an effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Brought {
    /// It failed.
    Failed,
    /// A stream, of which nobody keeps the text.
    Stream,
    /// The operator vouches for the result.
    Trusted,
    /// Anyone's words.
    Untrusted,
}

/// Something that is counted is not there: withheld, or of a form that this version does not know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unread;

/// What is counted of `record`; none if nothing is.
pub(crate) fn read(record: Record<'_>) -> Result<Option<Seen>, Unread> {
    let it = Fields(record.fields);
    let event = match record.kind {
        "allowed" | "deferred" | "held" | "refused" => Event::Asked(asked(record.kind, &it)?),
        "approved" | "reviewer_refused" => Event::Answered {
            held: it.number(&["decision", "position"])?,
            approved: record.kind == "approved",
        },
        "lapsed" => Event::Lapsed {
            waited: it.number(&["decision", "position"])?,
        },
        "opened" => Event::Opened {
            policy: it.text(&["policy"])?,
            name: it.text(&["name"])?,
        },
        "done" => Event::Result {
            tool: it.text(&["tool"])?,
            says: match it.text(&["label"])?.as_str() {
                "trusted" => Brought::Trusted,
                "untrusted" => Brought::Untrusted,
                _ => return Err(Unread),
            },
        },
        "failed" => Event::Result {
            tool: it.text(&["tool"])?,
            says: Brought::Failed,
        },
        "streamed" => Event::Result {
            tool: it.text(&["tool"])?,
            says: Brought::Stream,
        },
        "started" => Event::Started,
        "closed" => Event::Closed,
        "handed_off" | "narrowed" | "said" | "turn_ended" => return Ok(None),
        _ => return Err(Unread),
    };
    Ok(Some(Seen {
        at: it.number(&["at"])?,
        session: match event {
            Event::Started => None,
            Event::Answered { .. }
            | Event::Asked(_)
            | Event::Closed
            | Event::Lapsed { .. }
            | Event::Opened { .. }
            | Event::Result { .. } => Some(it.text(&["session"])?),
        },
        event,
    }))
}

fn asked(kind: &str, it: &Fields<'_>) -> Result<Asked, Unread> {
    let grounds = it.typed::<Grounds>("grounds")?;
    let said = match kind {
        "allowed" => Said::Allowed {
            approval: grounds
                .as_ref()
                .and_then(|it| it.approval)
                .map(|it| it.position),
        },
        "deferred" => Said::Deferred,
        "held" => Said::Held {
            expires: it.number(&["expires"])?,
            reasons: it.typed("reasons")?.ok_or(Unread)?,
        },
        _ => refused(it)?,
    };
    let needed = match said {
        Said::Refused { .. } => false,
        Said::Allowed { .. } | Said::Deferred | Said::Held { .. } => true,
    };
    if needed && grounds.is_none() {
        return Err(Unread);
    }
    let tool = match kind {
        "refused" => it.text(&["tool"])?,
        _ => it.text(&["call", "tool"])?,
    };
    Ok(Asked {
        tool,
        policy: it.text(&["policy"])?,
        said,
        grounds,
    })
}

/// A rule of the gate's says what would change its answer; what refuses a call before that is asked (a rule of the
/// service, arguments that cannot be read) does not, and has looked up no tool.
fn refused(it: &Fields<'_>) -> Result<Said, Unread> {
    let rule = it.text(&["rule"])?;
    let looked = rule != Rule::UnknownTool.as_str() && it.text(&["change"]).is_ok();
    Ok(Said::Refused {
        tool: if looked {
            Found::InPolicy
        } else {
            Found::Unknown
        },
        rule,
    })
}

struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn text(&self, path: &[&str]) -> Result<String, Unread> {
        match member(self.0, path) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(Unread),
        }
    }

    fn number(&self, path: &[&str]) -> Result<u64, Unread> {
        match member(self.0, path) {
            Some(Value::Int(number)) => u64::try_from(number.get()).map_err(|_negative| Unread),
            _ => Err(Unread),
        }
    }

    /// A member that may be missing, and is of this form where it is there.
    fn typed<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Unread> {
        member(self.0, &[name])
            .map(|it| serde_json::from_slice(&json::canonical(it)).map_err(|_form| Unread))
            .transpose()
    }
}

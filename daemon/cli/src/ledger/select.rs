//! Which records are wanted.

use custody_ledger::{lookup::member, reader::Entry};
use gate::{chain::ChainName, id::SessionId, json::Value};

/// Which records are wanted: all that every given filter lets through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only of this chain.
    pub chain: Option<ChainName>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only with this outcome.
    pub outcome: Option<String>,
    /// Only from this time on, in milliseconds since 1970, by the host's clock.
    pub since: Option<u64>,
}

impl Filter {
    /// Whether a record is wanted.
    pub fn takes(&self, entry: &Entry) -> bool {
        self.chain.is_none_or(|chain| entry.chain == chain)
            && self
                .session
                .is_none_or(|session| self::session(entry) == Some(&session.to_string()))
            && self
                .tool
                .as_deref()
                .is_none_or(|wanted| tool(entry) == Some(wanted))
            && self
                .outcome
                .as_deref()
                .is_none_or(|wanted| outcome(entry) == wanted || entry.kind == wanted)
            && self
                .since
                .is_none_or(|since| at(entry).is_some_and(|at| at >= since))
    }
}

fn text<'a>(entry: &'a Entry, path: &[&str]) -> Option<&'a String> {
    match member(&entry.fields, path) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// When, by the host's clock.
pub fn at(entry: &Entry) -> Option<u64> {
    match member(&entry.fields, &["at"]) {
        Some(Value::Int(at)) => u64::try_from(at.get()).ok(),
        _ => None,
    }
}

/// The session.
pub fn session(entry: &Entry) -> Option<&String> {
    text(entry, &["session"]).or_else(|| text(entry, &["effect", "session"]))
}

/// The tool.
pub fn tool(entry: &Entry) -> Option<&str> {
    text(entry, &["tool"])
        .or_else(|| text(entry, &["call", "tool"]))
        .or_else(|| text(entry, &["effect", "tool"]))
        .map(String::as_str)
}

/// In one word what it says: a receipt's outcome, a failure in doubt, else the record's kind.
pub fn outcome(entry: &Entry) -> &str {
    if let Some(Value::Object(members)) = member(&entry.fields, &["outcome"])
        && let Some((name, _says)) = members.first_key_value()
    {
        return name;
    }
    match member(&entry.fields, &["in_doubt"]) {
        Some(Value::Bool(true)) => "in_doubt",
        _ => &entry.kind,
    }
}

/// Why, in a few words: a rule, a reason.
pub fn why(entry: &Entry) -> Option<&str> {
    let outcome = outcome(entry).to_owned();
    text(entry, &["rule"])
        .or_else(|| text(entry, &["why"]))
        .or_else(|| text(entry, &["outcome", &outcome, "why"]))
        .map(String::as_str)
}

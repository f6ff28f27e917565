//! Fields of results that untrusted text repeats, and results that nobody labelled.
//!
//! The gate writes down of an argument whether untrusted text has its value too ([`gate::decide::Ground`]), and
//! the places that said it, the best first. So a field that a policy vouches for, and whose value stood in
//! untrusted text as well, shows in the records wherever a call used that value in a tainted session, under
//! `on_taint = "origins"`. What no call used is not in the records, nor is which of the two came first.

use std::collections::BTreeMap;

use gate::{
    decide::Grounds,
    policy::{FieldLabel, OriginClass},
};
use serde::Serialize;

use crate::{
    declared::{self, Policies},
    tally::{Tally, ToolKey},
    traffic::Traffic,
};

/// Where untrusted text had a value that a result's field vouches for: by policy, tool and pointer of the field.
#[derive(Debug, Default)]
pub struct Sightings {
    seen: BTreeMap<(ToolKey, String), Seen>,
    /// Sightings of more fields than are kept.
    pub more: u64,
}

#[derive(Debug, Default)]
struct Seen {
    count: u64,
    used_by: BTreeMap<String, u64>,
    also_in: BTreeMap<String, u64>,
}

/// A field whose values untrusted text had too.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Repeated {
    /// The policy.
    pub policy: String,
    /// The tool whose result has the field.
    pub tool: String,
    /// The field, as the policy names it where one was given; else with `*` for each number.
    pub field: String,
    /// Whose word the policy says that it is, where one was given.
    pub label: Option<FieldLabel>,
    /// Values of calls that were seen in both.
    pub values: u64,
    /// Which arguments carried them.
    pub used_by: BTreeMap<String, u64>,
    /// Where the untrusted text stood: `tool pointer`, or what else brought it.
    pub also_in: BTreeMap<String, u64>,
}

/// A tool that brought results, and of which the policy's file says nothing about them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Unlabelled {
    /// The policy.
    pub policy: String,
    /// The tool.
    pub tool: String,
    /// How many results it brought: all taken for anyone's words.
    pub results: u64,
}

impl Sightings {
    /// The values of a call of `tool`.
    pub(crate) fn take(&mut self, tool: &ToolKey, grounds: &Grounds) {
        for (name, ground) in &grounds.arguments {
            let vouched = match ground.origin {
                Some(OriginClass::Authoritative | OriginClass::Derived | OriginClass::System) => {
                    true
                }
                Some(OriginClass::Untrusted | OriginClass::Unknown) | None => false,
            };
            let [first, .., last] = ground.said_by.as_slice() else {
                continue;
            };
            // What the person said himself rests on no label.
            let Some(place) = place(first).filter(|_| vouched && ground.in_untrusted) else {
                continue;
            };
            let field = ToolKey {
                policy: tool.policy.clone(),
                tool: place.tool.into(),
            };
            let key = (field, declared::general(place.pointer));
            if self.seen.len() >= FIELDS_MAX && !self.seen.contains_key(&key) {
                self.more = self.more.saturating_add(1);
                continue;
            }
            let seen = self.seen.entry(key).or_default();
            seen.count = seen.count.saturating_add(1);
            count(&mut seen.used_by, format!("{}.{name}", tool.tool));
            count(&mut seen.also_in, elsewhere(last));
        }
    }
}

fn count(of: &mut BTreeMap<String, u64>, what: String) {
    let what = if of.len() < PLACES_MAX || of.contains_key(&what) {
        what
    } else {
        "other places".into()
    };
    let count = of.entry(what).or_default();
    *count = count.saturating_add(1);
}

/// A place of a result, out of the gate's sentence for it.
struct Place<'a> {
    tool: &'a str,
    pointer: &'a str,
}

/// "found as a field in a result of `list_events` at /2/id". No backtick is in a pointer that is quoted, so the
/// words before one are the gate's.
fn place(said: &str) -> Option<Place<'_>> {
    let (_how, rest) = said.split_once("in a result of `")?;
    let (tool, rest) = rest.split_once('`')?;
    let pointer = rest.strip_prefix(" at ").unwrap_or("");
    let end = pointer.find(", decoded from ").unwrap_or(pointer.len());
    Some(Place {
        tool,
        pointer: pointer.get(..end).unwrap_or(pointer),
    })
}

fn elsewhere(said: &str) -> String {
    match place(said) {
        Some(place) => format!("{} {}", place.tool, declared::general(place.pointer))
            .trim_end()
            .into(),
        None if said.contains("in a handoff") => "a handoff".into(),
        None => "another place".into(),
    }
}

/// The fields that a policy vouches for and untrusted text repeats, the most often first.
pub fn repeated(tally: &Tally, policies: &Policies) -> Vec<Repeated> {
    let mut found: BTreeMap<(ToolKey, String), Repeated> = BTreeMap::new();
    for ((key, pointer), seen) in &tally.sightings.seen {
        let said = policies
            .get(&key.policy)
            .and_then(|it| it.tool(&key.tool))
            .map(|tool| declared::field(tool, pointer));
        let (field, label) = match said {
            Some((field, label)) => (field, Some(label)),
            None => (pointer.clone(), None),
        };
        let one = found
            .entry((key.clone(), field.clone()))
            .or_insert_with(|| Repeated {
                policy: key.policy.clone(),
                tool: key.tool.clone(),
                field,
                label,
                values: 0,
                used_by: BTreeMap::new(),
                also_in: BTreeMap::new(),
            });
        one.values = one.values.saturating_add(seen.count);
        for (into, from) in [
            (&mut one.used_by, &seen.used_by),
            (&mut one.also_in, &seen.also_in),
        ] {
            for (what, count) in from {
                let sum = into.entry(what.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
    }
    let mut all: Vec<Repeated> = found.into_values().collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.values));
    all
}

/// The tools that brought results of which the file of their policy says nothing.
pub fn unlabelled(tally: &Tally, policies: &Policies) -> Vec<Unlabelled> {
    let is = |key: &ToolKey, traffic: &Traffic| {
        let declared = policies.get(&key.policy)?;
        let (name, _tool) = declared
            .policy()
            .tools()
            .iter()
            .find(|(name, _)| name.as_str() == key.tool)?;
        (traffic.results() > 0 && declared.is_unlabelled(name)).then(|| Unlabelled {
            policy: key.policy.clone(),
            tool: key.tool.clone(),
            results: traffic.results(),
        })
    };
    tally
        .tools
        .iter()
        .filter_map(|(key, traffic)| is(key, traffic))
        .collect()
}

/// How many fields are followed: whoever writes a result can choose the names of its members.
const FIELDS_MAX: usize = 1_000;

/// How many places and arguments are kept of each.
const PLACES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_out_of_the_gates_sentence_and_nothing_else_is() {
        let said = "found in the text, but for case or spacing in a result of `search_mail` at /0/body, decoded from base64";
        let found = place(said).unwrap();
        assert_eq!((found.tool, found.pointer), ("search_mail", "/0/body"));
        assert_eq!(elsewhere(said), "search_mail /*/body");
        assert_eq!(elsewhere("found whole in a result of `list`"), "list");
        assert!(place("found in the text in the task").is_none());
        assert_eq!(
            elsewhere("found in the text in a handoff at /summary"),
            "a handoff"
        );
    }
}

//! Whose words a result is, field by field, and what of it reaches the agent.

use alloc::{
    borrow::ToOwned as _,
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::Label;
use crate::json::Value;

/// What is known of a tool's results.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ResultRules {
    /// Fields of which something else is known than of the rest.
    pub fields: BTreeMap<Pointer, FieldLabel>,
    /// Whose words the rest is taken for.
    pub label: Label,
    /// The most items of an array that reach the agent.
    pub records: BTreeMap<Pointer, u32>,
    /// Whether a result is a handoff, and nothing else.
    pub handoff: bool,
    /// What does not reach the agent.
    pub redact: Vec<Pointer>,
}

impl ResultRules {
    /// Whether a result brings in anyone's words.
    pub fn taints(&self) -> bool {
        self.label == Label::Untrusted
            || self.fields.values().any(|it| *it == FieldLabel::Untrusted)
    }

    /// What a field is where `fields` does not say.
    pub const fn rest(&self) -> FieldLabel {
        match self.label {
            Label::Trusted => FieldLabel::System,
            Label::Untrusted => FieldLabel::Untrusted,
        }
    }

    /// Whose words stand at `path`: what a pointer that names it says, or one that names what it is
    /// in; of several that name the same, the least trusted.
    pub(crate) fn of(&self, path: &[Place<'_>]) -> FieldLabel {
        self.named(path)
            .map_or_else(|| self.rest(), |(_pointer, label)| label)
    }

    fn named(&self, path: &[Place<'_>]) -> Option<(&Pointer, FieldLabel)> {
        (0..=path.len())
            .rev()
            .filter_map(|len| path.get(..len))
            .find_map(|path| {
                self.fields
                    .iter()
                    .filter(|(pointer, _)| pointer.names(path))
                    .max_by_key(|(_, label)| **label)
                    .map(|(pointer, label)| (pointer, *label))
            })
    }

    /// What `fields` says of the place that a plain pointer (RFC 6901) names, and how it names it: as
    /// for a call, the innermost that is named, and of several the least trusted. None where the rest is
    /// meant, or the text is no pointer.
    pub fn says_of(&self, pointer: &str) -> Option<(&Pointer, FieldLabel)> {
        let plain = Pointer::parse(pointer).ok()?;
        let path = plain.0.iter().map(|step| match step {
            Step::Key(key) => Some(Place::Member(key.as_str())),
            Step::Deep | Step::Each => None,
        });
        // A number is an item's or a member's: a pointer that names the one names the other.
        let path: Vec<Place<'_>> = path.collect::<Option<_>>()?;
        self.named(&path)
    }

    /// Whether a result reaches the agent whole.
    pub fn is_whole(&self) -> bool {
        self.records.is_empty() && self.redact.is_empty()
    }
}

/// Whose words a field is taken for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLabel {
    /// As good as the operator's own word.
    Authoritative,
    /// A system writes it itself: an id, a time of its own clock, an account's name. Nobody else can
    /// write there; but untrusted words beside it may say which to take.
    System,
    /// Anyone's.
    Untrusted,
}

/// A place in a JSON value (RFC 6901); a segment `*` is each item of an array and each member of
/// an object. `**` in front is any depth: `/**/id` is every member `id`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pointer(Vec<Step>);

/// A segment of a pointer.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Step {
    /// Any number of members and items.
    Deep,
    /// Each member or item.
    Each,
    /// The member of this name, or the item of this number.
    Key(String),
}

/// One step of the way to a place in a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place<'a> {
    /// Into an array.
    Item(usize),
    /// Into an object.
    Member(&'a str),
}

/// The most segments of a pointer: as deep as JSON may be.
const STEPS_MAX: usize = 64;

/// Why a text is not a [`Pointer`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{text}` is not a pointer into a result; write `/id`, `/items/*/id` or `/**/id`, and `~0` for \
     `~`, `~1` for `/`; `` is the whole"
)]
pub struct PointerError {
    /// The text.
    pub text: String,
}

impl Pointer {
    /// Parses a pointer.
    ///
    /// # Errors
    /// When the text does not begin with `/` (and is not empty), or has a `~` that escapes nothing.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        let error = || PointerError { text: text.into() };
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let rest = text.strip_prefix('/').ok_or_else(error)?;
        let mut steps = Vec::new();
        for (index, segment) in rest.split('/').enumerate() {
            steps.push(match segment {
                "*" => Step::Each,
                "**" if index == 0 => Step::Deep,
                "**" => return Err(error()),
                key => Step::Key(unescape(key).ok_or_else(error)?),
            });
        }
        if steps.len() > STEPS_MAX || steps.last() == Some(&Step::Deep) {
            return Err(error());
        }
        Ok(Self(steps))
    }

    /// Whether it names one place at most.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|step| matches!(step, Step::Key(_)))
    }

    /// What stands in `value` where a plain pointer names it.
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0
            .iter()
            .try_fold(value, |value, step| match (step, value) {
                (Step::Key(key), Value::Object(members)) => members.get(key),
                (Step::Key(key), Value::List(items)) => items.get(
                    key.parse()
                        .ok()
                        .filter(|it: &usize| it.to_string() == *key)?,
                ),
                _ => None,
            })
    }

    /// Whether it names exactly the place at `path`.
    pub(crate) fn names(&self, path: &[Place<'_>]) -> bool {
        let is = |(step, place): (&Step, &Place<'_>)| match (step, place) {
            (Step::Each, _) => true,
            (Step::Key(key), Place::Member(name)) => key == name,
            (Step::Key(key), Place::Item(index)) => {
                // Digits are few, and a plain comparison of texts takes no memory.
                key.parse() == Ok(*index) && !key.starts_with(['+', '0'])
                    || key == "0" && *index == 0
            }
            (Step::Deep, _) => false,
        };
        let (steps, path) = match self.0.split_first() {
            Some((Step::Deep, rest)) => match path.len().checked_sub(rest.len()) {
                Some(above) => (rest, path.get(above..).unwrap_or_default()),
                None => return false,
            },
            Some(_) | None => (self.0.as_slice(), path),
        };
        steps.len() == path.len() && steps.iter().zip(path).rev().all(is)
    }

    /// Calls `act` with everything in `value` that the pointer names.
    pub fn each(&self, value: &mut Value, act: &mut impl FnMut(&mut Value)) {
        match self.0.split_first() {
            Some((Step::Deep, rest)) => deep(rest, value, act),
            Some(_) | None => walk(&self.0, value, act),
        }
    }
}

fn unescape(segment: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = segment.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(out)
}

fn walk(steps: &[Step], value: &mut Value, act: &mut impl FnMut(&mut Value)) {
    let Some((step, rest)) = steps.split_first() else {
        return act(value);
    };
    match (step, value) {
        (Step::Key(key), Value::Object(members)) => {
            if let Some(member) = members.get_mut(key) {
                walk(rest, member, act);
            }
        }
        (Step::Key(key), Value::List(items)) => {
            let index = key
                .parse::<usize>()
                .ok()
                .filter(|it| it.to_string() == *key);
            if let Some(item) = index.and_then(|it| items.get_mut(it)) {
                walk(rest, item, act);
            }
        }
        (Step::Each, Value::Object(members)) => {
            members.values_mut().for_each(|it| walk(rest, it, act));
        }
        (Step::Each, Value::List(items)) => items.iter_mut().for_each(|it| walk(rest, it, act)),
        // `**` stands in front alone.
        (Step::Deep, _)
        | (
            Step::Each | Step::Key(_),
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_),
        ) => {}
    }
}

fn deep(rest: &[Step], value: &mut Value, act: &mut impl FnMut(&mut Value)) {
    walk(rest, value, act);
    match value {
        Value::List(items) => items.iter_mut().for_each(|it| deep(rest, it, act)),
        Value::Object(members) => members.values_mut().for_each(|it| deep(rest, it, act)),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
    }
}

impl TryFrom<String> for Pointer {
    type Error = PointerError;

    fn try_from(text: String) -> Result<Self, PointerError> {
        Self::parse(&text)
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.to_string()
    }
}

impl core::fmt::Display for Pointer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            Step::Deep => f.write_str("/**"),
            Step::Each => f.write_str("/*"),
            Step::Key(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")),
        })
    }
}

/// What a limited result has in the place of something that is not released.
pub const REDACTED: &str = "[redacted]";

/// What was taken out of a result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TakenOut {
    /// Items of arrays.
    pub records: usize,
    /// Values.
    pub values: usize,
}

impl ResultRules {
    /// Whether records may have been taken out of what `result` is now: an array is as long as it may be.
    pub(crate) fn may_have_cut(&self, result: &Value) -> bool {
        if self.records.is_empty() {
            return false;
        }
        let mut result = result.clone();
        let mut full = false;
        for (pointer, most) in &self.records {
            pointer.each(&mut result, &mut |value| {
                if let Value::List(items) = value {
                    full |= u32::try_from(items.len()).map_or(true, |it| it >= *most);
                }
            });
        }
        full
    }

    /// Takes out of `result` what does not reach the agent.
    pub fn limit(&self, result: &mut Value) -> TakenOut {
        let mut taken = TakenOut::default();
        for (pointer, most) in &self.records {
            pointer.each(result, &mut |value| {
                if let Value::List(items) = value {
                    let most = usize::try_from(*most).unwrap_or(usize::MAX);
                    taken.records = taken
                        .records
                        .saturating_add(items.len().saturating_sub(most));
                    items.truncate(most);
                }
            });
        }
        for pointer in &self.redact {
            pointer.each(result, &mut |value| {
                taken.values = taken.values.saturating_add(1);
                *value = Value::Text(REDACTED.to_owned());
            });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, canonical, parse};

    fn json(text: &str) -> Value {
        parse(text.as_bytes(), &Limits::RESULT).unwrap()
    }

    #[test]
    fn a_pointer_survives_its_text_and_nothing_else_parses() {
        for text in ["", "/id", "/a~1b/~0", "/*/id", "/**/id", "/0"] {
            assert_eq!(Pointer::parse(text).unwrap().to_string(), text);
        }
        for bad in ["id", "/~", "/~2", "/a/**", "/**", "/**/**"] {
            assert!(Pointer::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_capped_and_redacted_does_not_reach_the_agent() {
        let rules = ResultRules {
            fields: BTreeMap::new(),
            handoff: false,
            label: Label::Untrusted,
            records: BTreeMap::from([(Pointer::parse("/items").unwrap(), 2)]),
            redact: alloc::vec![Pointer::parse("/**/card").unwrap()],
        };
        let mut result =
            json(r#"{"items":[{"card":1,"n":{"card":[2]}},{"id":3},{"id":4}],"card":"x"}"#);
        let taken = rules.limit(&mut result);
        assert_eq!(
            taken,
            TakenOut {
                records: 1,
                values: 3
            }
        );
        assert_eq!(
            String::from_utf8(canonical(&result)).unwrap(),
            r#"{"card":"[redacted]","items":[{"card":"[redacted]","n":{"card":"[redacted]"}},{"id":3}]}"#
        );
    }
}

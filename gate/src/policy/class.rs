//! What a call does to the world: action classes, and how they are computed from its arguments.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{id::ArgumentName, json::Value};

/// What a call does to the world. A tool declares its classes, the policy computes `external` and
/// `bulk` from the arguments, and a caller may add one to a call; nobody can take one away.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionClass {
    /// An account, its password or its owner's data change.
    AccountModification,
    /// Many are reached at once.
    Bulk,
    /// Something lasting is made or changed.
    Consequential,
    /// Something is deleted.
    Deletion,
    /// Something leaves the operator's own domains.
    External,
    /// Money moves.
    Financial,
    /// Who belongs to something, or may see it, changes.
    MembershipChange,
    /// What it does is said by its arguments' values: beside `consequential` it says that their
    /// origin tells whose will it is.
    ValueCarrying,
}

impl ActionClass {
    /// Every class, in the order of their names.
    pub const ALL: [Self; 8] = [
        Self::AccountModification,
        Self::Bulk,
        Self::Consequential,
        Self::Deletion,
        Self::External,
        Self::Financial,
        Self::MembershipChange,
        Self::ValueCarrying,
    ];

    /// The class's name in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AccountModification => "account_modification",
            Self::Bulk => "bulk",
            Self::Consequential => "consequential",
            Self::Deletion => "deletion",
            Self::External => "external",
            Self::Financial => "financial",
            Self::MembershipChange => "membership_change",
            Self::ValueCarrying => "value_carrying",
        }
    }
}

impl fmt::Display for ActionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Classes that follow from a call's arguments.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Computed {
    /// `bulk`, where one of these has more members than that.
    pub bulk: BTreeMap<ArgumentName, u32>,
    /// `external`, where one of these goes to a domain that is not the operator's own.
    pub external: BTreeSet<ArgumentName>,
}

impl Computed {
    /// The classes of a call with `arguments`, where the operator's own domains are `own`.
    pub fn classes(
        &self,
        own: &BTreeSet<String>,
        arguments: &BTreeMap<ArgumentName, Value>,
    ) -> BTreeSet<ActionClass> {
        let mut classes = BTreeSet::new();
        let bulk = self.bulk.iter().any(|(name, most)| {
            let found = arguments.get(name).map_or(0, members);
            u32::try_from(found).map_or(true, |it| it > *most)
        });
        if bulk {
            classes.insert(ActionClass::Bulk);
        }
        let external = self
            .external
            .iter()
            .filter_map(|name| arguments.get(name))
            .any(|value| is_external(own, value));
        if external {
            classes.insert(ActionClass::External);
        }
        classes
    }
}

fn members(value: &Value) -> usize {
    match value {
        Value::List(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null => 0,
        Value::Bool(_) | Value::Int(_) | Value::Real(_) | Value::Text(_) => 1,
    }
}

/// Whether something in `value` goes beyond the operator's own domains. A text of which no domain
/// can be read does.
fn is_external(own: &BTreeSet<String>, value: &Value) -> bool {
    match value {
        Value::List(items) => items.iter().any(|it| is_external(own, it)),
        Value::Object(members) => members.values().any(|it| is_external(own, it)),
        Value::Text(text) => domain(text).is_none_or(|domain| {
            !own.iter().any(|own| {
                domain == *own
                    || domain
                        .strip_suffix(own.as_str())
                        .is_some_and(|rest| rest.ends_with('.'))
            })
        }),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) => false,
    }
}

/// The domain of a mail address or a URL, in lower case. Whatever mailers and browsers could read in
/// two ways has none.
fn domain(text: &str) -> Option<String> {
    let text = text.trim();
    let host = match text.split_once("://") {
        Some((_scheme, rest)) => authority(rest)?,
        None => match text.split_once('@') {
            // One address, no display name, nothing quoted.
            Some((_local, domain)) if super::kind::is_email(text) => domain,
            Some(_) => return None,
            None => authority(text)?,
        },
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let plain = host.contains('.')
        && host.split('.').all(|label| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        });
    plain.then(|| host.to_ascii_lowercase())
}

/// The host of what stands behind a scheme, or of a URL without one. User information and
/// backslashes have several readings.
fn authority(rest: &str) -> Option<&str> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest.get(..end)?;
    if authority.contains(['@', '\\', '[', '%']) {
        return None;
    }
    match authority.split_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => Some(host),
        Some(_) => None,
        None => Some(authority),
    }
}

/// The names of `classes`, for a sentence.
pub(crate) fn listed<'a>(classes: impl IntoIterator<Item = &'a ActionClass>) -> String {
    let names: Vec<&str> = classes.into_iter().map(|it| it.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_surely_ones_own_is_external() {
        let own = BTreeSet::from([String::from("example.test")]);
        let external = |text: &str| is_external(&own, &Value::Text(text.into()));
        for inside in [
            "ada@example.test",
            "ada@mail.example.test",
            "ADA@EXAMPLE.TEST",
            "https://example.test/x?y=@z",
            "example.test/page",
            "https://example.test:8443/",
            "https://a.example.test./",
        ] {
            assert!(!external(inside), "{inside}");
        }
        for outside in [
            "ada@example.test.evil.test",
            "ada@notexample.test",
            "Ada <ada@example.test>",
            "ada@evil.test,eve@example.test",
            "https://example.test@evil.test/",
            "https://evil.test/example.test",
            "https://evil.test\\@example.test",
            "https://evil.test#example.test",
            "//evil.test/",
            "x",
            "",
            "ada@ex\u{e4}mple.test",
        ] {
            assert!(external(outside), "{outside}");
        }
    }

    #[test]
    fn each_member_of_a_list_counts_and_is_looked_at() {
        let name = |it: &str| ArgumentName::parse(it).unwrap();
        let computed = Computed {
            bulk: BTreeMap::from([(name("to"), 2)]),
            external: BTreeSet::from([name("to")]),
        };
        let own = BTreeSet::from([String::from("example.test")]);
        let of = |to: &[&str]| {
            let to = to.iter().map(|it| Value::Text((*it).into())).collect();
            computed.classes(&own, &BTreeMap::from([(name("to"), Value::List(to))]))
        };
        assert!(of(&["a@example.test", "b@example.test"]).is_empty());
        assert_eq!(
            of(&["a@example.test", "b@evil.test"]),
            BTreeSet::from([ActionClass::External])
        );
        assert_eq!(
            of(&["a@example.test", "b@example.test", "c@example.test"]),
            BTreeSet::from([ActionClass::Bulk])
        );
    }
}

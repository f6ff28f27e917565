//! What a record says, field by field, so that one can be withheld and the rest still verifies.
//!
//! The digest of a record rests on the digests of its fields. Each is taken behind a salt of its own,
//! which is drawn from the record's: whoever has the digest of a field and not its salt learns nothing
//! of it, however few values it may have. A field is a member of the record, and where that is an
//! object, its members, down to [`DEPTH`] names (`call.arguments.text`); what lies deeper is one field.
//! An empty object is a field too, since the digest of no fields would say that it is empty.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::line::Salt;
use crate::{
    digest::{Digest, Domain},
    json::{Value, canonical},
};

/// How many names a field has at most.
pub const DEPTH: usize = 3;

/// A field, or an object of them: shown or withheld.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Field {
    /// An object whose members are fields.
    Members(BTreeMap<String, Field>),
    /// A field that is shown.
    Shown {
        /// Its salt.
        salt: Salt,
        /// What it says.
        value: Value,
    },
    /// A field, or an object of them, of which only the digest is shown.
    Withheld(Digest),
}

impl Field {
    /// The fields of a record, all shown.
    pub fn of(value: &Value, salt: &Salt) -> Self {
        open(value, salt, &mut Vec::new())
    }

    /// The digest, whatever is shown: withholding does not change it.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Members(members) => {
                let of = members
                    .iter()
                    .map(|(name, it)| (name.as_str(), it.digest()));
                fields(of)
            }
            Self::Shown { salt, value } => field(salt, value),
            Self::Withheld(digest) => *digest,
        }
    }

    /// Withholds what `path` names, or the field that it lies in. False if there is no such field.
    pub fn withhold(&mut self, path: &[&str]) -> bool {
        match (self, path) {
            (it, []) => {
                *it = Self::Withheld(it.digest());
                true
            }
            (Self::Members(members), [name, rest @ ..]) => members
                .get_mut(*name)
                .is_some_and(|member| member.withhold(rest)),
            (it @ Self::Shown { .. }, _deeper) => {
                let Self::Shown { value, .. } = &*it else {
                    return false;
                };
                has(value, path) && it.withhold(&[])
            }
            (Self::Withheld(_), _) => true,
        }
    }

    /// What is shown, as JSON; what is withheld is left out.
    pub fn shown(&self) -> Option<Value> {
        match self {
            Self::Members(members) => {
                let shown = members
                    .iter()
                    .filter_map(|(name, it)| Some((name.clone(), it.shown()?)));
                Some(Value::Object(shown.collect()))
            }
            Self::Shown { value, .. } => Some(value.clone()),
            Self::Withheld(_) => None,
        }
    }

    /// The paths of what is withheld, joined by dots.
    pub fn withheld(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.find_withheld(&mut String::new(), &mut found);
        found
    }

    fn find_withheld(&self, path: &mut String, found: &mut Vec<String>) {
        match self {
            Self::Members(members) => {
                for (name, member) in members {
                    let before = path.len();
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                    member.find_withheld(path, found);
                    path.truncate(before);
                }
            }
            Self::Shown { .. } => {}
            Self::Withheld(_) => found.push(path.clone()),
        }
    }
}

fn has(value: &Value, path: &[&str]) -> bool {
    match (value, path) {
        (_, []) => true,
        (Value::Object(members), [name, rest @ ..]) => {
            members.get(*name).is_some_and(|it| has(it, rest))
        }
        (_, [_, ..]) => false,
    }
}

/// The members of an object that is opened, `names` deep in the record.
fn members(value: &Value, names: usize) -> Option<&BTreeMap<String, Value>> {
    match value {
        Value::Object(members) => (!members.is_empty() && names < DEPTH).then_some(members),
        Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Real(_)
        | Value::Text(_) => None,
    }
}

fn open<'a>(value: &'a Value, salt: &Salt, path: &mut Vec<&'a str>) -> Field {
    let Some(members) = members(value, path.len()) else {
        return Field::Shown {
            salt: salt_of(salt, path),
            value: value.clone(),
        };
    };
    let mut fields = BTreeMap::new();
    for (name, member) in members {
        path.push(name);
        let _no_key_twice = fields.insert(name.clone(), open(member, salt, path));
        let _back = path.pop();
    }
    Field::Members(fields)
}

/// The digest of a record's fields: as of [`Field::of`], and nothing is copied.
pub(super) fn digest(value: &Value, salt: &Salt) -> Digest {
    digest_at(value, salt, &mut Vec::new())
}

fn digest_at<'a>(value: &'a Value, salt: &Salt, path: &mut Vec<&'a str>) -> Digest {
    let Some(members) = members(value, path.len()) else {
        return field(&salt_of(salt, path), value);
    };
    let mut digests = Vec::with_capacity(members.len());
    for (name, member) in members {
        path.push(name);
        digests.push((name.as_str(), digest_at(member, salt, path)));
        let _back = path.pop();
    }
    fields(digests.into_iter())
}

fn field(salt: &Salt, value: &Value) -> Digest {
    Digest::of_parts(Domain::Field, [&salt.0[..], &canonical(value)])
}

fn fields<'a>(members: impl Iterator<Item = (&'a str, Digest)>) -> Digest {
    let mut bytes = Vec::new();
    for (name, digest) in members {
        bytes.extend_from_slice(&length(name));
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(digest.as_bytes());
    }
    Digest::of(Domain::Fields, &bytes)
}

fn salt_of(salt: &Salt, path: &[&str]) -> Salt {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&salt.0);
    for name in path {
        bytes.extend_from_slice(&length(name));
        bytes.extend_from_slice(name.as_bytes());
    }
    let digest = Digest::of(Domain::Salt, &bytes);
    let mut drawn = Salt([0; Salt::BYTES]);
    for (to, from) in drawn.0.iter_mut().zip(digest.as_bytes()) {
        *to = *from;
    }
    drawn
}

/// A name's length as four bytes, the least first: a line has no longer name ([`super::LINE_MAX`]).
fn length(name: &str) -> [u8; 4] {
    u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes()
}

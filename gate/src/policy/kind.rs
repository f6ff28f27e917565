//! The type of an argument or a trusted value, with its bounds.

use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::Pattern;
use crate::{
    excerpt::excerpt,
    id::ArgumentName,
    json::{self, Int, Value},
};

/// A type and its bounds. Lengths are in Unicode scalar values, as in JSON Schema.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// One mail address, ASCII, compared byte by byte.
    Email {
        /// Longest.
        max_length: u32,
    },
    /// One of these strings.
    Enum {
        /// They.
        one_of: Vec<String>,
    },
    /// An integral number.
    Integer {
        /// Greatest.
        max: Int,
        /// Least.
        min: Int,
    },
    /// An array, each item of one type.
    List {
        /// The type of each item.
        items: Box<Kind>,
        /// Most items.
        max_items: u32,
        /// Fewest items.
        min_items: u32,
    },
    /// A number, integral or not.
    Number {
        /// Greatest.
        max: f64,
        /// Least.
        min: f64,
    },
    /// An object with exactly these members.
    Object {
        /// They.
        members: BTreeMap<ArgumentName, Member>,
    },
    /// Text.
    String {
        /// Longest.
        max_length: u32,
        /// Shortest.
        min_length: u32,
        /// The form of the whole text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<Pattern>,
    },
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its type and bounds.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whether an object may leave it out.
    pub optional: bool,
}

/// Why a value does not fit. It completes the sentence that begins with the argument's name, and
/// repeats nothing of the value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Misfit {
    /// Not a mail address.
    #[error("must be one mail address, such as `name@example.test`")]
    Email,
    /// An item of an array does not fit.
    #[error("item {index} {misfit}")]
    Item {
        /// Which, from 0.
        index: usize,
        /// Why.
        misfit: Box<Misfit>,
    },
    /// An array has too many or too few items.
    #[error("has {found} items; {least} to {most} are allowed")]
    Items {
        /// How many it has.
        found: usize,
        /// Fewest.
        least: u32,
        /// Most.
        most: u32,
    },
    /// Too long.
    #[error("has {found} characters; at most {most} are allowed")]
    Long {
        /// How many it has.
        found: usize,
        /// The bound.
        most: u32,
    },
    /// A member of an object does not fit.
    #[error("member `{member}` {misfit}")]
    Member {
        /// Which.
        member: ArgumentName,
        /// Why.
        misfit: Box<Misfit>,
    },
    /// A member that must be there.
    #[error("has no member `{member}`")]
    MemberMissing {
        /// Which.
        member: ArgumentName,
    },
    /// A member that the type has not.
    #[error("has a member `{member}`, which the type has not; it takes {known}")]
    MemberUnknown {
        /// Which.
        member: String,
        /// Those that it takes.
        known: String,
    },
    /// Not one of the listed.
    #[error("must be one of {listed}")]
    NotListed {
        /// Those that are.
        listed: String,
    },
    /// Another form.
    #[error("must have the form `{pattern}`")]
    Pattern {
        /// The form.
        pattern: String,
    },
    /// Outside the range.
    #[error("must be {min} to {max}")]
    Range {
        /// Greatest.
        max: String,
        /// Least.
        min: String,
    },
    /// Too short.
    #[error("has {found} characters; at least {least} are needed")]
    Short {
        /// How many it has.
        found: usize,
        /// The bound.
        least: u32,
    },
    /// Another type.
    #[error("must be {wanted}, not {found}")]
    Type {
        /// The type.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
}

impl Misfit {
    /// Whether the type is wrong, rather than the value out of its bounds.
    pub fn is_type(&self) -> bool {
        match self {
            Self::Email
            | Self::MemberMissing { .. }
            | Self::MemberUnknown { .. }
            | Self::Type { .. } => true,
            Self::Item { misfit, .. } | Self::Member { misfit, .. } => misfit.is_type(),
            Self::Items { .. }
            | Self::Long { .. }
            | Self::NotListed { .. }
            | Self::Pattern { .. }
            | Self::Range { .. }
            | Self::Short { .. } => false,
        }
    }
}

impl Kind {
    /// Whether each value is a number from 0, of which there can be a sum. What could be negative would
    /// give back what was spent.
    pub fn is_amount(&self) -> bool {
        match self {
            Self::Integer { min, .. } => min.as_f64() >= 0.0,
            Self::Number { min, .. } => *min >= 0.0,
            Self::Boolean
            | Self::Email { .. }
            | Self::Enum { .. }
            | Self::List { .. }
            | Self::Object { .. }
            | Self::String { .. } => false,
        }
    }

    /// The type's name in a policy.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Email { .. } => "email",
            Self::Enum { .. } => "enum",
            Self::Integer { .. } => "integer",
            Self::List { .. } => "list",
            Self::Number { .. } => "number",
            Self::Object { .. } => "object",
            Self::String { .. } => "string",
        }
    }

    /// Whether a value of this type is one text: it can stand in a path, a query or a header field.
    pub const fn is_scalar(&self) -> bool {
        match self {
            Self::Boolean
            | Self::Email { .. }
            | Self::Enum { .. }
            | Self::Integer { .. }
            | Self::Number { .. }
            | Self::String { .. } => true,
            Self::List { .. } | Self::Object { .. } => false,
        }
    }

    /// Holds `value` to the type and its bounds. Nothing is converted: `1` is no string, `"1"` no
    /// integer, `null` is of no type.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        match (self, value) {
            (Self::Boolean, Value::Bool(_)) => Ok(()),
            (Self::Email { max_length }, Value::Text(text)) => {
                length(text, 0, *max_length)?;
                is_email(text).then_some(()).ok_or(Misfit::Email)
            }
            (Self::Enum { one_of }, Value::Text(text)) => {
                one_of.contains(text).then_some(()).ok_or_else(|| {
                    let listed: Vec<_> = one_of.iter().map(|it| alloc::format!("`{it}`")).collect();
                    Misfit::NotListed {
                        listed: listed.join(", "),
                    }
                })
            }
            (Self::Integer { max, min }, Value::Int(n)) => (min <= n && n <= max)
                .then_some(())
                .ok_or_else(|| Misfit::Range {
                    max: alloc::format!("{}", max.get()),
                    min: alloc::format!("{}", min.get()),
                }),
            (Self::Number { max, min }, Value::Int(n)) => within(n.as_f64(), *min, *max),
            (Self::Number { max, min }, Value::Real(x)) => within(x.get(), *min, *max),
            (
                Self::List {
                    items,
                    max_items,
                    min_items,
                },
                Value::List(found),
            ) => list(items, *min_items, *max_items, found),
            (Self::Object { members }, Value::Object(found)) => object(members, found),
            (
                Self::String {
                    max_length,
                    min_length,
                    pattern,
                },
                Value::Text(text),
            ) => {
                length(text, *min_length, *max_length)?;
                match pattern {
                    Some(pattern) if !pattern.matches(text) => Err(Misfit::Pattern {
                        pattern: pattern.as_str().into(),
                    }),
                    Some(_) | None => Ok(()),
                }
            }
            (_, other) => Err(Misfit::Type {
                wanted: self.wanted(),
                found: other.kind(),
            }),
        }
    }

    /// Reads a value of this type from text that the application or the operator supplied.
    ///
    /// # Errors
    /// When it is not of the type, or out of its bounds.
    pub fn parse(&self, text: &str) -> Result<Value, Misfit> {
        let found = || Misfit::Type {
            wanted: self.wanted(),
            found: "another text",
        };
        let value = match self {
            Self::Boolean => match text {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(found()),
            },
            Self::Email { .. } | Self::Enum { .. } | Self::String { .. } => {
                if text.contains('\0') {
                    return Err(found());
                }
                Value::Text(text.into())
            }
            Self::List { .. } | Self::Object { .. } => {
                match json::parse(text.as_bytes(), &json::Limits::CALL) {
                    Ok(value) => value,
                    Err(_) => return Err(found()),
                }
            }
            Self::Integer { .. } | Self::Number { .. } => {
                match json::parse(text.as_bytes(), &json::Limits::CALL) {
                    Ok(number @ (Value::Int(_) | Value::Real(_))) => number,
                    Ok(_) | Err(_) => return Err(found()),
                }
            }
        };
        self.check(&value)?;
        Ok(value)
    }

    const fn wanted(&self) -> &'static str {
        match self {
            Self::Boolean => "a boolean",
            Self::Email { .. } => "a string with one mail address",
            Self::Enum { .. } => "one of the listed strings",
            Self::Integer { .. } => "an integer",
            Self::List { .. } => "an array",
            Self::Number { .. } => "a number",
            Self::Object { .. } => "an object",
            Self::String { .. } => "a string",
        }
    }
}

fn list(kind: &Kind, least: u32, most: u32, items: &[Value]) -> Result<(), Misfit> {
    let found = items.len();
    if !u32::try_from(found).is_ok_and(|it| least <= it && it <= most) {
        return Err(Misfit::Items { found, least, most });
    }
    for (index, item) in items.iter().enumerate() {
        kind.check(item).map_err(|misfit| Misfit::Item {
            index,
            misfit: Box::new(misfit),
        })?;
    }
    Ok(())
}

fn object(
    members: &BTreeMap<ArgumentName, Member>,
    found: &BTreeMap<String, Value>,
) -> Result<(), Misfit> {
    for (name, value) in found {
        let Some((member, known)) = members.get_key_value(name.as_str()) else {
            let known: Vec<_> = members.keys().map(|it| alloc::format!("`{it}`")).collect();
            return Err(Misfit::MemberUnknown {
                member: excerpt(name),
                known: known.join(", "),
            });
        };
        known.kind.check(value).map_err(|misfit| Misfit::Member {
            member: member.clone(),
            misfit: Box::new(misfit),
        })?;
    }
    match members
        .iter()
        .find(|(name, it)| !it.optional && !found.contains_key(name.as_str()))
    {
        Some((name, _)) => Err(Misfit::MemberMissing {
            member: name.clone(),
        }),
        None => Ok(()),
    }
}

fn length(text: &str, least: u32, most: u32) -> Result<(), Misfit> {
    let found = text.chars().count();
    if u32::try_from(found).is_ok_and(|it| it < least) {
        return Err(Misfit::Short { found, least });
    }
    if u32::try_from(found).map_or(true, |it| it > most) {
        return Err(Misfit::Long { found, most });
    }
    Ok(())
}

fn within(x: f64, min: f64, max: f64) -> Result<(), Misfit> {
    (min <= x && x <= max)
        .then_some(())
        .ok_or_else(|| Misfit::Range {
            max: alloc::format!("{max}"),
            min: alloc::format!("{min}"),
        })
}

/// `dot-atom@domain` (RFC 5321, 4.1.2) in ASCII: no quoted local part, no address literal, no
/// display name, so that one text is one recipient for every mailer.
pub(crate) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    let atom = |atom: &str| {
        !atom.is_empty()
            && atom
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
    };
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    local.len() <= 64
        && local.split('.').all(atom)
        && domain.contains('.')
        && domain.split('.').all(label)
}

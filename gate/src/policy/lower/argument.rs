//! Arguments and the types of values.

use alloc::{borrow::ToOwned as _, collections::BTreeMap, string::ToString as _};

use crate::{
    id::{OwnedName, ValueName},
    json::{Int, Value},
    policy::{
        Argument, Authority, Kind, Problem,
        error::Fault,
        file::{ArgumentTable, AuthorityName, KindName, Typed},
    },
};

pub(super) fn argument(
    table: ArgumentTable,
    values: &BTreeMap<ValueName, Kind>,
    owned: &BTreeMap<OwnedName, Kind>,
) -> Result<Argument, Fault> {
    let word = match table.authority {
        AuthorityName::Injected => "injected",
        AuthorityName::Owned => "owned",
        AuthorityName::Payload => "payload",
        AuthorityName::Verified => "verified",
    };
    let stray = |key: &'static str| {
        Problem::KeyOfOtherAuthority {
            key,
            authority: word,
        }
        .at(&[key])
    };
    let value_name = |value: Option<ValueName>, set: &Option<OwnedName>| {
        if set.is_some() {
            return Err(stray("set"));
        }
        value.ok_or_else(|| {
            Problem::Missing {
                key: "value",
                what: "name the trusted value",
            }
            .at(&[])
        })
    };
    let of_value = |name: &ValueName| {
        values.get(name).ok_or_else(|| {
            Problem::UnknownValue {
                value: name.clone(),
            }
            .at(&["value"])
        })
    };
    let (authority, known) = match table.authority {
        AuthorityName::Payload => {
            if table.value.is_some() {
                return Err(stray("value"));
            }
            if table.set.is_some() {
                return Err(stray("set"));
            }
            (Authority::Payload, None)
        }
        AuthorityName::Injected => {
            let value = value_name(table.value, &table.set)?;
            let kind = of_value(&value)?;
            let name = value.to_string();
            (Authority::Injected { value }, Some((name, kind)))
        }
        AuthorityName::Verified => {
            let value = value_name(table.value, &table.set)?;
            let kind = of_value(&value)?;
            let name = value.to_string();
            (Authority::Verified { value }, Some((name, kind)))
        }
        AuthorityName::Owned => {
            if table.value.is_some() {
                return Err(stray("value"));
            }
            let set = table.set.ok_or_else(|| {
                Problem::Missing {
                    key: "set",
                    what: "name the owned set",
                }
                .at(&[])
            })?;
            let kind = owned
                .get(&set)
                .ok_or_else(|| Problem::UnknownOwned { set: set.clone() }.at(&["set"]))?;
            let name = set.to_string();
            (Authority::Owned { set }, Some((name, kind)))
        }
    };
    if let Some(sink) = table.sink.filter(|sink| *sink != authority.is_sink()) {
        return Err(Problem::Sink {
            sink,
            authority: word,
        }
        .at(&["sink"]));
    }
    let typed = Typed {
        kind: table.kind,
        max: table.max,
        max_length: table.max_length,
        min: table.min,
        min_length: table.min_length,
        one_of: table.one_of,
    };
    Ok(Argument {
        authority,
        description: table.description,
        kind: match known {
            None => kind(typed)?,
            Some((of, known)) => taken(typed, &of, known)?,
        },
        optional: table.optional,
    })
}

/// The type of the value or set `of`; what the argument says of it must be the same.
fn taken(typed: Typed, of: &str, known: &Kind) -> Result<Kind, Fault> {
    let silent = typed.kind.is_none()
        && typed.max.is_none()
        && typed.max_length.is_none()
        && typed.min.is_none()
        && typed.min_length.is_none()
        && typed.one_of.is_none();
    if !silent && kind(typed)? != *known {
        return Err(Problem::TypeDiffers { of: of.to_owned() }.at(&["type"]));
    }
    Ok(known.clone())
}

/// The longest that a mail address can be (RFC 5321, 4.5.3.1.3, without the brackets).
const EMAIL_MAX: u32 = 254;

/// The longest text where the policy does not say: a long message, and an eighth of a call.
const STRING_MAX: u32 = 8_192;

pub(super) fn kind(typed: Typed) -> Result<Kind, Fault> {
    let Some(name) = typed.kind else {
        return Err(Problem::Missing {
            key: "type",
            what: "write string, integer, number, boolean, email or enum",
        }
        .at(&[]));
    };
    let made = match name {
        KindName::Boolean => Kind::Boolean,
        KindName::Email => Kind::Email {
            max_length: typed.max_length.unwrap_or(EMAIL_MAX),
        },
        KindName::Enum => Kind::Enum {
            one_of: typed.one_of.clone().ok_or_else(|| {
                Problem::Missing {
                    key: "one_of",
                    what: "list the allowed strings",
                }
                .at(&[])
            })?,
        },
        KindName::Integer => Kind::Integer {
            max: int(typed.max.as_ref(), "max", Int::MAX)?,
            min: int(typed.min.as_ref(), "min", Int::MIN)?,
        },
        KindName::Number => Kind::Number {
            max: number(typed.max.as_ref(), "max", Int::MAX)?,
            min: number(typed.min.as_ref(), "min", Int::MIN)?,
        },
        KindName::String => Kind::String {
            max_length: typed.max_length.unwrap_or(STRING_MAX),
            min_length: typed.min_length.unwrap_or(0),
        },
    };
    let (numeric, longest, shortest, listed) = match name {
        KindName::Boolean => (false, false, false, false),
        KindName::Email => (false, true, false, false),
        KindName::Enum => (false, false, false, true),
        KindName::Integer | KindName::Number => (true, false, false, false),
        KindName::String => (false, true, true, false),
    };
    for (bound, given, belongs) in [
        ("max", typed.max.is_some(), numeric),
        ("min", typed.min.is_some(), numeric),
        ("max_length", typed.max_length.is_some(), longest),
        ("min_length", typed.min_length.is_some(), shortest),
        ("one_of", typed.one_of.is_some(), listed),
    ] {
        if given && !belongs {
            return Err(Problem::BoundOfOtherType {
                bound,
                kind: made.name(),
            }
            .at(&[bound]));
        }
    }
    Ok(made)
}

fn int(value: Option<&Value>, key: &'static str, default: Int) -> Result<Int, Fault> {
    match value {
        None => Ok(default),
        Some(Value::Int(n)) => Ok(*n),
        Some(_) => Err(Problem::Bounds {
            why: "an integer is needed",
        }
        .at(&[key])),
    }
}

fn number(value: Option<&Value>, key: &'static str, default: Int) -> Result<f64, Fault> {
    match value {
        None => Ok(default.as_f64()),
        Some(Value::Int(n)) => Ok(n.as_f64()),
        Some(Value::Real(x)) => Ok(x.get()),
        Some(_) => Err(Problem::Bounds {
            why: "a number is needed",
        }
        .at(&[key])),
    }
}

//! Arguments and the types of values.

use alloc::{
    borrow::ToOwned as _,
    boxed::Box,
    collections::BTreeMap,
    string::{String, ToString as _},
};

use crate::{
    id::{ArgumentName, CatalogueName, OwnedName, ValueName},
    json::{Int, Value},
    policy::{
        Answer, Argument, Authority, Catalogue, Kind, Links, Member, OriginClass, Problem, Role,
        error::Fault,
        file::{ArgumentTable, AuthorityName, KindName, Typed},
    },
};

/// What arguments may name.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) catalogues: &'a BTreeMap<CatalogueName, Catalogue>,
    pub(super) owned: &'a BTreeMap<OwnedName, Kind>,
    pub(super) values: &'a BTreeMap<ValueName, Kind>,
}

pub(super) fn argument(table: ArgumentTable, known: Known<'_>) -> Result<Argument, Fault> {
    let word = table.authority;
    let (authority, of) = authority(&table, known)?;
    let role = role(&table, &authority)?;
    let trusted = authority.is_trusted_value();
    for (key, given) in [
        ("anchor", table.anchor),
        ("links", table.links.is_some()),
        ("member", table.member),
        ("on_origin", table.on_origin.is_some()),
        ("origins", table.origins.is_some()),
    ] {
        if given && trusted {
            return Err(Problem::KeyOfOtherAuthority {
                key,
                authority: word.as_str(),
            }
            .at(&[key]));
        }
    }
    let typed = Typed {
        items: table.items,
        kind: table.kind,
        max: table.max,
        max_items: table.max_items,
        max_length: table.max_length,
        members: table.members,
        min: table.min,
        min_items: table.min_items,
        min_length: table.min_length,
        one_of: table.one_of,
        optional: None,
        pattern: table.pattern,
    };
    Ok(Argument {
        anchor: table.anchor,
        member: table.member,
        description: table.description,
        kind: match of {
            None => kind(typed)?,
            Some((of, known)) => taken(typed, &authority, &of, &known)?,
        },
        // What a type leaves free may lead somewhere as a payload may.
        links: table.links.unwrap_or(match role {
            Role::Payload | Role::Typed => Links::Known,
            Role::Identifier | Role::Sink => Links::Any,
        }),
        on_origin: table.on_origin.unwrap_or(Answer::Hold),
        optional: table.optional,
        origins: if trusted {
            OriginClass::ALL.into()
        } else {
            table.origins.unwrap_or_else(|| role.origins())
        },
        authority,
        role,
    })
}

/// Who authors it, and the name and type of what that names.
fn authority(
    table: &ArgumentTable,
    known: Known<'_>,
) -> Result<(Authority, Option<(String, Kind)>), Fault> {
    let word = table.authority.as_str();
    let belongs = match table.authority {
        AuthorityName::Agent | AuthorityName::Payload => "",
        AuthorityName::Catalogue => "catalogue",
        AuthorityName::Injected | AuthorityName::Verified => "value",
        AuthorityName::Owned => "set",
    };
    for (key, given) in [
        ("catalogue", table.catalogue.is_some()),
        ("set", table.set.is_some()),
        ("value", table.value.is_some()),
    ] {
        if given && key != belongs {
            return Err(Problem::KeyOfOtherAuthority {
                key,
                authority: word,
            }
            .at(&[key]));
        }
    }
    let missing = |key, what| Problem::Missing { key, what }.at(&[]);
    let value = || {
        let name = table
            .value
            .clone()
            .ok_or_else(|| missing("value", "name the trusted value"))?;
        let kind = known.values.get(&name).ok_or_else(|| {
            Problem::UnknownValue {
                value: name.clone(),
            }
            .at(&["value"])
        })?;
        Ok((name.to_string(), kind.clone(), name))
    };
    Ok(match table.authority {
        AuthorityName::Agent | AuthorityName::Payload => (Authority::Agent, None),
        AuthorityName::Catalogue => {
            let catalogue = table
                .catalogue
                .clone()
                .ok_or_else(|| missing("catalogue", "name the catalogue"))?;
            if !known.catalogues.contains_key(&catalogue) {
                return Err(Problem::UnknownCatalogue { catalogue }.at(&["catalogue"]));
            }
            let name = catalogue.to_string();
            let kind = Kind::String {
                max_length: STRING_MAX,
                min_length: 0,
                pattern: None,
            };
            (Authority::Catalogue { catalogue }, Some((name, kind)))
        }
        AuthorityName::Injected => {
            let (of, kind, value) = value()?;
            (Authority::Injected { value }, Some((of, kind)))
        }
        AuthorityName::Verified => {
            let (of, kind, value) = value()?;
            (Authority::Verified { value }, Some((of, kind)))
        }
        AuthorityName::Owned => {
            let set = table
                .set
                .clone()
                .ok_or_else(|| missing("set", "name the owned set"))?;
            let kind = known
                .owned
                .get(&set)
                .ok_or_else(|| Problem::UnknownOwned { set: set.clone() }.at(&["set"]))?;
            (
                Authority::Owned { set: set.clone() },
                Some((set.to_string(), kind.clone())),
            )
        }
    })
}

/// What it is to the effect: what the policy says, or what follows from the authority.
fn role(table: &ArgumentTable, authority: &Authority) -> Result<Role, Fault> {
    let word = table.authority.as_str();
    let role = match (table.authority, table.role) {
        (AuthorityName::Payload, None | Some(Role::Payload)) => Role::Payload,
        (AuthorityName::Agent, Some(role)) => role,
        (AuthorityName::Agent, None) => {
            return Err(Problem::Missing {
                key: "role",
                what: "write sink, identifier, payload or typed",
            }
            .at(&[]));
        }
        (
            AuthorityName::Catalogue
            | AuthorityName::Injected
            | AuthorityName::Owned
            | AuthorityName::Verified,
            None,
        ) => Role::Sink,
        (_, Some(role @ (Role::Identifier | Role::Sink)))
            if table.authority != AuthorityName::Payload =>
        {
            role
        }
        (_, Some(role)) => {
            return Err(Problem::RoleOfOtherAuthority {
                role: role.as_str(),
                authority: word,
            }
            .at(&["role"]));
        }
    };
    // A word of the first policies: whatever is not the agent's own is a sink.
    let sink = role.is_target() || *authority != Authority::Agent;
    match table.sink.filter(|said| *said != sink) {
        Some(said) => Err(Problem::Sink {
            sink: said,
            authority: word,
        }
        .at(&["sink"])),
        None => Ok(role),
    }
}

/// The type of the value, set or catalogue `of`; what the argument says of it must be the same. Of a
/// set or a catalogue an argument can be a list.
fn taken(typed: Typed, authority: &Authority, of: &str, known: &Kind) -> Result<Kind, Fault> {
    let silent = typed.kind.is_none()
        && typed.items.is_none()
        && typed.max.is_none()
        && typed.max_items.is_none()
        && typed.max_length.is_none()
        && typed.members.is_none()
        && typed.min.is_none()
        && typed.min_items.is_none()
        && typed.min_length.is_none()
        && typed.one_of.is_none()
        && typed.pattern.is_none();
    if silent {
        return Ok(known.clone());
    }
    let several = !authority.is_trusted_value()
        && typed.items.is_none()
        && matches!(typed.kind, Some(KindName::List))
        && !matches!(known, Kind::List { .. });
    let kind = if several {
        list(&typed, known.clone())?
    } else {
        kind(typed)?
    };
    if *member_kind(authority, &kind, known) != *known {
        return Err(Problem::TypeDiffers { of: of.to_owned() }.at(&["type"]));
    }
    Ok(kind)
}

/// The type that is to be that of a set's members: `kind` itself, or that of its items.
pub(in crate::policy) fn member_kind<'a>(
    authority: &Authority,
    kind: &'a Kind,
    known: &Kind,
) -> &'a Kind {
    if let Kind::List { items, .. } = kind
        && !authority.is_trusted_value()
        && !matches!(known, Kind::List { .. })
    {
        items
    } else {
        kind
    }
}

/// The longest that a mail address can be (RFC 5321, 4.5.3.1.3, without the brackets).
const EMAIL_MAX: u32 = 254;

/// The longest text that is held to a form: it is looked at character by character for each piece.
pub(in crate::policy) const PATTERN_LENGTH: u32 = 256;

/// The longest text where the policy does not say: a long message, and an eighth of a call.
const STRING_MAX: u32 = 8_192;

/// The most items of a list where the policy does not say: a page of a result.
const ITEMS_MAX: u32 = 100;

fn list(typed: &Typed, items: Kind) -> Result<Kind, Fault> {
    foreign_bounds(typed, KindName::List, "list")?;
    Ok(Kind::List {
        items: Box::new(items),
        max_items: typed.max_items.unwrap_or(ITEMS_MAX),
        min_items: typed.min_items.unwrap_or(0),
    })
}

/// The type of what stands in another: only a member of an object may be optional.
fn inner(typed: Typed) -> Result<Kind, Fault> {
    if typed.optional.is_some() {
        return Err(Problem::NotOptional.at(&["optional"]));
    }
    kind(typed)
}

fn members(table: BTreeMap<ArgumentName, Typed>) -> Result<BTreeMap<ArgumentName, Member>, Fault> {
    table
        .into_iter()
        .map(|(name, mut typed)| {
            let optional = typed.optional.take().unwrap_or(false);
            let kind = kind(typed).map_err(|it| it.under(&["members", name.as_str()]))?;
            Ok((name, Member { kind, optional }))
        })
        .collect()
}

pub(super) fn kind(mut typed: Typed) -> Result<Kind, Fault> {
    let Some(name) = typed.kind else {
        return Err(Problem::Missing {
            key: "type",
            what: "write string, integer, number, boolean, email, enum, list or object",
        }
        .at(&[]));
    };
    if typed.optional.is_some() {
        return Err(Problem::NotOptional.at(&["optional"]));
    }
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
        KindName::List => {
            let items = typed.items.take().ok_or_else(|| {
                Problem::Missing {
                    key: "items",
                    what: "say the type of each item: `items = { type = \"string\" }`",
                }
                .at(&[])
            })?;
            let items = inner(*items).map_err(|it| it.under(&["items"]))?;
            return list(&typed, items);
        }
        KindName::Number => Kind::Number {
            max: number(typed.max.as_ref(), "max", Int::MAX)?,
            min: number(typed.min.as_ref(), "min", Int::MIN)?,
        },
        KindName::Object => Kind::Object {
            members: members(typed.members.take().ok_or_else(|| {
                Problem::Missing {
                    key: "members",
                    what: "say what it holds: `members = { id = { type = \"string\" } }`",
                }
                .at(&[])
            })?)?,
        },
        KindName::String => Kind::String {
            // A form says itself how long a text can be, unless it is longer than a text may be.
            max_length: typed.max_length.unwrap_or_else(|| {
                typed
                    .pattern
                    .as_ref()
                    .map_or(STRING_MAX, |it| it.longest().clamp(1, PATTERN_LENGTH))
            }),
            min_length: typed.min_length.unwrap_or(0),
            pattern: typed.pattern.clone(),
        },
    };
    foreign_bounds(&typed, name, made.name())?;
    Ok(made)
}

/// Bounds that belong to another type. What was taken out of `typed` belongs.
fn foreign_bounds(typed: &Typed, name: KindName, kind: &'static str) -> Result<(), Fault> {
    let (numeric, longest, shortest, listed) = match name {
        KindName::Boolean | KindName::List | KindName::Object => (false, false, false, false),
        KindName::Email => (false, true, false, false),
        KindName::Enum => (false, false, false, true),
        KindName::Integer | KindName::Number => (true, false, false, false),
        KindName::String => (false, true, true, false),
    };
    let counted = matches!(name, KindName::List);
    for (bound, given, belongs) in [
        ("items", typed.items.is_some(), false),
        ("max", typed.max.is_some(), numeric),
        ("max_items", typed.max_items.is_some(), counted),
        ("max_length", typed.max_length.is_some(), longest),
        ("members", typed.members.is_some(), false),
        ("min", typed.min.is_some(), numeric),
        ("min_items", typed.min_items.is_some(), counted),
        ("min_length", typed.min_length.is_some(), shortest),
        ("one_of", typed.one_of.is_some(), listed),
        ("pattern", typed.pattern.is_some(), shortest),
    ] {
        if given && !belongs {
            return Err(Problem::BoundOfOtherType { bound, kind }.at(&[bound]));
        }
    }
    Ok(())
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

//! From the file to the policy.

use alloc::{
    borrow::ToOwned as _,
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::{
    FORMAT, Kind, Policy, PolicyError, Problem, Rules,
    error::Fault,
    file::{
        ArgumentTable, AuthorityName, CredentialTable, File, HintsTable, KindName, RequestTable,
        Session, ToolTable, Typed,
    },
    rules::{
        Argument, Authority, Credential, Hints, Placement, Risk, SessionLimits, SessionRules, Tool,
    },
};
use crate::{
    floor::{self, Floor},
    id::{OwnedName, PolicyName, ValueName},
    json::{Int, Value},
    origin::Origin,
    request::Template,
    template::{Body, Text},
};

pub(super) fn compile(name: &PolicyName, toml: &str) -> Result<Policy, PolicyError> {
    format(toml)
        .and_then(|()| file(toml))
        .map_err(|error| of_toml(name, toml, &error))
        .and_then(|file| {
            lower(name, file)
                .and_then(Policy::checked)
                .map_err(|fault| PolicyError {
                    policy: name.clone(),
                    line: line_of_key(toml, &fault.key),
                    key: fault.key.join("."),
                    problem: fault.problem,
                })
        })
}

/// What reading the TOML ended with.
enum Unread {
    Format(i64, Option<usize>),
    Toml(toml::de::Error),
}

/// The format is read first, alone: a newer file may have another shape.
fn format(toml: &str) -> Result<(), Unread> {
    #[derive(Deserialize)]
    struct Versioned {
        format: toml::Spanned<i64>,
    }
    let versioned: Versioned = toml::from_str(toml).map_err(Unread::Toml)?;
    let format = &versioned.format;
    if *format.get_ref() == i64::from(FORMAT) {
        Ok(())
    } else {
        Err(Unread::Format(*format.get_ref(), Some(format.span().start)))
    }
}

fn file(toml: &str) -> Result<File, Unread> {
    toml::from_str(toml).map_err(Unread::Toml)
}

fn of_toml(name: &PolicyName, toml: &str, error: &Unread) -> PolicyError {
    let (at, problem) = match error {
        Unread::Format(found, at) => (*at, Problem::Format { found: *found }),
        Unread::Toml(error) => {
            let message: Vec<&str> = error.message().split_whitespace().collect();
            let message = message.join(" ");
            (error.span().map(|it| it.start), Problem::Toml { message })
        }
    };
    PolicyError {
        policy: name.clone(),
        line: line_at(toml, at.unwrap_or(0)),
        key: at
            .and_then(|at| key_at(toml, at))
            .unwrap_or_else(|| "(file)".into()),
        problem,
    }
}

fn line_at(toml: &str, at: usize) -> usize {
    toml.bytes()
        .take(at)
        .filter(|b| *b == b'\n')
        .count()
        .saturating_add(1)
}

/// The line of the longest part of `key` that the file has.
fn line_of_key(toml: &str, key: &[String]) -> usize {
    let Ok(root) = DeTable::parse(toml) else {
        return 1;
    };
    let mut at = 0;
    let mut table = Some(root.get_ref());
    for wanted in key {
        let Some((found, value)) = table.and_then(|table| {
            table
                .iter()
                .find(|(found, _)| found.get_ref().as_ref() == wanted.as_str())
        }) else {
            break;
        };
        at = found.span().start;
        table = match value.get_ref() {
            DeValue::Table(inner) => Some(inner),
            DeValue::Array(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Float(_)
            | DeValue::Integer(_)
            | DeValue::String(_) => None,
        };
    }
    line_at(toml, at)
}

/// The dotted path of the innermost key whose own text or value holds byte `at`.
fn key_at(toml: &str, at: usize) -> Option<String> {
    fn walk(table: &DeTable<'_>, at: usize, path: &mut Vec<String>) -> bool {
        for (key, value) in table {
            path.push(key.get_ref().clone().into_owned());
            if key.span().contains(&at) {
                return true;
            }
            if let DeValue::Table(inner) = value.get_ref()
                && walk(inner, at, path)
            {
                return true;
            }
            if value.span().contains(&at) {
                return true;
            }
            path.pop();
        }
        false
    }
    let root = DeTable::parse(toml).ok()?;
    let mut path = Vec::new();
    walk(root.get_ref(), at, &mut path).then(|| path.join("."))
}

fn lower(name: &PolicyName, file: File) -> Result<Rules, Fault> {
    if let Some(found) = file.name.filter(|found| found != name) {
        return Err(Problem::Name { found }.at(&["name"]));
    }
    let values: BTreeMap<ValueName, Kind> = file
        .values
        .into_iter()
        .map(|(name, typed)| {
            let kind = kind(typed).map_err(|it| it.under(&["values", name.as_str()]))?;
            Ok((name, kind))
        })
        .collect::<Result<_, Fault>>()?;
    let owned: BTreeMap<OwnedName, Kind> = file
        .owned
        .into_iter()
        .map(|(name, typed)| {
            let kind = kind(typed).map_err(|it| it.under(&["owned", name.as_str()]))?;
            Ok((name, kind))
        })
        .collect::<Result<_, Fault>>()?;
    let credentials = file
        .credentials
        .into_iter()
        .map(|(label, table)| {
            let credential =
                credential(table).map_err(|it| it.under(&["credentials", label.as_str()]))?;
            Ok((label, credential))
        })
        .collect::<Result<_, Fault>>()?;
    let tools = file
        .tools
        .into_iter()
        .map(|(name, table)| {
            let tool =
                tool(table, &values, &owned).map_err(|it| it.under(&["tools", name.as_str()]))?;
            Ok((name, tool))
        })
        .collect::<Result<_, Fault>>()?;
    Ok(Rules {
        credentials,
        format: FORMAT,
        name: name.clone(),
        owned,
        session: session(file.session)?,
        tools,
        values,
    })
}

fn session(table: Session) -> Result<SessionRules, Fault> {
    if table.network != "sealed" {
        return Err(Problem::NotInThisVersion {
            word: table.network,
            instead: "\"sealed\"",
        }
        .at(&["session", "network"]));
    }
    Ok(SessionRules {
        limits: SessionLimits {
            open_files: table.limits.open_files,
            processes: table.limits.processes,
        },
        profile: table.profile,
        read_only: table.mounts.read_only,
        workspace: table.workspace,
    })
}

fn credential(table: CredentialTable) -> Result<Credential, Fault> {
    let origins = table
        .floor
        .origins
        .iter()
        .map(|it| Origin::parse(it).map_err(|why| Problem::Origin(why).at(&["floor", "origins"])))
        .collect::<Result<_, _>>()?;
    Ok(Credential {
        connector: table.connector,
        floor: Floor {
            addresses: table.floor.addresses,
            methods: table.floor.methods,
            origins,
            paths: table.floor.paths,
        },
        placement: Placement {
            header: table.placement.header.to_ascii_lowercase(),
            prefix: table.placement.prefix,
        },
    })
}

fn tool(
    table: ToolTable,
    values: &BTreeMap<ValueName, Kind>,
    owned: &BTreeMap<OwnedName, Kind>,
) -> Result<Tool, Fault> {
    let arguments = table
        .arguments
        .into_iter()
        .map(|(name, table)| {
            let argument = argument(table, values, owned)
                .map_err(|it| it.under(&["arguments", name.as_str()]))?;
            Ok((name, argument))
        })
        .collect::<Result<_, Fault>>()?;
    Ok(Tool {
        arguments,
        credential: table.credential,
        description: table.description,
        hints: hints(&table.hints, table.risk, table.idempotent),
        idempotent: table.idempotent,
        on_taint: table.on_taint,
        request: request(table.request).map_err(|it| it.under(&["request"]))?,
        result: table.result,
        risk: table.risk,
    })
}

/// What the policy says, or what follows from risk and idempotence.
fn hints(table: &HintsTable, risk: Risk, idempotent: bool) -> Hints {
    let destructive = match risk {
        Risk::Destructive | Risk::Execute | Risk::Financial => true,
        Risk::Read | Risk::Write => false,
    };
    Hints {
        destructive: table.destructive.unwrap_or(destructive),
        idempotent: table.idempotent.unwrap_or(idempotent),
        read_only: table.read_only.unwrap_or(risk == Risk::Read),
    }
}

fn argument(
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

fn kind(typed: Typed) -> Result<Kind, Fault> {
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

fn request(table: RequestTable) -> Result<Template, Fault> {
    let url = url(&table.url).map_err(|problem| problem.at(&["url"]))?;
    let mut headers = BTreeMap::new();
    for (name, text) in table.headers {
        let lower = name.to_ascii_lowercase();
        let text = Text::parse(&text)
            .map_err(|why| Problem::Template(why).at(&["headers", name.as_str()]))?;
        if headers.insert(lower.clone(), text).is_some() {
            return Err(Problem::Twice { what: lower }.at(&["headers", name.as_str()]));
        }
    }
    let body = table
        .body
        .map(Body::parse)
        .transpose()
        .map_err(|why| Problem::Template(why).at(&["body"]))?;
    Ok(Template {
        answer_max_bytes: table.answer_max_bytes,
        body,
        headers,
        method: table.method,
        origin: url.origin,
        path: url.path,
        query: url.query,
        timeout_ms: table.timeout_ms,
    })
}

struct Url {
    origin: Origin,
    path: Vec<Text>,
    query: Vec<(String, Text)>,
}

fn url(text: &str) -> Result<Url, Problem> {
    let not_one = || Problem::Url { text: text.into() };
    let (scheme, rest) = text.split_once("://").ok_or_else(not_one)?;
    // `{` and `}` cannot be in a path's way here: an argument's name has no `/` and no `?`.
    let (host, path_and_query) = match rest.split_once('/') {
        Some((host, behind)) => (host, behind),
        None => return Err(not_one()),
    };
    if scheme.contains('{') || host.contains('{') {
        return Err(Problem::HostArgument { text: text.into() });
    }
    let origin = Origin::parse(&alloc::format!("{scheme}://{host}")).map_err(Problem::Origin)?;
    let (path, query) = match path_and_query.split_once('?') {
        None => (path_and_query, None),
        Some((path, query)) => (path, Some(query)),
    };
    let path = floor::segments(&alloc::format!("/{path}"))
        .map_err(Problem::Path)?
        .map(|segment| Text::parse(segment).map_err(Problem::Template))
        .collect::<Result<_, _>>()?;
    let query = match query {
        None => Vec::new(),
        Some(query) => query
            .split('&')
            .map(|pair| {
                let (name, value) = pair
                    .split_once('=')
                    .ok_or_else(|| Problem::Query { text: pair.into() })?;
                Ok((name.into(), Text::parse(value).map_err(Problem::Template)?))
            })
            .collect::<Result<_, Problem>>()?,
    };
    Ok(Url {
        origin,
        path,
        query,
    })
}

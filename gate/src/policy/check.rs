//! What must hold of every policy, however it came here.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};

use super::{
    Kind, Problem, Rules,
    error::Fault,
    rules::{Argument, Authority, Credential, OnTaint, Risk, SessionRules, Tool},
};
use crate::{
    floor,
    id::ArgumentName,
    json,
    request::{Template, is_header_value},
    template::{Part, Text},
};

/// The longest description, in bytes: what a model is shown of one tool.
const DESCRIPTION_MAX: usize = 4_096;

/// The longest text argument, in characters: four bytes each fit into a call (`Limits::CALL`).
const LENGTH_MAX: u32 = 60_000;

/// The most strings of an enum.
const ENUM_MAX: usize = 1_000;

/// Checks `policy`, and gives its written form.
pub(super) fn check(policy: &Rules) -> Result<Vec<u8>, Fault> {
    session(&policy.session).map_err(|it| it.under(&["session"]))?;
    for (name, it) in &policy.values {
        kind(it).map_err(|it| it.under(&["values", name.as_str()]))?;
    }
    for (name, it) in &policy.owned {
        kind(it).map_err(|it| it.under(&["owned", name.as_str()]))?;
    }
    for (label, it) in &policy.credentials {
        credential(it).map_err(|it| it.under(&["credentials", label.as_str()]))?;
    }
    for (name, it) in &policy.tools {
        tool(policy, it).map_err(|it| it.under(&["tools", name.as_str()]))?;
    }
    json::to_canonical(policy).map_err(|why| Problem::Large { why }.at(&[]))
}

fn session(rules: &SessionRules) -> Result<(), Fault> {
    range(
        rules.limits.processes,
        16,
        100_000,
        &["limits", "processes"],
    )?;
    range(
        rules.limits.open_files,
        64,
        1 << 20,
        &["limits", "open_files"],
    )?;
    let key = ["mounts", "read_only"];
    for path in &rules.read_only {
        let plain = path.strip_prefix('/').is_some_and(|rest| {
            rest.split('/')
                .all(|name| !matches!(name, "" | "." | "..") && !name.contains(char::is_control))
        });
        if !plain {
            return Err(Problem::ReadOnlyPath { path: path.clone() }.at(&key));
        }
    }
    once(&rules.read_only, &key)
}

fn credential(credential: &Credential) -> Result<(), Fault> {
    let header = &credential.placement.header;
    forbidden(header, Use::Placement).map_err(|it| it.at(&["placement", "header"]))?;
    let prefix = &credential.placement.prefix;
    if !prefix.bytes().all(|b| matches!(b, b' '..=b'~')) || prefix.starts_with(' ') {
        return Err(Problem::HeaderValue.at(&["placement", "prefix"]));
    }
    let floor = &credential.floor;
    for (key, empty) in [
        ("methods", floor.methods.is_empty()),
        ("origins", floor.origins.is_empty()),
        ("paths", floor.paths.is_empty()),
    ] {
        if empty {
            return Err(Problem::Empty.at(&["floor", key]));
        }
    }
    for origin in &floor.origins {
        if origin.address().is_some_and(|it| !floor.admits_address(it)) {
            return Err(Problem::FloorAddress {
                origin: origin.clone(),
            }
            .at(&["floor", "addresses"]));
        }
    }
    once(&floor.methods, &["floor", "methods"])?;
    once(&floor.origins, &["floor", "origins"])?;
    let paths: Vec<String> = floor.paths.iter().map(ToString::to_string).collect();
    once(&paths, &["floor", "paths"])
}

fn tool(policy: &Rules, tool: &Tool) -> Result<(), Fault> {
    description(&tool.description).map_err(|it| it.at(&["description"]))?;
    let Some(credential) = policy.credentials.get(&tool.credential) else {
        return Err(Problem::UnknownCredential {
            credential: tool.credential.clone(),
        }
        .at(&["credential"]));
    };
    if tool.on_taint == OnTaint::Pass && tool.risk != Risk::Read {
        return Err(Problem::OnTaintPass.at(&["on_taint"]));
    }
    let reads = tool.risk == Risk::Read;
    for (key, contradicts) in [
        ("destructive", tool.hints.destructive && reads),
        ("idempotent", tool.hints.idempotent && !tool.idempotent),
        ("read_only", tool.hints.read_only && !reads),
    ] {
        if contradicts {
            return Err(Problem::Hint.at(&["hints", key]));
        }
    }
    for (name, it) in &tool.arguments {
        argument(policy, it).map_err(|it| it.under(&["arguments", name.as_str()]))?;
    }
    request(&tool.request, credential).map_err(|it| it.under(&["request"]))?;
    uses(tool)?;
    on_floor(tool, credential).map_err(|it| it.under(&["request"]))
}

fn argument(policy: &Rules, argument: &Argument) -> Result<(), Fault> {
    description(&argument.description).map_err(|it| it.at(&["description"]))?;
    kind(&argument.kind)?;
    let (of, known) = match &argument.authority {
        Authority::Payload => return Ok(()),
        Authority::Injected { value } | Authority::Verified { value } => {
            let known = policy.values.get(value).ok_or_else(|| {
                Problem::UnknownValue {
                    value: value.clone(),
                }
                .at(&["value"])
            })?;
            (value.as_str(), known)
        }
        Authority::Owned { set } => {
            let known = policy
                .owned
                .get(set)
                .ok_or_else(|| Problem::UnknownOwned { set: set.clone() }.at(&["set"]))?;
            (set.as_str(), known)
        }
    };
    if *known != argument.kind {
        return Err(Problem::TypeDiffers { of: of.into() }.at(&["type"]));
    }
    if argument.optional && !argument.authority.in_call() {
        return Err(Problem::OptionalInjected.at(&["optional"]));
    }
    Ok(())
}

fn request(template: &Template, credential: &Credential) -> Result<(), Fault> {
    range(template.timeout_ms, 1, 600_000, &["timeout_ms"])?;
    // What reaches an agent at most (`custody_wire::agent::RESULT_CAP`).
    range(template.answer_max_bytes, 1, 1 << 20, &["answer_max_bytes"])?;
    if template.body.is_some() && !template.method.has_body() {
        return Err(Problem::Body {
            method: template.method,
        }
        .at(&["body"]));
    }
    path(template).map_err(|it| it.at(&["url"]))?;
    for (name, value) in &template.query {
        let plain = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
        };
        if name.is_empty() || !plain(name) {
            return Err(Problem::Query { text: name.clone() }.at(&["url"]));
        }
        if let Some(text) = literals(value).find(|it| !plain(it)) {
            return Err(Problem::Query { text: text.into() }.at(&["url"]));
        }
    }
    for (name, text) in &template.headers {
        let key = ["headers", name.as_str()];
        forbidden(name, Use::Template).map_err(|it| it.at(&key))?;
        if *name == credential.placement.header {
            return Err(Problem::Header {
                header: name.clone(),
                why: "is where the credential goes; leave it out",
            }
            .at(&key));
        }
        let whole = text.literal().is_none_or(is_header_value);
        let ascii = literals(text).all(|it| it.bytes().all(|b| matches!(b, b' '..=b'~')));
        if !whole || !ascii {
            return Err(Problem::HeaderValue.at(&key));
        }
    }
    Ok(())
}

/// Every literal piece of a segment is `pchar`; only the last segment may be empty.
fn path(template: &Template) -> Result<(), Problem> {
    let shown = shown_path(template);
    let not_one = |why| Problem::Path(why);
    let last = template.path.len().saturating_sub(1);
    if template.path.is_empty() {
        return Err(not_one(floor::PathError::Start { path: shown }));
    }
    for (index, segment) in template.path.iter().enumerate() {
        match segment.literal() {
            Some("") if index != last => {
                return Err(not_one(floor::PathError::Empty { path: shown }));
            }
            Some(text) => floor::check_literal(&shown, text).map_err(not_one)?,
            None => {
                for text in literals(segment) {
                    // `.` beside an argument is looked at again when it is filled.
                    if !matches!(text, "." | "..") {
                        floor::check_literal(&shown, text).map_err(not_one)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn literals(text: &Text) -> impl Iterator<Item = &str> {
    text.parts().iter().filter_map(|part| match part {
        Part::Argument(_) => None,
        Part::Literal(text) => Some(text.as_str()),
    })
}

fn shown_path(template: &Template) -> String {
    template.path.iter().fold(String::new(), |mut path, it| {
        path.push('/');
        path.push_str(it.literal().unwrap_or("{}"));
        path
    })
}

/// Every argument is used, and every use is of an argument; those of the path are always there,
/// and never a payload where only trusted values may choose the target.
fn uses(tool: &Tool) -> Result<(), Fault> {
    let mut used: BTreeMap<&ArgumentName, Vec<&str>> = BTreeMap::new();
    let template = &tool.request;
    for text in &template.path {
        for name in text.arguments() {
            used.entry(name).or_insert_with(|| ["url"].into());
            let Some(argument) = tool.arguments.get(name) else {
                continue;
            };
            if argument.optional {
                return Err(Problem::OptionalInPath {
                    argument: name.clone(),
                }
                .at(&["arguments", name.as_str(), "optional"]));
            }
            if tool.on_taint == OnTaint::TrustedSinks && !argument.authority.is_sink() {
                return Err(Problem::PayloadInPath {
                    argument: name.clone(),
                }
                .at(&["request", "url"]));
            }
        }
    }
    for (_, text) in &template.query {
        for name in text.arguments() {
            used.entry(name).or_insert_with(|| ["url"].into());
        }
    }
    for (header, text) in &template.headers {
        for name in text.arguments() {
            used.entry(name)
                .or_insert_with(|| ["headers", header.as_str()].into());
        }
    }
    if let Some(body) = &template.body {
        body.each_argument(&mut |name| {
            used.entry(name).or_insert_with(|| ["body"].into());
        });
    }
    for (name, key) in &used {
        if !tool.arguments.contains_key(*name) {
            return Err(Problem::UnknownArgument {
                argument: (*name).clone(),
            }
            .at(key)
            .under(&["request"]));
        }
    }
    for name in tool.arguments.keys() {
        if !used.contains_key(name) {
            return Err(Problem::UnusedArgument {
                argument: name.clone(),
            }
            .at(&["arguments", name.as_str()]));
        }
    }
    Ok(())
}

fn on_floor(tool: &Tool, credential: &Credential) -> Result<(), Fault> {
    let template = &tool.request;
    let floor = &credential.floor;
    if !floor.origins.contains(&template.origin) {
        return Err(Problem::FloorOrigin {
            origin: template.origin.clone(),
            credential: tool.credential.clone(),
        }
        .at(&["url"]));
    }
    if !floor.methods.contains(&template.method) {
        return Err(Problem::FloorMethod {
            method: template.method,
            credential: tool.credential.clone(),
        }
        .at(&["method"]));
    }
    let fits = floor
        .paths
        .iter()
        .any(|it| it.admits(template.path.iter().map(Text::literal)));
    if !fits {
        return Err(Problem::FloorPath {
            path: shown_path(template),
            credential: tool.credential.clone(),
        }
        .at(&["url"]));
    }
    Ok(())
}

fn kind(kind: &Kind) -> Result<(), Fault> {
    match kind {
        Kind::Boolean => Ok(()),
        Kind::Email { max_length } => range(*max_length, 3, 254, &["max_length"]),
        Kind::Enum { one_of } => {
            let key = ["one_of"];
            if one_of.is_empty() {
                return Err(Problem::Empty.at(&key));
            }
            if one_of.len() > ENUM_MAX {
                return Err(Problem::Bounds {
                    why: "an enum has at most 1,000 strings",
                }
                .at(&key));
            }
            once(one_of, &key)
        }
        Kind::Integer { max, min } => ordered(min <= max),
        Kind::Number { max, min } => ordered(min <= max),
        Kind::String {
            max_length,
            min_length,
        } => {
            range(*max_length, 1, LENGTH_MAX, &["max_length"])?;
            if min_length > max_length {
                return Err(Problem::Bounds {
                    why: "`min_length` is greater than `max_length`",
                }
                .at(&["min_length"]));
            }
            Ok(())
        }
    }
}

fn ordered(ordered: bool) -> Result<(), Fault> {
    ordered.then_some(()).ok_or_else(|| {
        Problem::Bounds {
            why: "`min` is greater than `max`",
        }
        .at(&["min"])
    })
}

fn range(found: u32, least: u32, most: u32, key: &[&str]) -> Result<(), Fault> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(Problem::OutOfRange { least, most }.at(key))
    }
}

fn once<T: Ord + ToString>(items: &[T], key: &[&str]) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    match items.iter().find(|it| !seen.insert(*it)) {
        Some(twice) => Err(Problem::Twice {
            what: twice.to_string(),
        }
        .at(key)),
        None => Ok(()),
    }
}

fn description(text: &str) -> Result<(), Problem> {
    if text.len() > DESCRIPTION_MAX {
        return Err(Problem::TextLength {
            found: text.len(),
            most: DESCRIPTION_MAX,
        });
    }
    Ok(())
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Use {
    Placement,
    Template,
}

/// Fields that decide where a message ends, what it is for or who sends it are not a policy's.
fn forbidden(header: &str, used: Use) -> Result<(), Problem> {
    let refuse = |why| {
        Err(Problem::Header {
            header: header.into(),
            why,
        })
    };
    // `token` (RFC 9110, 5.6.2), lower case.
    let token = !header.is_empty()
        && header
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(&b));
    if !token {
        return refuse("is not a header field's name");
    }
    match header {
        "connection" | "content-encoding" | "content-length" | "expect" | "host" | "keep-alive"
        | "proxy-connection" | "te" | "trailer" | "transfer-encoding" | "upgrade" => {
            refuse("is the connector's to set; leave it out")
        }
        "content-type" => refuse("is set to application/json where there is a body; leave it out"),
        "authorization" | "cookie" | "proxy-authorization" if used == Use::Template => {
            refuse("carries a credential; name it as the credential's placement instead")
        }
        _ => Ok(()),
    }
}

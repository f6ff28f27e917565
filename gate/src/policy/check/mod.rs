//! What must hold of every policy, however it came here.

mod header;
mod kind;
mod request;
mod uses;

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};

use self::header::Use;
use super::{
    Problem, Rules,
    error::Fault,
    rules::{Argument, Authority, Credential, Label, OnTaint, Risk, SessionRules, Tool},
};
use crate::{id::ToolName, json};

/// The longest description, in bytes: what a model is shown of one tool.
const DESCRIPTION_MAX: usize = 4_096;

/// Checks `policy`, and gives its written form.
pub(super) fn check(policy: &Rules) -> Result<Vec<u8>, Fault> {
    session(&policy.session).map_err(|it| it.under(&["session"]))?;
    for (name, it) in &policy.values {
        kind::kind(it).map_err(|it| it.under(&["values", name.as_str()]))?;
    }
    for (name, it) in &policy.owned {
        kind::kind(it).map_err(|it| it.under(&["owned", name.as_str()]))?;
    }
    for (label, it) in &policy.credentials {
        credential(it).map_err(|it| it.under(&["credentials", label.as_str()]))?;
    }
    for (name, it) in &policy.tools {
        tool(policy, it).map_err(|it| it.under(&["tools", name.as_str()]))?;
    }
    workspace(policy)?;
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
        rules.limits.memory_mb,
        64,
        1 << 24,
        &["limits", "memory_mb"],
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

/// A session writes into its workspace what it has read, and a later one would take it for trusted.
fn workspace(policy: &Rules) -> Result<(), Fault> {
    let untrusted = |(_, it): &(&ToolName, &Tool)| it.result == Label::Untrusted;
    match policy.tools.iter().find(untrusted) {
        Some((tool, _)) if policy.session.workspace == Label::Trusted => {
            Err(Problem::WorkspaceTrusted { tool: tool.clone() }.at(&["session", "workspace"]))
        }
        Some(_) | None => Ok(()),
    }
}

fn credential(credential: &Credential) -> Result<(), Fault> {
    let header = &credential.placement.header;
    header::forbidden(header, Use::Placement).map_err(|it| it.at(&["placement", "header"]))?;
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
    request::request(&tool.request, credential).map_err(|it| it.under(&["request"]))?;
    uses::uses(tool)?;
    request::on_floor(tool, credential).map_err(|it| it.under(&["request"]))
}

fn argument(policy: &Rules, argument: &Argument) -> Result<(), Fault> {
    description(&argument.description).map_err(|it| it.at(&["description"]))?;
    kind::kind(&argument.kind)?;
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

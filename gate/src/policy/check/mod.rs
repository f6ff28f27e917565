//! What must hold of every policy, however it came here.

mod classes;
mod header;
mod kind;
mod meaning;
mod request;
mod selector;
mod stream;
mod uses;
mod verify;

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};

use self::header::Use;
use super::{
    Argument, Authority, Catalogue, Credential, Label, OnTaint, OperatorText, Problem, Risk, Rules,
    SessionRules, Tool, error::Fault, lower::member_kind,
};
use crate::{id::ToolName, json, request::IDEMPOTENCY_KEY};

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
    for (name, it) in &policy.catalogues {
        catalogue(it).map_err(|it| it.under(&["catalogues", name.as_str()]))?;
    }
    classes::policy(policy)?;
    for (label, it) in &policy.credentials {
        credential(it).map_err(|it| it.under(&["credentials", label.as_str()]))?;
    }
    for (name, it) in &policy.tools {
        tool(policy, it).map_err(|it| it.under(&["tools", name.as_str()]))?;
    }
    workspace(policy)?;
    if let Some(problem) = policy.operator.as_ref().and_then(OperatorText::problem) {
        return Err(problem.at(&["rules", "cedar"]));
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
    range(rules.hold_seconds, 1, 86_400, &["hold_seconds"])?;
    range(rules.turn_seconds, 1, 86_400, &["turn_seconds"])?;
    let megabytes = u32::try_from(rules.provenance_bytes / 1_000_000).unwrap_or(u32::MAX);
    // Its index is up to three times as large, for each session (`lineage::Budget`).
    range(megabytes, 1, 16, &["provenance_mb"])?;
    if rules.provenance_bytes != u64::from(megabytes) * 1_000_000 {
        return Err(Problem::Bounds {
            why: "a whole number of megabytes is needed",
        }
        .at(&["provenance_mb"]));
    }
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
    let untrusted = |(_, it): &(&ToolName, &Tool)| it.result.taints();
    match policy.tools.iter().find(untrusted) {
        Some((tool, _)) if policy.session.workspace == Label::Trusted => {
            Err(Problem::WorkspaceTrusted { tool: tool.clone() }.at(&["session", "workspace"]))
        }
        Some(_) | None => Ok(()),
    }
}

/// The most entries of a catalogue: each is looked at when one is looked up.
const ENTRIES_MAX: usize = 1_000;

fn catalogue(catalogue: &Catalogue) -> Result<(), Fault> {
    if catalogue.0.is_empty() {
        return Err(Problem::Empty.at(&[]));
    }
    if catalogue.0.len() > ENTRIES_MAX {
        return Err(Problem::Bounds {
            why: "a catalogue has at most 1,000 entries",
        }
        .at(&[]));
    }
    for (name, value) in &catalogue.0 {
        // A call is of texts without NUL, and no longer than a text argument may be.
        for text in [name, value] {
            if text.trim().is_empty() || text.contains('\0') || text.len() > 8_192 {
                return Err(Problem::CatalogueEntry { name: name.clone() }.at(&[]));
            }
        }
    }
    Ok(())
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
    let branches = tool.selector.iter().flat_map(|it| it.cases.values());
    let changes = tool.risk != Risk::Read || branches.clone().any(|it| it.risk != Risk::Read);
    if tool.on_taint == OnTaint::Pass && changes {
        return Err(Problem::OnTaintPass.at(&["on_taint"]));
    }
    if tool.boundary > policy.session.boundary {
        return Err(Problem::Boundary {
            tool: tool.boundary,
            session: policy.session.boundary,
        }
        .at(&["boundary"]));
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
    classes::tool(policy, tool)?;
    meaning::meaning(policy, tool).map_err(|it| it.under(&["meaning"]))?;
    selector::selector(tool)?;
    request::request(&tool.request, credential).map_err(|it| it.under(&["request"]))?;
    stream::stream(tool)?;
    uses::uses(tool)?;
    request::on_floor(tool, credential).map_err(|it| it.under(&["request"]))?;
    if tool.idempotency_key {
        if tool.idempotent {
            return Err(Problem::Verify {
                why: "a tool that is idempotent needs no key; leave one of the two out",
            }
            .at(&["idempotency_key"]));
        }
        if tool.request.headers.contains_key(IDEMPOTENCY_KEY) {
            return Err(Problem::Header {
                header: IDEMPOTENCY_KEY.into(),
                why: "is set by `idempotency_key = true`; leave it out",
            }
            .at(&["request", "headers", IDEMPOTENCY_KEY]));
        }
    }
    if let Some(it) = &tool.precondition {
        verify::precondition(policy, tool, it, credential)
            .map_err(|it| it.under(&["precondition"]))?;
    }
    if let Some(it) = &tool.verify {
        verify::verify(tool, it, credential).map_err(|it| it.under(&["verify"]))?;
    }
    Ok(())
}

fn argument(policy: &Rules, argument: &Argument) -> Result<(), Fault> {
    description(&argument.description).map_err(|it| it.at(&["description"]))?;
    kind::kind(&argument.kind)?;
    if argument.origins.is_empty() {
        return Err(Problem::Empty.at(&["origins"]));
    }
    let (of, known) = match &argument.authority {
        Authority::Agent => return Ok(()),
        Authority::Catalogue { catalogue } => {
            if !policy.catalogues.contains_key(catalogue) {
                return Err(Problem::UnknownCatalogue {
                    catalogue: catalogue.clone(),
                }
                .at(&["catalogue"]));
            }
            return Ok(());
        }
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
    if *member_kind(&argument.authority, &argument.kind, known) != *known {
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

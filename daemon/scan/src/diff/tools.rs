//! Tools: those that are new, those that are gone, and what changed of the others as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::{Effect, Found, What, arguments};
use crate::{
    infer::Scanned,
    schema::{Obligation, Unknown},
};

pub(super) fn compare(before: &[Scanned<'_>], after: &[Scanned<'_>], found: &mut Found) {
    let by_name = |tools: &[Scanned<'_>]| -> BTreeMap<String, usize> {
        let names = tools.iter().map(|it| it.tool.name.clone());
        names.zip(0..).collect()
    };
    let (old_names, new_names) = (by_name(before), by_name(after));
    for name in new_names.keys().filter(|it| !old_names.contains_key(*it)) {
        found
            .at(Some(name), None)
            .is(Effect::AuthorityIncrease, What::ToolAdded);
    }
    for (name, old) in &old_names {
        let Some(new) = new_names.get(name) else {
            found
                .at(Some(name), None)
                .is(Effect::ProtectionIncrease, What::ToolRemoved);
            continue;
        };
        if let (Some(old), Some(new)) = (before.get(*old), after.get(*new)) {
            tool(name, old, new, found);
        }
    }
}

fn tool(name: &str, before: &Scanned<'_>, after: &Scanned<'_>, found: &mut Found) {
    let counted = found.changes.len();
    let mut here = found.at(Some(name), None);
    match (before.schema.unknown, after.schema.unknown) {
        (Unknown::Refused, Unknown::Taken) => here.changed(
            Effect::AuthorityIncrease,
            What::UnknownArguments,
            "refused",
            "taken",
        ),
        (Unknown::Taken, Unknown::Refused) => here.changed(
            Effect::ProtectionIncrease,
            What::UnknownArguments,
            "taken",
            "refused",
        ),
        (Unknown::Refused, Unknown::Refused) | (Unknown::Taken, Unknown::Taken) => {}
    }
    if before.schema.unmodelled_sha256 != after.schema.unmodelled_sha256 {
        here.is(Effect::Review, What::Unmodelled);
    }
    if before.branches != after.branches {
        here.is(Effect::Review, What::Branches);
    }
    if before.tool.annotations != after.tool.annotations {
        here.is(Effect::Review, What::Annotations);
    }
    let words = |it: &Scanned<'_>| (it.tool.title.clone(), it.tool.description.clone());
    if words(before) != words(after) {
        // A model reads it as instructions.
        here.is(Effect::Review, What::ToolText);
    }
    if before.tool.output != after.tool.output {
        here.is(Effect::Review, What::Output);
    }
    obligations(
        &before.schema.obligations,
        &after.schema.obligations,
        &mut here,
    );
    arguments::compare(name, before, after, found);
    let is_said = found.changes.len() > counted;
    if !is_said && before.schema.sha256 != after.schema.sha256 {
        found.at(Some(name), None).is(Effect::Review, What::Schema);
    }
}

/// What there is to look at by its kind and what it is about: where it stands in the file says nothing.
pub(super) fn obligations(
    before: &[Obligation],
    after: &[Obligation],
    here: &mut super::Place<'_>,
) {
    let kinds = |all: &[Obligation]| -> BTreeSet<(&'static str, String)> {
        all.iter()
            .map(|it| (it.kind.as_str(), it.about.clone()))
            .collect()
    };
    let (old, new) = (kinds(before), kinds(after));
    let said = |(kind, about): &(&'static str, String)| {
        if about.is_empty() {
            (*kind).to_owned()
        } else {
            format!("{kind} {about}")
        }
    };
    for it in new.difference(&old) {
        here.add(
            Effect::Review,
            What::ObligationAdded,
            Some(said(it)),
            None,
            None,
        );
    }
    for it in old.difference(&new) {
        here.add(
            Effect::Review,
            What::ObligationCleared,
            Some(said(it)),
            None,
            None,
        );
    }
}

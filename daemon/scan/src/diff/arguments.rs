//! Arguments: those that are new, those that are gone, and what changed of the others.

use std::collections::{BTreeMap, BTreeSet};

use gate::json::{self, Value};

use super::{Effect, Found, Place, What, tools};
use crate::{
    infer::{Authority, Judged, Scanned},
    schema::{Argument, Choice, Kind, Moved, Types, Unknown},
};

type Of<'a> = BTreeMap<&'a str, (&'a Argument, &'a Judged)>;

pub(super) fn compare(tool: &str, before: &Scanned<'_>, after: &Scanned<'_>, found: &mut Found) {
    let old: Of<'_> = before.arguments().map(|it| (&*it.0.path, it)).collect();
    let new: Of<'_> = after.arguments().map(|it| (&*it.0.path, it)).collect();
    for (path, (_, judged)) in new.iter().filter(|(path, _)| !old.contains_key(*path)) {
        found.at(Some(tool), Some(path)).add(
            Effect::AuthorityIncrease,
            What::ArgumentAdded,
            None,
            None,
            Some(judged.inferred.authority.as_str().into()),
        );
    }
    for (path, (argument, judged)) in &old {
        let mut here = found.at(Some(tool), Some(path));
        match new.get(path) {
            Some((now, judged_now)) => one((argument, judged), (now, judged_now), &mut here),
            // What stood inside one that is gone is gone with it.
            None if above(path).is_some_and(|it| old.contains_key(it) && !new.contains_key(it)) => {
            }
            None => removed(path, judged, after, &new, &mut here),
        }
    }
}

/// An argument that no schema names any more is out of reach only where unknown ones are refused.
fn removed(path: &str, judged: &Judged, after: &Scanned<'_>, new: &Of<'_>, here: &mut Place<'_>) {
    let inside_open = above(path)
        .and_then(|it| new.get(it))
        .is_some_and(|(parent, _)| {
            parent
                .obligations
                .iter()
                .any(|it| matches!(it.kind, Kind::OpenObject | Kind::PropertyMap))
        });
    let effect = if after.schema.unknown == Unknown::Refused && !inside_open {
        Effect::ProtectionIncrease
    } else {
        Effect::AuthorityIncrease
    };
    let before = Some(judged.inferred.authority.as_str().into());
    here.add(effect, What::ArgumentRemoved, None, before, None);
}

/// The argument that this one stands inside of.
fn above(path: &str) -> Option<&str> {
    let (parent, _) = path.rsplit_once('/')?;
    let parent = parent.trim_end_matches("/*");
    (!parent.is_empty()).then_some(parent)
}

fn one(before: (&Argument, &Judged), after: (&Argument, &Judged), here: &mut Place<'_>) {
    let counted = here.found.changes.len();
    let ((old, was), (new, is)) = (before, after);
    authority(was, is, here);
    if old.presence != new.presence {
        // Where it may be left out the server chooses.
        let said = |it: &Argument| format!("{:?}", it.presence).to_lowercase();
        here.changed(Effect::Review, What::Presence, &said(old), &said(new));
    }
    types(What::Type, old.types, new.types, here);
    items(old, new, here);
    choices(old.choice.as_ref(), new.choice.as_ref(), here);
    for (keyword, moved) in old.bounds.moved_to(&new.bounds) {
        let said = |it: &Argument| it.bounds.numbers.get(keyword).map(text);
        here.add(
            Effect::of_moved(moved),
            What::Bound,
            Some(keyword.into()),
            said(old),
            said(new),
        );
    }
    // Each of several patterns holds: more of them leave less.
    if let Some(moved) = Moved::of_sets(&new.bounds.patterns, &old.bounds.patterns) {
        here.is(Effect::of_moved(moved), What::Pattern);
    }
    if old.bounds.formats != new.bounds.formats {
        here.is(Effect::Review, What::Format);
    }
    if old.words != new.words {
        here.is(Effect::Review, What::ArgumentText);
    }
    tools::obligations(&old.obligations, &new.obligations, here);
    let is_said = here.found.changes.len() > counted;
    if !is_said && old.sha256 != new.sha256 && !has_inside(old) && !has_inside(new) {
        here.is(Effect::Review, What::Schema);
    }
}

/// Whether its schema holds that of other arguments, whose changes are said of them.
fn has_inside(argument: &Argument) -> bool {
    argument.types.has_object() || !argument.items.is_empty()
}

fn authority(was: &Judged, is: &Judged, here: &mut Place<'_>) {
    let rank = |it: Authority| match it {
        Authority::Locked => 0,
        Authority::Bounded => 1,
        Authority::Payload => 2,
    };
    let (was, is) = (&was.inferred, &is.inferred);
    let effect = match rank(is.authority).cmp(&rank(was.authority)) {
        std::cmp::Ordering::Greater => Effect::AuthorityIncrease,
        std::cmp::Ordering::Less => Effect::ProtectionIncrease,
        std::cmp::Ordering::Equal if was.confidence == is.confidence => return,
        std::cmp::Ordering::Equal => {
            here.changed(
                Effect::Review,
                What::Confidence,
                was.confidence.as_str(),
                is.confidence.as_str(),
            );
            return;
        }
    };
    here.changed(
        effect,
        What::Authority,
        was.authority.as_str(),
        is.authority.as_str(),
    );
}

fn types(what: What, before: Types, after: Types, here: &mut Place<'_>) {
    if before == after {
        return;
    }
    let both = before.and(after);
    let effect = if both == before {
        Effect::AuthorityIncrease
    } else if both == after {
        Effect::ProtectionIncrease
    } else {
        Effect::Review
    };
    here.changed(effect, what, &before.to_string(), &after.to_string());
}

fn items(before: &Argument, after: &Argument, here: &mut Place<'_>) {
    if before.items == after.items {
        return;
    }
    if let ([old], [new]) = (&*before.items, &*after.items) {
        types(What::Items, *old, *new, here);
        return;
    }
    let said = |it: &Argument| it.kind();
    here.changed(Effect::Review, What::Items, &said(before), &said(after));
}

fn choices(before: Option<&Choice>, after: Option<&Choice>, here: &mut Place<'_>) {
    let set = |it: &Choice| -> BTreeSet<Vec<u8>> {
        it.0.iter().map(|value| json::canonical(value)).collect()
    };
    let moved = match (before, after) {
        (None, None) => return,
        (None, Some(_)) => Some(Moved::Tighter),
        (Some(_), None) => Some(Moved::Looser),
        (Some(old), Some(new)) => Moved::of_sets(&set(old), &set(new)),
    };
    let said = |it: Option<&Choice>| it.map(|it| format!("{} values", it.0.len()));
    if let Some(moved) = moved {
        let effect = Effect::of_moved(moved);
        here.add(effect, What::Choices, None, said(before), said(after));
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(&json::canonical(value)).into_owned()
}

//! What somebody states of the tools, before and after: unverified both times.

use std::collections::{BTreeMap, BTreeSet};

use super::{Effect, Found, Place, What};
use crate::controls::{
    Acts, Bound, Controls, Mutability, Stated, StatedArgument, StatedAuthority, Status,
};

pub(super) fn compare(before: Option<&Controls>, after: Option<&Controls>, found: &mut Found) {
    let none = BTreeMap::new();
    let (old, new) = (
        before.map_or(&none, |it| &it.tools),
        after.map_or(&none, |it| &it.tools),
    );
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        tool(name, old.get(name), new.get(name), found);
    }
}

fn tool(name: &str, before: Option<&Stated>, after: Option<&Stated>, found: &mut Found) {
    let not_stated = Acts::NotStated;
    let mut here = found.at(Some(name), None);
    if before.map_or(&not_stated, |it| &it.acts) != after.map_or(&not_stated, |it| &it.acts) {
        let tier = |it: Option<&Stated>| it.map_or("not stated", |it| it.tier().as_str());
        here.changed(Effect::Review, What::ControlRisk, tier(before), tier(after));
    }
    let none = BTreeMap::new();
    let (old, new) = (
        before.map_or(&none, |it| &it.unexposed),
        after.map_or(&none, |it| &it.unexposed),
    );
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for argument in names {
        let effect = match (old.get(argument), new.get(argument)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => Effect::Review,
            // What the server fixed, somebody may say now.
            (_, None) => Effect::AuthorityIncrease,
            (None, Some(_)) => Effect::ProtectionIncrease,
        };
        here.add(
            effect,
            What::ControlUnexposed,
            Some(argument.clone()),
            None,
            None,
        );
    }
    let none = BTreeMap::new();
    let (old, new) = (
        before.map_or(&none, |it| &it.arguments),
        after.map_or(&none, |it| &it.arguments),
    );
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for path in paths {
        let mut here = found.at(Some(name), Some(path));
        argument(old.get(path), new.get(path), &mut here);
    }
}

fn argument(before: Option<&StatedArgument>, after: Option<&StatedArgument>, here: &mut Place<'_>) {
    // What nobody states is not known to be held.
    let rank = |it: Option<&StatedArgument>| match it.map(|it| it.authority) {
        Some(StatedAuthority::Locked) => (0, "locked"),
        Some(StatedAuthority::Constrained) => (1, "constrained"),
        None => (2, "not stated"),
        Some(StatedAuthority::Free) => (3, "free"),
    };
    let ((was, said), (is, says)) = (rank(before), rank(after));
    match is.cmp(&was) {
        std::cmp::Ordering::Equal => {}
        std::cmp::Ordering::Greater => here.changed(
            Effect::AuthorityIncrease,
            What::ControlAuthority,
            said,
            says,
        ),
        std::cmp::Ordering::Less => here.changed(
            Effect::ProtectionIncrease,
            What::ControlAuthority,
            said,
            says,
        ),
    }
    let bounds = |it: Option<&StatedArgument>| -> BTreeMap<String, Bound> {
        let bounds = it.into_iter().flat_map(|it| &it.bounds);
        bounds.map(|it| (it.source.clone(), it.clone())).collect()
    };
    let (old, new) = (bounds(before), bounds(after));
    let sources: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for source in sources {
        let effect = match (old.get(source), new.get(source)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(old), Some(new)) => moved(old, new),
            (_, None) => Effect::AuthorityIncrease,
            (None, Some(_)) => Effect::ProtectionIncrease,
        };
        here.add(effect, What::ControlBound, Some(source.clone()), None, None);
    }
}

/// A bound that more can change, or that is enforced no longer, is less of one.
fn moved(before: &Bound, after: &Bound) -> Effect {
    let who = |it: &Bound| match it.bounds_mutability {
        Mutability::Immutable => 0,
        Mutability::TrustedParty => 1,
        Mutability::Caller => 2,
    };
    let holds = |it: &Bound| match it.operational_status {
        Status::Enforced => 0,
        Status::Specified => 1,
        Status::NotStated => 2,
    };
    if who(after) > who(before) || holds(after) > holds(before) {
        Effect::AuthorityIncrease
    } else if who(after) < who(before) || holds(after) < holds(before) {
        Effect::ProtectionIncrease
    } else {
        Effect::Review
    }
}

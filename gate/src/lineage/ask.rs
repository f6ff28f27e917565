//! The question: where does this value come from?

use alloc::{format, string::String, vec::Vec};
use core::cmp::Reverse;

use super::{
    Label,
    answer::{Class, Ground, How, Origin},
    atom::{self, Atom},
    find::{self, Query},
    label::STEPS_MAX,
    record::{digest, scalar},
    store::{Kind, Store},
    suspect::suspect,
};
use crate::json::Value;

/// Where `value` comes from: as a whole if it is found so, else the worst of its leaves.
pub(super) fn origin(store: &Store, value: &Value) -> Origin {
    ask(store, value, STEPS_MAX)
}

/// The class of `value` where that is one that counts as known, and none otherwise: what [`origin`] says,
/// without looking for it in untrusted text and for what it looks like.
pub(super) fn known(store: &Store, value: &Value) -> Option<Class> {
    let mut buffer = String::new();
    let Some((kind, text)) = scalar(value, &mut buffer) else {
        let class = origin(store, value).class;
        return class.is_known().then_some(class);
    };
    let hash = store.leaf_hash(kind, text);
    let is_leaf = |label| store.leaf_of(hash, kind, text, label).is_some();
    let label = match kind {
        Kind::Bool | Kind::Null => KNOWN.into_iter().find(|label| is_leaf(*label)),
        Kind::Int | Kind::Real => {
            let number = Atom::of_number(value);
            KNOWN.into_iter().find(|label| {
                let number = number.as_ref();
                is_leaf(*label) || number.is_some_and(|it| find::atom(store, it, *label).is_some())
            })
        }
        Kind::Key | Kind::Text if text.contains('\0') => None,
        Kind::Key | Kind::Text => known_text(store, text, is_leaf),
    };
    label.map(Class::of)
}

/// The labels that make a value known, the best first.
const KNOWN: [Label; 3] = [Label::Authoritative, Label::Minted, Label::Derived];

fn known_text(store: &Store, text: &str, is_leaf: impl Fn(Label) -> bool) -> Option<Label> {
    let query = Query::new(store, text);
    let found = KNOWN.into_iter().find(|label| {
        is_leaf(*label)
            || match label {
                Label::Authoritative | Label::Derived => {
                    find::words(store, &query, *label).is_some()
                        || find::grouped(store, &query, *label).is_some()
                }
                Label::Minted | Label::Untrusted => false,
            }
    });
    if found == Some(Label::Authoritative) {
        return found;
    }
    let Some(atoms) = atom::whole(query.text) else {
        return found;
    };
    // As [`by_meaning`] has it: the worst of them, if each is known and that is better.
    let meant = atoms.iter().map(|written| {
        let mut known = KNOWN.into_iter();
        known.find(|label| find::atom_or_day(store, &written.atom, *label).is_some())
    });
    let meant: Option<Vec<Label>> = meant.collect();
    let meant = meant.and_then(|it| it.into_iter().max());
    match (found, meant) {
        (Some(found), Some(meant)) => Some(found.min(meant)),
        (found, meant) => found.or(meant),
    }
}

fn ask(store: &Store, value: &Value, depth: usize) -> Origin {
    let mut buffer = String::new();
    if let Some((kind, text)) = scalar(value, &mut buffer) {
        return leaf(store, value, kind, text);
    }
    let Some(deeper) = depth.checked_sub(1) else {
        return Origin::of(Class::Untrusted);
    };
    // An empty container is nobody's, unless it is found whole.
    let leaves = leaves(store, value, deeper).unwrap_or(Origin::of(Class::Novel));
    if leaves.class == Class::Authoritative {
        return leaves;
    }
    let whole = container(store, value);
    if whole.class.is_known() && whole.class <= leaves.class {
        whole
    } else {
        leaves
    }
}

fn container(store: &Store, value: &Value) -> Origin {
    // With a single leaf it is no more than that leaf, and not kept.
    let several = match value {
        Value::List(items) => items.len() != 1 || !items.iter().all(is_scalar),
        Value::Object(members) => members.len() != 1 || !members.values().all(is_scalar),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => false,
    };
    if !several {
        return Origin::of(Class::Novel);
    }
    let digest = digest(store, value);
    let grounds = Label::ALL
        .into_iter()
        .filter_map(|label| store.whole_at(digest, label))
        .map(|number| store.whole_ground(number))
        .collect();
    concluded(grounds)
}

const fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::List(_) | Value::Object(_))
}

fn leaves(store: &Store, value: &Value, depth: usize) -> Option<Origin> {
    let mut worst: Option<Origin> = None;
    let mut take = |found: Origin, step: &dyn Fn() -> String| {
        if worst.as_ref().is_none_or(|it| it.class < found.class) {
            let step = step().replace('~', "~0").replace('/', "~1");
            let leaf = format!("/{step}{}", found.leaf);
            worst = Some(Origin { leaf, ..found });
        }
    };
    match value {
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                take(ask(store, item, depth), &|| format!("{index}"));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                take(ask(store, member, depth), &|| key.clone());
            }
        }
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
    }
    worst
}

fn leaf(store: &Store, value: &Value, kind: Kind, text: &str) -> Origin {
    let hash = store.leaf_hash(kind, text);
    let as_leaf = |label| {
        store
            .leaf_of(hash, kind, text, label)
            .map(|place| (How::Leaf, place))
    };
    match kind {
        Kind::Bool | Kind::Null => concluded(grounds(store, as_leaf)),
        Kind::Int | Kind::Real => {
            let number = Atom::of_number(value);
            concluded(grounds(store, |label| {
                let number = number.as_ref();
                as_leaf(label).or_else(|| find::atom(store, number?, label))
            }))
        }
        Kind::Key | Kind::Text => text_origin(store, text, as_leaf),
    }
}

fn text_origin(store: &Store, text: &str, as_leaf: impl Fn(Label) -> Option<(How, u32)>) -> Origin {
    // The parser refuses it; here it would reach from one kept text into the next.
    if text.contains('\0') {
        return Origin::of(Class::Untrusted);
    }
    let query = Query::new(store, text);
    let mut found = grounds(store, |label| {
        as_leaf(label).or_else(|| match label {
            Label::Authoritative | Label::Derived => {
                find::words(store, &query, label).or_else(|| find::grouped(store, &query, label))
            }
            Label::Minted => None,
            Label::Untrusted => find::tokens(store, &query, label),
        })
    });
    let best = found.first().map(|it| it.label);
    if best != Some(Label::Authoritative)
        && let Some(atoms) = atom::whole(query.text)
    {
        found = by_meaning(store, &atoms, found);
    }
    if found.is_empty() {
        found.extend(suspect(store, &query));
    }
    let mut origin = concluded(found);
    if origin.class != Class::Authoritative
        && let Some((how, place)) = find::tokens(store, &query, Label::Authoritative)
    {
        origin.resembles = Some(store.ground(place, how));
    }
    origin
}

/// A date with a time is known if both are, be it from two places; it is then as good as the worse
/// of them, if what was `found` of the whole is not better.
fn by_meaning(store: &Store, atoms: &[atom::Written], found: Vec<Ground>) -> Vec<Ground> {
    let mut known = Vec::new();
    let mut untrusted = Vec::new();
    for written in atoms {
        let places = Label::ALL.into_iter().filter_map(|label| {
            find::atom_or_day(store, &written.atom, label)
                .map(|(how, place)| store.ground(place, how))
        });
        for ground in places.take(1) {
            if ground.label == Label::Untrusted {
                untrusted.push(ground);
            } else {
                known.push(ground);
            }
        }
    }
    // The least trusted of them says what the whole is.
    known.sort_by_key(|it| Reverse(it.label));
    let all = known.len() == atoms.len();
    let better = known
        .first()
        .is_some_and(|it| found.first().is_none_or(|best| it.label < best.label));
    if all && better {
        known.extend(found);
        known
    } else if found.is_empty() {
        untrusted
    } else {
        found
    }
}

fn grounds(store: &Store, look: impl Fn(Label) -> Option<(How, u32)>) -> Vec<Ground> {
    Label::ALL
        .into_iter()
        .filter_map(look)
        .map(|(how, place)| store.ground(place, how))
        .collect()
}

/// The class that `grounds` give: that of the first.
fn concluded(grounds: Vec<Ground>) -> Origin {
    let class = grounds
        .first()
        .map_or(Class::Novel, |first| Class::of(first.label));
    Origin {
        grounds,
        ..Origin::of(class)
    }
}

//! Bounds that a value can meet.

use super::{once, range};
use crate::policy::{Kind, Problem, error::Fault, lower::PATTERN_LENGTH};

/// The longest text argument, in characters: four bytes each fit into a call (`Limits::CALL`).
const LENGTH_MAX: u32 = 60_000;

/// The most strings of an enum.
const ENUM_MAX: usize = 1_000;

/// The most items of a list: a call has at most 10,000 values (`Limits::CALL`).
const ITEMS_MAX: u32 = 1_000;

/// The most types inside each other.
const DEPTH_MAX: u32 = 4;

/// The most members of an object.
const MEMBERS_MAX: usize = 100;

pub(super) fn kind(kind: &Kind) -> Result<(), Fault> {
    nested(kind, DEPTH_MAX)
}

fn nested(kind: &Kind, deeper: u32) -> Result<(), Fault> {
    let inside = |it: &Kind| match deeper.checked_sub(1) {
        Some(deeper) => nested(it, deeper),
        None => Err(Problem::Bounds {
            why: "types are at most 4 inside each other",
        }
        .at(&[])),
    };
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
        Kind::List {
            items,
            max_items,
            min_items,
        } => {
            range(*max_items, 1, ITEMS_MAX, &["max_items"])?;
            if min_items > max_items {
                return Err(Problem::Bounds {
                    why: "`min_items` is greater than `max_items`",
                }
                .at(&["min_items"]));
            }
            inside(items).map_err(|it| it.under(&["items"]))
        }
        Kind::Number { max, min } => ordered(min <= max),
        Kind::Object { members } => {
            if members.is_empty() {
                return Err(Problem::Empty.at(&["members"]));
            }
            if members.len() > MEMBERS_MAX {
                return Err(Problem::Bounds {
                    why: "an object has at most 100 members",
                }
                .at(&["members"]));
            }
            members.iter().try_for_each(|(name, member)| {
                inside(&member.kind).map_err(|it| it.under(&["members", name.as_str()]))
            })
        }
        Kind::String {
            max_length,
            min_length,
            pattern,
        } => {
            let longest = if pattern.is_some() {
                PATTERN_LENGTH
            } else {
                LENGTH_MAX
            };
            range(*max_length, 1, longest, &["max_length"])?;
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

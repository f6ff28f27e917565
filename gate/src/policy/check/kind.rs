//! Bounds that a value can meet.

use super::{once, range};
use crate::policy::{Kind, Problem, error::Fault};

/// The longest text argument, in characters: four bytes each fit into a call (`Limits::CALL`).
const LENGTH_MAX: u32 = 60_000;

/// The most strings of an enum.
const ENUM_MAX: usize = 1_000;

pub(super) fn kind(kind: &Kind) -> Result<(), Fault> {
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

//! A tool that is several: one listed argument says which, and each branch has a risk of its own.

use gate::json::Value;

use super::{
    names::Name,
    tier::{self, Tier},
    vocabulary::Words,
};
use crate::schema::{Argument, Schema};

/// An argument whose values look like tools of their own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Branches {
    /// The argument's path.
    pub argument: String,
    /// Each of its values, and what that says, in the schema's order. Foreign text.
    pub cases: Vec<(String, Tier)>,
}

/// Names of arguments that say what is done.
static NAMES: Words = Words::of("action command method mode op operation task verb");

/// What has more values than these is a list of things, and no list of actions.
const CASES: usize = 100;

/// The first argument of `schema` that chooses among branches.
pub(super) fn of(schema: &Schema) -> Option<Branches> {
    schema
        .arguments
        .iter()
        .filter(|argument| !argument.is_nested())
        .find_map(branches)
}

fn branches(argument: &Argument) -> Option<Branches> {
    let choice = argument.choice.as_ref().filter(|it| it.0.len() <= CASES)?;
    let mut cases = Vec::with_capacity(choice.0.len());
    for value in &choice.0 {
        if let Value::Text(text) = value.as_ref() {
            cases.push((text.clone(), tier::of_name(&Name::of(text)).0));
        }
    }
    let known = cases
        .iter()
        .filter(|(_, tier)| *tier != Tier::Unknown)
        .count();
    let named = Name::of(&argument.name)
        .head()
        .is_some_and(|head| NAMES.has(head));
    // Half of its values are words of what is done, or the name says that they are.
    let acts = known > 1 && known.saturating_mul(2) >= cases.len();
    (cases.len() > 1 && (named || acts)).then(|| Branches {
        argument: argument.path.clone(),
        cases,
    })
}

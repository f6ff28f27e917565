//! Names beside each other that differ by case or normal form alone: readers take either for the other.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization as _;

use super::{Argument, Kind, Obligation};
use crate::input::Tool;

/// Adds an obligation to each argument whose name is another's of the same place in another form.
pub(super) fn flag(arguments: &mut [Argument]) {
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    for argument in &*arguments {
        *forms.entry(form(&argument.path)).or_default() += 1;
    }
    for argument in arguments {
        if forms.get(&form(&argument.path)).is_some_and(|it| *it > 1) {
            let mut obligations: BTreeSet<Obligation> = argument.obligations.drain(..).collect();
            obligations.insert(Obligation {
                kind: Kind::Collision,
                pointer: argument.pointer.clone(),
                about: argument.name.clone(),
            });
            argument.obligations = obligations.into_iter().collect();
        }
    }
}

/// Whether another tool of the export has the name of each in another form.
pub(super) fn tools(tools: &[Tool]) -> Vec<bool> {
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools {
        *forms.entry(form(&tool.name)).or_default() += 1;
    }
    let shared = |tool: &Tool| forms.get(&form(&tool.name)).is_some_and(|it| *it > 1);
    tools.iter().map(shared).collect()
}

/// What many readers make of a name: without case, separators and what is not seen.
fn form(path: &str) -> String {
    path.nfkc()
        .flat_map(char::to_lowercase)
        .filter(|it| *it == '/' || it.is_alphanumeric() || *it == '*')
        .collect()
}

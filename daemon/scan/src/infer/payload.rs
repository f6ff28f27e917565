//! What the name of a payload does not free.

use std::collections::BTreeSet;

use gate::json::Value;

use super::{
    around::{Around, Nature},
    authority::{Reason, Targets},
    hints::{Hint, Weight},
    names::Name,
    vocabulary::{self, Words},
};
use crate::schema::Argument;

/// Formats of texts that say something, and of no more.
static PROSE: Words =
    Words::of("html markdown md multiline plain rich-text richtext text textarea");

/// A text of at most so many characters says nothing: it is a code, a flag, a unit.
const SHORT: i64 = 16;

/// Why an argument with a payload's name is locked all the same, and the word that says it.
pub(super) fn doubt(
    argument: &Argument,
    name: &Name,
    word: &str,
    hints: &BTreeSet<Hint>,
    around: &Around,
    targets: Targets,
) -> Option<(Reason, String)> {
    if let Some(word) = vocabulary::looked_for(name) {
        return Some((Reason::LookedFor, word.to_owned()));
    }
    if around.acts_on(word) {
        return Some((Reason::LookedFor, word.to_owned()));
    }
    if let Some(word) = vocabulary::run(name) {
        return Some((Reason::CodeName, word.to_owned()));
    }
    if let Some(word) = vocabulary::quantity(name) {
        return Some((Reason::Formed, word.to_owned()));
    }
    if targets == Targets::Above {
        return Some((Reason::InsideTarget, word.to_owned()));
    }
    if let Some(obligation) = argument.obligations.first() {
        return Some((Reason::Review, obligation.kind.as_str().to_owned()));
    }
    if let Some(hint) = hints.iter().find(|hint| hint.weight == Weight::Says) {
        return Some((Reason::Hinted, hint.word.clone()));
    }
    if let Some(form) = formed(argument) {
        return Some((Reason::Formed, form));
    }
    let reason = match around.nature {
        Nature::Foreign => Reason::ForeignTool,
        Nature::KeepsSecrets => Reason::SecretTool,
        Nature::RunsCode => Reason::CodeTool,
        Nature::StoresCode if around.stores(word) => Reason::CodeTool,
        Nature::Plain | Nature::StoresCode => return None,
    };
    Some((reason, word.to_owned()))
}

/// What says that a text is a value with a form.
fn formed(argument: &Argument) -> Option<String> {
    let bounds = &argument.bounds;
    let prose = |format: &str| PROSE.has(&format.to_ascii_lowercase());
    if let Some(format) = bounds.formats.iter().find(|it| !prose(it)) {
        return Some((**format).to_owned());
    }
    // `^(keep|delete)$` is a choice.
    if let Some(pattern) = bounds.patterns.iter().find(|it| it.contains('|')) {
        return Some((**pattern).to_owned());
    }
    match bounds.numbers.get("maxLength") {
        Some(Value::Int(most)) if most.get() < SHORT => Some("maxLength".to_owned()),
        Some(_) | None => None,
    }
}

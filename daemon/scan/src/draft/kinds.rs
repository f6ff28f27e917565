//! The type of an argument as a policy has it, where it has one.

use std::collections::BTreeSet;

use gate::json::Value;

use super::toml::{Page, quoted};
use crate::{
    infer::Scanned,
    schema::{self, Argument, Named, Obligation},
};

/// How long a text is at most where the schema does not say it: what is said, and what names something.
const SAID_MAX: i64 = 4_000;
const NAMED_MAX: i64 = 256;

/// The longest text, the longest list and the most choices that a policy takes.
const LONGEST: i64 = 60_000;
const ITEMS_MAX: i64 = 1_000;
const CHOICES_MAX: usize = 1_000;

/// A type of a policy.
pub(super) enum Kind {
    /// One of these texts.
    Choice(Vec<String>),
    /// A number or a truth.
    Plain(Vec<String>),
    /// A text.
    Text(Vec<(&'static str, Bound)>),
    /// A list of texts.
    Texts(Option<i64>),
}

/// A bound of a text.
pub(super) enum Bound {
    /// The schema's.
    Said(i64),
    /// Nobody's.
    Guessed(i64),
}

impl Kind {
    /// Of `argument`; none where a policy has no such type, or anything of it is left to look at.
    pub(super) fn of(argument: &Argument, scanned: &Scanned<'_>) -> Option<Self> {
        let is_open = |it: &Obligation| it.kind != schema::Kind::Unmodelled;
        let is_named = argument.named == Named::BySchema;
        if !is_named || argument.obligations.iter().any(is_open) || has_inside(argument, scanned) {
            return None;
        }
        if let Some(choice) = &argument.choice {
            let mut texts: Vec<String> = choice
                .0
                .iter()
                .map(|it| it.as_text().map(String::from))
                .collect::<Option<_>>()?;
            // Branches may list a value twice.
            let mut seen = BTreeSet::new();
            texts.retain(|it| seen.insert(it.clone()));
            let fits = (1..=CHOICES_MAX).contains(&texts.len());
            return fits.then_some(Self::Choice(texts));
        }
        match argument.types.single()? {
            "boolean" => Some(Self::Plain(vec!["type = \"boolean\"".into()])),
            word @ ("integer" | "number") => number(word, argument).map(Self::Plain),
            "string" => string(argument).map(Self::Text),
            "array" => {
                let [items] = &*argument.items else {
                    return None;
                };
                let most = count(argument, "maxItems");
                let fits = items.single() == Some("string") && most != Some(0);
                fits.then(|| Self::Texts(most.map(|it| it.min(ITEMS_MAX))))
            }
            _ => None,
        }
    }

    /// As the type of an argument that the agent writes.
    pub(super) fn write(&self, page: &mut Page) {
        match self {
            Self::Texts(most) => {
                page.line("type = \"list\"");
                page.guess(
                    &format!("items = {{ type = \"string\", max_length = {SAID_MAX} }}"),
                    "how long each is",
                );
                match most {
                    Some(most) => page.line(&format!("max_items = {most}")),
                    None => page.guess("max_items = 100", "how many there are"),
                }
            }
            Self::Choice(_) | Self::Plain(_) | Self::Text(_) => self.write_lines(SAID_MAX, page),
        }
    }

    /// As the type of a value, or of a member of a set.
    pub(super) fn write_member(&self, page: &mut Page) {
        self.write_lines(NAMED_MAX, page);
    }

    fn write_lines(&self, guessed: i64, page: &mut Page) {
        match self {
            Self::Choice(members) => {
                let members: Vec<String> = members.iter().map(|it| quoted(it)).collect();
                page.line("type = \"enum\"");
                page.line(&format!("one_of = [{}]", members.join(", ")));
            }
            Self::Plain(lines) => {
                for line in lines {
                    page.line(line);
                }
            }
            Self::Text(bounds) => {
                page.line("type = \"string\"");
                let least = match bounds.first() {
                    Some(("min_length", Bound::Said(least))) => *least,
                    Some(_) | None => 0,
                };
                for (key, bound) in bounds {
                    match bound {
                        Bound::Said(n) => page.line(&format!("{key} = {n}")),
                        Bound::Guessed(n) => page.guess(
                            &format!("{key} = {}", (*n).min(guessed.max(least))),
                            "the schema does not bound it",
                        ),
                    }
                }
            }
            Self::Texts(_) => {
                page.line("type = \"string\"");
                page.guess(
                    &format!("max_length = {guessed}"),
                    "the schema does not bound it",
                );
            }
        }
    }
}

/// What a schema says of a value beyond what a policy takes over, for the comments.
pub(super) fn notes(argument: &Argument) -> Vec<String> {
    let patterns = argument.bounds.patterns.iter().map(|it| ("pattern", it));
    let formats = argument.bounds.formats.iter().map(|it| ("format", it));
    let texts = patterns
        .chain(formats)
        .map(|(keyword, it)| format!("{keyword} {}", gate::excerpt::excerpt(it)));
    let numbers = [
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
    ]
    .into_iter()
    .filter(|it| argument.bounds.numbers.contains_key(it))
    .map(String::from);
    texts.chain(numbers).collect()
}

/// Whether there are arguments inside: a policy's argument is one value.
fn has_inside(argument: &Argument, scanned: &Scanned<'_>) -> bool {
    let inside = format!("{}/", argument.path);
    let mut all = scanned.schema.arguments.iter();
    argument.types.has_object() || all.any(|it| it.path.starts_with(&inside))
}

/// The bounds of a text; none where no text that a policy takes fits them.
fn string(argument: &Argument) -> Option<Vec<(&'static str, Bound)>> {
    let least = count(argument, "minLength").unwrap_or(0);
    let most = match count(argument, "maxLength") {
        Some(most) => Bound::Said(most.min(LONGEST)),
        None => Bound::Guessed(SAID_MAX.max(least)),
    };
    let (Bound::Said(longest) | Bound::Guessed(longest)) = most;
    if longest < 1 || least > longest || longest > LONGEST {
        return None;
    }
    let least = (least > 0).then_some(("min_length", Bound::Said(least)));
    Some(least.into_iter().chain([("max_length", most)]).collect())
}

/// The bounds of a number; none where no number fits them.
fn number(word: &str, argument: &Argument) -> Option<Vec<String>> {
    let mut lines = vec![format!("type = \"{word}\"")];
    let mut range = Vec::new();
    for (keyword, key) in [("minimum", "min"), ("maximum", "max")] {
        match argument.bounds.numbers.get(keyword) {
            Some(Value::Int(n)) => {
                lines.push(format!("{key} = {}", n.get()));
                range.push(n.as_f64());
            }
            Some(Value::Real(x)) if word == "number" => {
                lines.push(format!("{key} = {:?}", x.get()));
                range.push(x.get());
            }
            Some(_) | None => {}
        }
    }
    range.is_sorted().then_some(lines)
}

fn count(argument: &Argument, keyword: &str) -> Option<i64> {
    match argument.bounds.numbers.get(keyword) {
        Some(Value::Int(n)) => Some(n.get()),
        Some(_) | None => None,
    }
}

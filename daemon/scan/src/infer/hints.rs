//! What a schema hints at beside names and types: for the reviewer. A hint may lock an argument; none ever frees one.

use std::collections::BTreeSet;

use serde::Serialize;

use super::vocabulary;
use crate::schema::{Argument, Words};

/// Something that a schema hints at.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Hint {
    /// What it hints at.
    pub cue: Cue,
    /// Where it stands.
    pub source: Source,
    /// The word, the form or the value that hints at it: foreign text.
    pub word: String,
    /// How much it says.
    pub weight: Weight,
}

/// What a hint is at.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cue {
    /// Code or a command.
    Code,
    /// The text is longer than what is looked at.
    LongText,
    /// Which thing of a system.
    Selector,
    /// Another tool's result has a field of this name: the value is often taken from there.
    OtherResult,
    /// Where an effect goes, what it acts on, or what lets it in.
    Target,
    /// The value is put where it is read in another way: a header, an encoding.
    Transport,
}

impl Cue {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::LongText => "long_text",
            Self::OtherResult => "other_result",
            Self::Selector => "selector",
            Self::Target => "target",
            Self::Transport => "transport",
        }
    }
}

/// Where a hint stands.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `contentMediaType`, `contentEncoding` or `x-mcp-header`.
    Carriage,
    /// `description`.
    Description,
    /// `format`.
    Format,
    /// The schema of another tool's results.
    OutputSchema,
    /// `pattern`.
    Pattern,
    /// `default`, `examples` or `const`.
    Sample,
    /// `title`.
    Title,
}

impl Source {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Carriage => "carriage",
            Self::Description => "description",
            Self::Format => "format",
            Self::OutputSchema => "output_schema",
            Self::Pattern => "pattern",
            Self::Sample => "sample",
            Self::Title => "title",
        }
    }
}

/// How much a hint says.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// It stands somewhere: look at it.
    Mention,
    /// It says what the value is: that locks the argument.
    Says,
}

/// Everything that `argument`'s schema hints at.
pub(super) fn of(argument: &Argument, results: &Results) -> BTreeSet<Hint> {
    let mut hints = BTreeSet::new();
    let words = &argument.words;
    for text in &words.descriptions {
        prose(text, Source::Description, &mut hints);
    }
    for text in &words.titles {
        prose(text, Source::Title, &mut hints);
    }
    for text in &words.samples {
        if let Some(word) = target_value(text) {
            add(&mut hints, Cue::Target, Source::Sample, word, Weight::Says);
        }
    }
    let bounds = &argument.bounds;
    let cut = |text: &str| text.len() >= Words::MOST;
    for (source, texts) in [
        (Source::Format, &bounds.formats),
        (Source::Pattern, &bounds.patterns),
        (Source::Sample, &words.samples),
    ] {
        if texts.iter().any(|text| cut(text)) {
            // Nobody looked at the rest.
            add(&mut hints, Cue::LongText, source, "", Weight::Says);
        }
    }
    for format in &bounds.formats {
        if vocabulary::is_sink_format(format) {
            add(
                &mut hints,
                Cue::Target,
                Source::Format,
                format,
                Weight::Says,
            );
        } else if vocabulary::is_selector_format(format) {
            add(
                &mut hints,
                Cue::Selector,
                Source::Format,
                format,
                Weight::Says,
            );
        }
    }
    for pattern in &bounds.patterns {
        for (mark, cue) in PATTERNS {
            if pattern.contains(mark) {
                add(&mut hints, cue, Source::Pattern, mark, Weight::Says);
            }
        }
    }
    for carried in &words.carriage {
        add(
            &mut hints,
            Cue::Transport,
            Source::Carriage,
            carried,
            Weight::Says,
        );
    }
    if let Some(tool) = results.tool_with(&argument.name) {
        let source = Source::OutputSchema;
        add(&mut hints, Cue::OtherResult, source, tool, Weight::Mention);
    }
    // What is said need not be mentioned.
    let said: Vec<Hint> = hints
        .iter()
        .filter(|it| it.weight == Weight::Says)
        .map(|it| Hint {
            weight: Weight::Mention,
            ..it.clone()
        })
        .collect();
    for hint in said {
        hints.remove(&hint);
    }
    hints
}

fn add(hints: &mut BTreeSet<Hint>, cue: Cue, source: Source, word: &str, weight: Weight) {
    let word = word.to_owned();
    hints.insert(Hint {
        cue,
        source,
        word,
        weight,
    });
}

/// What a pattern has in it that says what it matches.
const PATTERNS: [(&str, Cue); 7] = [
    ("://", Cue::Target),
    (":\\/\\/", Cue::Target),
    ("@", Cue::Target),
    ("^/", Cue::Target),
    ("^\\/", Cue::Target),
    ("0-9a-f", Cue::Selector),
    ("a-f0-9", Cue::Selector),
];

/// Prose. Its first noun phrase says what the value *is* ("URL of the page", "The recipient's address"); words behind
/// it are only mentioned.
fn prose(text: &str, source: Source, hints: &mut BTreeSet<Hint>) {
    if text.len() >= Words::MOST {
        add(hints, Cue::LongText, source, "", Weight::Mention);
    }
    let mut opening = true;
    let mut before: Option<String> = None;
    for (index, word) in words(text).enumerate() {
        if index < PURPOSE && LOOKED_FOR.has(&word.text) {
            add(hints, Cue::Selector, source, &word.text, Weight::Says);
        }
        let ends = word.ends || STOPS.has(&word.text);
        if let Some(cue) = cue(&word.text) {
            add(hints, cue, source, &word.text, Weight::Mention);
        }
        // The last word before the phrase ends is its head: "file contents" are contents.
        if opening && STOPS.has(&word.text) {
            heads(before.as_deref(), source, hints);
        } else if opening && ends {
            heads(Some(&word.text), source, hints);
        }
        let goes_on = matches!(word.text.as_str(), "or" | "and" | "the" | "a" | "an");
        if ends && !goes_on {
            opening = false;
        }
        before = Some(word.text);
    }
    if opening {
        heads(before.as_deref(), source, hints);
    }
}

fn heads(head: Option<&str>, source: Source, hints: &mut BTreeSet<Hint>) {
    if let Some(head) = head
        && let Some(cue) = cue(head)
    {
        add(hints, cue, source, head, Weight::Says);
    }
}

/// Words that end a noun phrase.
static STOPS: vocabulary::Words = vocabulary::Words::of(
    "a an and as at by for from in into is of on or that the to used when where which whose with you",
);

/// Words that say that a text is looked for ("text to search for"), and so chooses what the effect is on.
static LOOKED_FOR: vocabulary::Words = vocabulary::Words::of(
    "filter find finds locate match matched matches matching search searched searches wait",
);

/// Where a description says what its value is for: among its first words.
const PURPOSE: usize = 6;

/// Words of prose that say code; the rest is the vocabulary of names.
static CODE: vocabulary::Words = vocabulary::Words::of(
    "bash code command commands expression javascript python script shell sql",
);

/// Words of prose that say where something goes, and are no words of names.
static TARGETS: vocabulary::Words =
    vocabulary::Words::of("bucket channel chat folder receiver repository target thread");

fn cue(word: &str) -> Option<Cue> {
    if CODE.has(word) {
        return Some(Cue::Code);
    }
    if TARGETS.has(word) || vocabulary::is_sink_word(word) {
        return Some(Cue::Target);
    }
    vocabulary::is_selector(word).then_some(Cue::Selector)
}

struct Word {
    text: String,
    /// Whether the phrase ends behind it.
    ends: bool,
}

/// The words of `text` in lower case. A possessive is its noun.
fn words(text: &str) -> impl Iterator<Item = Word> {
    text.split_whitespace().take(PROSE).filter_map(|raw| {
        let ends = raw.ends_with([
            ',', '.', ';', ':', ')', '!', '?', '\u{2014}', '\u{2013}', '-',
        ]);
        let text: String = raw
            .trim_end_matches("'s")
            .trim_matches(|it: char| !it.is_alphanumeric())
            .to_lowercase();
        (!text.is_empty()).then_some(Word { text, ends })
    })
}

/// So many words of a text are looked at; [`Words::MOST`] bytes have no more.
const PROSE: usize = 2_048;

/// What shows in a sample that it is a target.
fn target_value(text: &str) -> Option<&'static str> {
    if text.contains("://") {
        return Some("://");
    }
    let mail = text
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !text.contains(' '));
    if mail {
        return Some("@");
    }
    ["/", "~/", "./", "../", "C:\\"]
        .into_iter()
        .find(|start| text.starts_with(start) && text.len() > start.len())
}

/// The field names of every tool's results, where its schema says them.
#[derive(Debug, Default)]
pub(super) struct Results {
    fields: std::collections::BTreeMap<String, String>,
}

impl Results {
    /// Those of an export's tools.
    pub(super) fn of(tools: &[crate::input::Tool]) -> Self {
        let mut results = Self::default();
        for tool in tools {
            if let Some(output) = &tool.output {
                results.note(output, &tool.name);
            }
        }
        results
    }

    fn note(&mut self, schema: &gate::json::Value, tool: &str) {
        use gate::json::Value;
        match schema {
            Value::Object(members) => {
                if let Some(Value::Object(properties)) = members.get("properties") {
                    for name in properties.keys() {
                        self.fields
                            .entry(name.clone())
                            .or_insert_with(|| tool.to_owned());
                    }
                }
                for member in members.values() {
                    self.note(member, tool);
                }
            }
            Value::List(items) => {
                for item in items {
                    self.note(item, tool);
                }
            }
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {}
        }
    }

    /// A tool whose results have a field `name`.
    fn tool_with(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<(Cue, Weight)> {
        let mut hints = BTreeSet::new();
        prose(text, Source::Description, &mut hints);
        hints.into_iter().map(|it| (it.cue, it.weight)).collect()
    }

    #[test]
    fn the_first_phrase_says_what_a_value_is_and_the_rest_mentions() {
        for (text, cue) in [
            ("URL of the page", Cue::Target),
            ("The recipient's email address.", Cue::Target),
            ("Absolute path to the file", Cue::Target),
            ("The ID or name of the thing", Cue::Selector),
            ("Name or id", Cue::Selector),
            ("SQL command to run", Cue::Code),
            ("Slack channel", Cue::Target),
            ("Plain text to search for in the page", Cue::Selector),
            ("The text to wait for", Cue::Selector),
        ] {
            assert!(said(text).contains(&(cue, Weight::Says)), "{text}");
        }
        for text in [
            "The message text to post",
            "Text to type into the element",
            "File contents",
            "What to say to the recipient",
        ] {
            assert!(
                said(text)
                    .iter()
                    .all(|(_, weight)| *weight == Weight::Mention),
                "{text}"
            );
        }
        assert!(said("Body, sent to the URL").contains(&(Cue::Target, Weight::Mention)));
    }

    #[test]
    fn a_sample_shows_a_target() {
        for text in [
            "https://example.test/a",
            "a@example.test",
            "/etc/passwd",
            "~/x",
        ] {
            assert!(target_value(text).is_some(), "{text}");
        }
        for text in ["hello", "a @ b", "/", "2026"] {
            assert_eq!(target_value(text), None, "{text}");
        }
    }
}

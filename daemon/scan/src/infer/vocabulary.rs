//! The words that say what an argument is.

use std::{collections::HashSet, sync::OnceLock};

use super::names::Name;

/// Words, looked up by hash: a scan asks of every word of every description.
#[derive(Debug)]
pub(super) struct Words {
    /// They, with a blank between two.
    text: &'static str,
    listed: OnceLock<HashSet<&'static str>>,
    /// In the order in which they are written.
    ordered: OnceLock<Vec<&'static str>>,
}

impl Words {
    pub(super) const fn of(text: &'static str) -> Self {
        Self {
            text,
            listed: OnceLock::new(),
            ordered: OnceLock::new(),
        }
    }

    /// Whether `word` is one of them.
    pub(super) fn has(&self, word: &str) -> bool {
        self.listed(word).is_some()
    }

    /// The one that `word` is.
    pub(super) fn listed(&self, word: &str) -> Option<&'static str> {
        let listed = self.listed.get_or_init(|| self.text.split(' ').collect());
        listed.get(word).copied()
    }

    /// The first that `ends` says yes to, in the order in which they are written.
    fn first(&self, ends: impl Fn(&str) -> bool) -> Option<&'static str> {
        let ordered = self.ordered.get_or_init(|| self.text.split(' ').collect());
        ordered.iter().copied().find(|word| ends(word))
    }
}

/// A word of a name that makes it a target, wherever it stands: where an effect goes, what it acts on, or what lets it
/// in.
static SINKS: Words = Words::of(
    "account accounts address addresses addressee addressees apikey apikeys bcc beneficiaries \
     beneficiary bic cc cmd cmds command commands cookie cookies credential credentials cwd \
     destination destinations directories directory dirname domain domains dsn email emails endpoint \
     endpoints file filename filenames filepath filepaths files host hostname hostnames hosts href \
     iban ibans ip mailto otp passphrase passwd password passwords path pathname paths payee payees \
     phone phones pwd recipient recipients redirect script scripts secret secrets shell shells sql \
     swift token tokens uri uris url urls username usernames wallet wallets webhook webhooks xpath",
);

/// Two words behind one another that are a target.
const PAIRS: [(&str, &str); 3] = [("access", "key"), ("api", "key"), ("private", "key")];

/// A last word that makes a name a target.
static HEADS: Words = Words::of("dir expression folder function javascript repo repository to");

/// A word that says which thing of a system is meant.
static SELECTORS: Words = Words::of(
    "arn guid guids handle handles id identifier identifiers ids key keys oid ref refs slug slugs \
     uid uids uuid uuids",
);

/// A last word that names what is said, rather than where or of what.
static PAYLOADS: Words = Words::of("body content description message note reply summary text");

/// Words of targets out in the world.
static OPEN: Words = Words::of(
    "bcc cc domain domains email emails endpoint endpoints host hostname hosts href idn-email ip phone recipient \
     recipients uri url urls webhook webhooks",
);

/// What flat compounds end in that is a target: `webhookurl`. Not `file`, `host`, `path`, `shell`, `to`, `ip`, `cc`:
/// `profile`, `ghost`, `zip`.
static FLAT_SINKS: Words = Words::of(
    "account address apikey command credential credentials email endpoint filename filepath hostname \
     iban passphrase passwd password recipient recipients secret token uri url urls username webhook",
);

/// What flat compounds end in that says which thing is meant.
static FLAT_SELECTORS: Words = Words::of("guid id identifier key keys uuid");

/// Words that end in `id` and name no thing.
static NO_IDS: Words =
    Words::of("aid android bid fluid grid hybrid invalid paid rapid solid valid void");

/// Words before a payload's, or above it, that make it what is looked for, and so where the effect goes: `oldText`,
/// `query/text`.
static LOOKED_FOR: Words = Words::of(
    "anchor contains current deleted excluded expected filter filters find from match matches old original parent \
     previous queries query removed search selected selection selector target to where",
);

/// Words before a payload's, or above it, that make it something that is run or obeyed: `functionBody`,
/// `systemMessage`.
static RUN: Words = Words::of(
    "code config configuration css cypher expression formula function functions graphql instruction instructions \
     javascript js lambda macro manifest pattern policy program prompt python regex rule rules ruby system template \
     yaml",
);

/// Words before `text` that make it a value, spelled out.
static QUANTITIES: Words =
    Words::of("amount balance count currency date price quantity rate sum time total");

/// What is put behind a name and changes nothing of what it names.
static QUALIFIERS: Words =
    Words::of("arg default field input list name override param parameter str string value");

/// So many qualifiers are taken off.
const LAYERS: usize = 8;

/// Formats of JSON Schema, and what servers write for them, that are a target's.
static FORMATS: Words = Words::of(
    "directory-path email file file-path filepath hostname iban idn-email idn-hostname ip ipv4 ipv6 \
     iri iri-reference password path phone uri uri-reference uri-template url web-url",
);

/// Formats that say which thing is meant.
static SELECTOR_FORMATS: Words = Words::of("json-pointer relative-json-pointer uuid");

/// The word of `name` that makes it a target.
pub(super) fn sink(name: &Name) -> Option<String> {
    if let Some(token) = name.tokens().find(|token| SINKS.has(token)) {
        return Some(token.to_owned());
    }
    let tokens: Vec<&str> = name.tokens().collect();
    for pair in tokens.windows(2) {
        if let [first, second] = pair
            && PAIRS.contains(&(first, second))
        {
            return Some(format!("{first} {second}"));
        }
    }
    if let Some(head) = name.head().filter(|head| HEADS.has(head)) {
        return Some(head.to_owned());
    }
    flat(&name.flat(), &FLAT_SINKS)
}

/// The word of `name` that says which thing is meant.
pub(super) fn selector(name: &Name) -> Option<String> {
    if let Some(token) = name.tokens().find(|token| SELECTORS.has(token)) {
        return Some(token.to_owned());
    }
    if name.last().is_some_and(|last| NO_IDS.has(last)) {
        return None;
    }
    flat(&name.flat(), &FLAT_SELECTORS)
}

/// The word of `name` that makes a payload of it what is looked for.
pub(super) fn looked_for(name: &Name) -> Option<&str> {
    name.tokens().find(|token| LOOKED_FOR.has(token))
}

/// The word of `name` that makes a payload of it what is run or obeyed.
pub(super) fn run(name: &Name) -> Option<&str> {
    name.tokens().find(|token| RUN.has(token))
}

/// The word of `name` that makes a value of its text: `amount_text`.
pub(super) fn quantity(name: &Name) -> Option<&str> {
    let is_text = name.last() == Some("text");
    name.tokens().find(|token| is_text && QUANTITIES.has(token))
}

/// Whether a word of prose says which thing is meant.
pub(super) fn is_selector(word: &str) -> bool {
    SELECTORS.has(word)
}

/// Whether `word` is that of a target out in the world: somebody may be reached there.
pub(super) fn is_open(word: &str) -> bool {
    OPEN.has(word)
}

/// The last word of `name`, where it names what is said.
pub(super) fn payload(name: &Name) -> Option<&str> {
    name.last().filter(|last| PAYLOADS.has(last))
}

/// Whether `format` is a target's.
pub(super) fn is_sink_format(format: &str) -> bool {
    FORMATS.has(&format.to_ascii_lowercase())
}

/// Whether `format` says which thing is meant.
pub(super) fn is_selector_format(format: &str) -> bool {
    SELECTOR_FORMATS.has(&format.to_ascii_lowercase())
}

/// The ending of a word, written in one and without its qualifiers, that is among `endings`.
fn flat(word: &str, endings: &Words) -> Option<String> {
    let mut rest = word;
    for _layer in 0..=LAYERS {
        if let Some(found) = endings.first(|ending| rest.ends_with(ending)) {
            return Some(found.to_owned());
        }
        let qualifier = QUALIFIERS.first(|it| rest.ends_with(it))?;
        rest = rest.strip_suffix(qualifier)?;
    }
    None
}

/// Whether a word of prose is a target's. `to` is none: it stands in any sentence.
pub(super) fn is_sink_word(word: &str) -> bool {
    if word.bytes().all(|b| b.is_ascii_lowercase()) {
        let head = word != "to" && HEADS.has(word);
        return head || SINKS.has(word) || flat(word, &FLAT_SINKS).is_some();
    }
    word != "to" && sink(&Name::of(word)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_is_does_not_hang_on_how_it_is_written() {
        for name in [
            "to",
            "emailTo",
            "toRecipient2",
            "webhookurl",
            "webhook-URL",
            "urlvaluefield",
            "API_KEY",
            "apiKey",
            "user.email",
            "filePath",
            "sql_text",
        ] {
            assert!(sink(&Name::of(name)).is_some(), "{name}");
        }
        for name in ["topic", "profile", "tools", "into_words", "body", "zip"] {
            assert_eq!(sink(&Name::of(name)), None, "{name}");
        }
        for name in ["ticketId", "userid", "uuid", "row_key", "useridvalue"] {
            assert!(selector(&Name::of(name)).is_some(), "{name}");
        }
        for name in ["idea", "valid", "is_paid"] {
            assert_eq!(selector(&Name::of(name)), None, "{name}");
        }
        for name in ["body", "commitMessage", "issue_text"] {
            assert!(payload(&Name::of(name)).is_some(), "{name}");
        }
        for name in ["text2", "body_type", "messages", "context"] {
            assert_eq!(payload(&Name::of(name)), None, "{name}");
        }
    }
}

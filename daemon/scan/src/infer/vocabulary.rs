//! The words that say what an argument is.

use super::names::Name;

/// Words, with a blank between two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(pub(super) &'static str);

impl Words {
    /// Whether `word` is one of them.
    pub(super) fn has(self, word: &str) -> bool {
        self.iter().any(|it| it == word)
    }

    /// Each of them.
    pub(super) fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split(' ')
    }
}

/// A word of a name that makes it a target, wherever it stands: where an effect goes, what it acts on, or what lets it
/// in.
const SINKS: Words = Words(
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
const HEADS: Words = Words("dir expression folder function javascript repo repository to");

/// A word that says which thing of a system is meant.
const SELECTORS: Words = Words(
    "arn guid guids handle handles id identifier identifiers ids key keys oid ref refs slug slugs \
     uid uids uuid uuids",
);

/// A last word that names what is said, rather than where or of what.
const PAYLOADS: Words = Words("body content description message note reply summary text");

/// Words of targets out in the world.
const OPEN: Words = Words(
    "bcc cc domain domains email emails endpoint endpoints host hostname hosts href idn-email ip phone recipient \
     recipients uri url urls webhook webhooks",
);

/// What flat compounds end in that is a target: `webhookurl`. Not `file`, `host`, `path`, `shell`, `to`, `ip`, `cc`:
/// `profile`, `ghost`, `zip`.
const FLAT_SINKS: Words = Words(
    "account address apikey command credential credentials email endpoint filename filepath hostname \
     iban passphrase passwd password recipient recipients secret token uri url urls username webhook",
);

/// What flat compounds end in that says which thing is meant.
const FLAT_SELECTORS: Words = Words("guid id identifier key keys uuid");

/// Words that end in `id` and name no thing.
const NO_IDS: Words =
    Words("aid android bid fluid grid hybrid invalid paid rapid solid valid void");

/// Words before a payload's, or above it, that make it what is looked for, and so where the effect goes: `oldText`,
/// `query/text`.
const LOOKED_FOR: Words = Words(
    "anchor contains current deleted excluded expected filter filters find from match matches old original parent \
     previous queries query removed search selected selection selector target to where",
);

/// Words before a payload's, or above it, that make it something that is run or obeyed: `functionBody`,
/// `systemMessage`.
const RUN: Words = Words(
    "code config configuration css cypher expression formula function functions graphql instruction instructions \
     javascript js lambda macro manifest pattern policy program prompt python regex rule rules ruby system template \
     yaml",
);

/// Words before `text` that make it a value, spelled out.
const QUANTITIES: Words =
    Words("amount balance count currency date price quantity rate sum time total");

/// What is put behind a name and changes nothing of what it names.
const QUALIFIERS: Words =
    Words("arg default field input list name override param parameter str string value");

/// So many qualifiers are taken off.
const LAYERS: usize = 8;

/// Formats of JSON Schema, and what servers write for them, that are a target's.
const FORMATS: Words = Words(
    "directory-path email file file-path filepath hostname iban idn-email idn-hostname ip ipv4 ipv6 \
     iri iri-reference password path phone uri uri-reference uri-template url web-url",
);

/// Formats that say which thing is meant.
const SELECTOR_FORMATS: Words = Words("json-pointer relative-json-pointer uuid");

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
    flat(name, FLAT_SINKS)
}

/// The word of `name` that says which thing is meant.
pub(super) fn selector(name: &Name) -> Option<String> {
    if let Some(token) = name.tokens().find(|token| SELECTORS.has(token)) {
        return Some(token.to_owned());
    }
    if name.last().is_some_and(|last| NO_IDS.has(last)) {
        return None;
    }
    flat(name, FLAT_SELECTORS)
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

/// The ending of `name`, written in one and without its qualifiers, that is among `endings`.
fn flat(name: &Name, endings: Words) -> Option<String> {
    let flat = name.flat();
    let mut rest = flat.as_str();
    for _layer in 0..=LAYERS {
        if let Some(found) = endings.iter().find(|ending| rest.ends_with(ending)) {
            return Some(found.to_owned());
        }
        rest = QUALIFIERS.iter().find_map(|it| rest.strip_suffix(it))?;
    }
    None
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

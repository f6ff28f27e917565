//! A name, taken apart: `toRecipient2`, `to-recipient`, `URLPath` and `to.recipient_2` into their words.

use unicode_normalization::UnicodeNormalization as _;

/// A name's words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name {
    tokens: Vec<String>,
    form: Form,
}

/// What a name is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// ASCII, and a letter in it.
    Plain,
    /// Longer than [`LONGEST`]: not looked at.
    Long,
    /// No letter.
    NoLetter,
    /// Something that is not ASCII: it may look like what it is not.
    Foreign,
}

/// The longest name that is taken apart, in characters: no language's identifiers are longer.
const LONGEST: usize = 512;

impl Name {
    /// Takes `name` apart. Compatibility forms are put aside first (NFKC, UAX 15), so that full-width letters read as
    /// letters; such a name is foreign all the same.
    pub fn of(name: &str) -> Self {
        if name.chars().nth(LONGEST).is_some() {
            return Self {
                tokens: Vec::new(),
                form: Form::Long,
            };
        }
        let form = if !name.is_ascii() {
            Form::Foreign
        } else if name.bytes().any(|b| b.is_ascii_alphabetic()) {
            Form::Plain
        } else {
            Form::NoLetter
        };
        let characters: Vec<char> = name.nfkc().collect();
        Self {
            tokens: tokens(&characters),
            form,
        }
    }

    /// What it is made of.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Its words in lower case; a number is a word.
    pub fn tokens(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.tokens.iter().map(String::as_str)
    }

    /// Its last word.
    pub fn last(&self) -> Option<&str> {
        self.tokens().next_back()
    }

    /// Its last word that is no number: `to` of `to2`.
    pub fn head(&self) -> Option<&str> {
        self.tokens()
            .rev()
            .find(|token| !token.bytes().all(|b| b.is_ascii_digit()))
    }

    /// All its words in one, without numbers at the end: what a flat compound (`webhookurl`) is compared as.
    pub fn flat(&self) -> String {
        let all: String = self.tokens().collect();
        all.trim_end_matches(|it: char| it.is_ascii_digit())
            .to_owned()
    }
}

/// Words end at what is no letter or digit, where a capital follows a small letter, before the last capital
/// of a row that a small letter follows, and between letters and digits.
fn tokens(characters: &[char]) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut token = String::new();
    let mut before: Option<char> = None;
    for (index, &character) in characters.iter().enumerate() {
        let after = characters.get(index.saturating_add(1)).copied();
        if !character.is_alphanumeric() {
            end(&mut token, &mut tokens);
            before = None;
            continue;
        }
        if before.is_some_and(|before| is_border(before, character, after)) {
            end(&mut token, &mut tokens);
        }
        token.extend(character.to_lowercase());
        before = Some(character);
    }
    end(&mut token, &mut tokens);
    tokens
}

fn is_border(before: char, character: char, after: Option<char>) -> bool {
    let camel = before.is_lowercase() && character.is_uppercase();
    let acronym =
        before.is_uppercase() && character.is_uppercase() && after.is_some_and(char::is_lowercase);
    let digits = before.is_numeric() != character.is_numeric();
    camel || acronym || digits
}

fn end(token: &mut String, tokens: &mut Vec<String>) {
    if !token.is_empty() {
        tokens.push(std::mem::take(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_whatever_its_style() {
        for (name, words) in [
            ("to_recipient", "to recipient"),
            ("to-recipient.2", "to recipient 2"),
            ("toRecipient2", "to recipient 2"),
            ("URLPath", "url path"),
            ("apiKEY", "api key"),
            ("emailTo", "email to"),
            ("HTMLBody", "html body"),
            ("oauth2Token", "oauth 2 token"),
            ("\u{ff55}\u{ff52}\u{ff4c}", "url"),
            ("a\u{200b}b", "a b"),
            ("___", ""),
        ] {
            let tokens: Vec<String> = Name::of(name).tokens().map(str::to_owned).collect();
            assert_eq!(tokens.join(" "), words, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_not_ascii_is_foreign_whatever_it_reads_as() {
        assert_eq!(Name::of("\u{ff54}ext").form(), Form::Foreign);
        assert_eq!(Name::of("text").form(), Form::Plain);
        assert_eq!(Name::of("42").form(), Form::NoLetter);
        assert_eq!(Name::of(&"a".repeat(513)).form(), Form::Long);
        assert_eq!(Name::of("to2").head(), Some("to"));
    }
}

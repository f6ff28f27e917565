//! The form of a text: what stands where, counted.
//!
//! A small part of regular expressions, that JSON Schema knows too: literal characters, classes
//! (`[A-Z0-9_-]`, `[^a-z]`), `.`, and after each a count (`?`, `*`, `+`, `{2}`, `{2,9}`). No
//! alternatives and no groups, so that a form is read at a glance, and matched in bounded time.
//! It always speaks of the whole text.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

/// The form of a text.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    pieces: Vec<Piece>,
    text: String,
}

/// The most pieces of a form, and the highest count of one.
const PIECES_MAX: usize = 32;

/// The highest count of a piece; `*` and `+` mean it.
const COUNT_MAX: u32 = 256;

/// Why a text is not a [`Pattern`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// A class that is none.
    #[error("`{pattern}` has a class that is none; write `[a-z0-9-]`, the `-` last")]
    Class {
        /// The text.
        pattern: String,
    },
    /// A count that is none.
    #[error(
        "`{pattern}` has a count that is none; write `{{2}}` or `{{2,9}}`, at most {COUNT_MAX}"
    )]
    Count {
        /// The text.
        pattern: String,
    },
    /// Too many pieces.
    #[error("`{pattern}` has more than {PIECES_MAX} pieces")]
    Long {
        /// The text.
        pattern: String,
    },
    /// Something of regular expressions that is not known here.
    #[error(
        "`{pattern}` has `{found}`, which has no meaning here: a form has characters, classes and \
         counts, and speaks of the whole text; write `\\{found}` for the character"
    )]
    Operator {
        /// The text.
        pattern: String,
        /// The character.
        found: char,
    },
}

/// What stands somewhere, and how often.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Piece {
    class: Class,
    least: u32,
    most: u32,
}

/// Which characters.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Class {
    Any,
    Char(char),
    Not(Vec<(char, char)>),
    Of(Vec<(char, char)>),
}

impl Class {
    fn has(&self, character: char) -> bool {
        let within = |ranges: &[(char, char)]| {
            ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&character))
        };
        match self {
            Self::Any => true,
            Self::Char(it) => *it == character,
            Self::Not(ranges) => !within(ranges),
            Self::Of(ranges) => within(ranges),
        }
    }
}

impl Pattern {
    /// Parses a form.
    ///
    /// # Errors
    /// When it has something that is not of the small part above.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut pieces = Vec::new();
        let mut rest = text.chars().peekable();
        let pattern = || text.to_string();
        while let Some(character) = rest.next() {
            let class = match character {
                '.' => Class::Any,
                '[' => {
                    class(&mut rest).ok_or_else(|| PatternError::Class { pattern: pattern() })?
                }
                '\\' => Class::Char(rest.next().filter(|it| !it.is_alphanumeric()).ok_or(
                    PatternError::Operator {
                        pattern: pattern(),
                        found: '\\',
                    },
                )?),
                '(' | ')' | '|' | '^' | '$' | '?' | '*' | '+' | '{' | '}' | ']' => {
                    return Err(PatternError::Operator {
                        pattern: pattern(),
                        found: character,
                    });
                }
                plain => Class::Char(plain),
            };
            let (least, most) =
                count(&mut rest).ok_or_else(|| PatternError::Count { pattern: pattern() })?;
            if pieces.len() == PIECES_MAX {
                return Err(PatternError::Long { pattern: pattern() });
            }
            pieces.push(Piece { class, least, most });
        }
        Ok(Self {
            pieces,
            text: text.into(),
        })
    }

    /// The form as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The most characters of a text of this form.
    pub fn longest(&self) -> u32 {
        self.pieces
            .iter()
            .fold(0, |sum: u32, it| sum.saturating_add(it.most))
    }

    /// Whether the whole of `text` has this form.
    pub fn matches(&self, text: &str) -> bool {
        let characters: Vec<char> = text.chars().collect();
        // Bit n: whether the pieces so far can end before character n.
        let mut ends = alloc::vec![false; characters.len().saturating_add(1)];
        if let Some(first) = ends.first_mut() {
            *first = true;
        }
        for piece in &self.pieces {
            let mut next = alloc::vec![false; ends.len()];
            for (from, _) in ends.iter().enumerate().filter(|(_, ends)| **ends) {
                let most = usize::try_from(piece.most).unwrap_or(usize::MAX);
                let run = characters
                    .iter()
                    .skip(from)
                    .take(most)
                    .take_while(|it| piece.class.has(**it))
                    .count();
                let least = usize::try_from(piece.least).unwrap_or(usize::MAX);
                for length in least..=run {
                    if let Some(end) = next.get_mut(from.saturating_add(length)) {
                        *end = true;
                    }
                }
            }
            ends = next;
        }
        ends.last() == Some(&true)
    }
}

type Rest<'a> = core::iter::Peekable<core::str::Chars<'a>>;

/// What stands between `[` and `]`.
fn class(rest: &mut Rest<'_>) -> Option<Class> {
    let not = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let from = match rest.next()? {
            ']' => break,
            '\\' => rest.next().filter(|it| !it.is_alphanumeric())?,
            // What readers of regular expressions do not agree on.
            '[' | '^' | '&' | '~' => return None,
            '-' if rest.peek() != Some(&']') => return None,
            plain => plain,
        };
        if from != '-' && rest.peek() == Some(&'-') {
            rest.next();
            match rest.next()? {
                ']' => {
                    ranges.extend([(from, from), ('-', '-')]);
                    break;
                }
                to if to.is_alphanumeric() && from <= to => ranges.push((from, to)),
                _ => return None,
            }
        } else {
            ranges.push((from, from));
        }
    }
    if ranges.is_empty() {
        None
    } else if not {
        Some(Class::Not(ranges))
    } else {
        Some(Class::Of(ranges))
    }
}

/// How often; once, where nothing is said.
fn count(rest: &mut Rest<'_>) -> Option<(u32, u32)> {
    let (least, most) = match rest.peek() {
        Some('?') => (0, 1),
        Some('*') => (0, COUNT_MAX),
        Some('+') => (1, COUNT_MAX),
        Some('{') => return braces(rest),
        Some(_) | None => return Some((1, 1)),
    };
    rest.next();
    Some((least, most))
}

fn braces(rest: &mut Rest<'_>) -> Option<(u32, u32)> {
    rest.next();
    let mut inner = String::new();
    loop {
        match rest.next()? {
            '}' => break,
            character => inner.push(character),
        }
    }
    let number = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<u32>().ok())
            .flatten()
            .filter(|it| *it <= COUNT_MAX)
    };
    let (least, most) = match inner.split_once(',') {
        None => (number(&inner)?, number(&inner)?),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    (least <= most && most > 0).then_some((least, most))
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_form_speaks_of_the_whole_text() {
        let matches = |pattern: &str, text: &str| Pattern::parse(pattern).unwrap().matches(text);
        for (pattern, yes, no) in [
            (
                "[A-Z]{2}[0-9]{2}[A-Z0-9]{4,30}",
                "GB29NWBK6016",
                "xGB29NWBK6016",
            ),
            ("[a-z]{1,5}[a-c]{2}", "zzab", "zzzz"),
            ("INV-[0-9]+", "INV-7", "INV-7 "),
            ("a?b*c+", "c", "ab"),
            ("[^@ ]+", "a.b", "a@b"),
            ("\\.\\*", ".*", "xx"),
            ("[a-z-]+", "a-b", "a_b"),
            ("..", "\u{e4}b", "a"),
            ("", "", "a"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(!matches(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn what_has_no_meaning_here_is_refused() {
        for bad in [
            "(a)", "a|b", "^a", "a$", "*a", "[a", "[]", "[z-a]", "[a-\\]]", "a{", "a{x}", "a{2,1}",
            "a{0}", "a{2000}", "a{1,}", "\\d", "[\\d]", "a\\", "]", "}", "[[a]]",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
        assert!(Pattern::parse(&"a".repeat(PIECES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(pattern in "[a-c.\\[\\]{}?*+^\\\\0-9,-]{0,12}", text in "[a-c0-9]{0,9}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let _answer = pattern.matches(&text);
                prop_assert_eq!(Pattern::parse(pattern.as_str()), Ok(pattern));
            }
        }
    }
}

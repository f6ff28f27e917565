//! Words as they are written: what a value must consist of to count as the person's own.
//!
//! A word reaches from one blank, quotation mark, bracket, comma or semicolon to the next; the
//! full stop at the end of a sentence is not of it. An address, a path or a number with its
//! separators is one word, and no part of it is one: `acme.com` is not in `boss@acme.com`, nor
//! `boss@acme.co` in `boss@acme.com`. What is unknown is part of the word, so that doubt makes
//! words longer and matches fewer.

use alloc::vec::Vec;

/// A word's place: from, to.
pub(super) type Span = (usize, usize);

/// The words of a text, from a place at which one starts or the text does.
#[derive(Clone, Debug)]
pub(super) struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) const fn starting(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }
}

impl Iterator for Words<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let bytes = self.text.as_bytes();
        loop {
            let (from, mut to) = (self.at, self.at);
            let mut ended = false;
            while let Some(&byte) = bytes.get(to) {
                let (bounds, len) = if byte.is_ascii() {
                    (ascii_bounds(self.text, to, byte), 1)
                } else {
                    match self.text.get(to..).and_then(|rest| rest.chars().next()) {
                        Some(character) => {
                            (other_bounds(self.text, to, character), character.len_utf8())
                        }
                        None => (true, 1),
                    }
                };
                if bounds {
                    self.at = to.saturating_add(len);
                    ended = true;
                    break;
                }
                to = to.saturating_add(len);
            }
            if !ended {
                self.at = to;
            }
            if let Some(word) = trimmed(self.text, from, to) {
                return Some(word);
            }
            if !ended {
                return None;
            }
        }
    }
}

/// Without what stands before a word (`#general`, `@ada`) and behind it (`Paris.`).
fn trimmed(text: &str, from: usize, to: usize) -> Option<Span> {
    let word = text.get(from..to)?;
    let rest = word.trim_start_matches(['#', '@', '\u{a1}', '\u{bf}']);
    let from = to.saturating_sub(rest.len());
    let rest = rest.trim_end_matches(['.', '!', '?', ':', '\u{2026}']);
    (!rest.is_empty()).then(|| (from, from.saturating_add(rest.len())))
}

fn ascii_bounds(text: &str, at: usize, byte: u8) -> bool {
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | b'"' | b'(' | b')' | b'*' | b';' | b'<'
        | b'>' | b'[' | b']' | b'`' | b'{' | b'|' | b'}' => true,
        b',' => !(is_digit(before(text, at)) && is_digit(after(text, at, 1))),
        b'\'' => apostrophe_bounds(text, at, 1),
        _ => byte < b' ',
    }
}

fn other_bounds(text: &str, at: usize, character: char) -> bool {
    match character {
        '\u{ab}'
        | '\u{bb}'
        | '\u{2018}'
        | '\u{201a}'..='\u{201f}'
        | '\u{2039}'
        | '\u{203a}'
        | '\u{3000}'..='\u{3002}'
        | '\u{3008}'..='\u{3011}'
        | '\u{ff08}'
        | '\u{ff09}'
        | '\u{ff0c}'
        | '\u{ff1b}' => true,
        '\u{2019}' => apostrophe_bounds(text, at, character.len_utf8()),
        _ => character.is_whitespace(),
    }
}

/// Inside a word (`O'Brien`) it is of the word, but for `'s` at the end.
fn apostrophe_bounds(text: &str, at: usize, len: usize) -> bool {
    let inside = before(text, at).is_some_and(char::is_alphanumeric)
        && after(text, at, len).is_some_and(char::is_alphanumeric);
    let mut behind = text.get(at.saturating_add(len)..).unwrap_or("").chars();
    let possessive =
        behind.next() == Some('s') && !behind.next().is_some_and(char::is_alphanumeric);
    !inside || possessive
}

fn before(text: &str, at: usize) -> Option<char> {
    text.get(..at)?.chars().next_back()
}

fn after(text: &str, at: usize, len: usize) -> Option<char> {
    text.get(at.saturating_add(len)..)?.chars().next()
}

fn is_digit(character: Option<char>) -> bool {
    character.is_some_and(|it| it.is_ascii_digit())
}

/// `word` without case: what its fingerprint is made of. Is in `out` where it differs.
pub(super) fn lower<'o>(word: &'o str, out: &'o mut Vec<u8>) -> &'o [u8] {
    let upper = |byte: u8| byte.is_ascii_uppercase() || !byte.is_ascii();
    if !word.bytes().any(upper) {
        return word.as_bytes();
    }
    out.clear();
    if word.is_ascii() {
        out.extend(word.bytes().map(|byte| byte.to_ascii_lowercase()));
    } else {
        for character in word.chars().flat_map(char::to_lowercase) {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    out
}

/// How far two texts are the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alike {
    /// But for case, or for the amount of white space.
    Cased,
    /// Byte for byte.
    Exact,
}

/// Whether `text` begins with `wanted`, but for case and for white space where `wanted` has a single
/// blank. Gives the length of what was read of `text`, too.
pub(super) fn begins(text: &str, wanted: &str) -> Option<(Alike, usize)> {
    if text.as_bytes().starts_with(wanted.as_bytes()) {
        return Some((Alike::Exact, wanted.len()));
    }
    let (mut read, mut left) = (text.chars(), wanted.chars().peekable());
    while let Some(want) = left.next() {
        let found = read.next()?;
        if want == ' ' && !left.peek().is_some_and(|it| it.is_whitespace()) {
            if !found.is_whitespace() {
                return None;
            }
            let rest = read.as_str().trim_start();
            read = rest.chars();
        } else if want != found && !same_but_for_case(want, found) {
            return None;
        }
    }
    Some((Alike::Cased, text.len().saturating_sub(read.as_str().len())))
}

/// Whether each is the other's capital or small letter. KELVIN SIGN has the small letter of `K` too, and
/// is not it.
fn same_but_for_case(one: char, other: char) -> bool {
    let capital = |small: char, capital: char| {
        small.to_uppercase().eq([capital]) && capital.to_lowercase().eq([small])
    };
    capital(one, other) || capital(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{string::String, vec};

    fn words(text: &str) -> Vec<&str> {
        Words::new(text)
            .map(|(from, to)| text.get(from..to).unwrap())
            .collect()
    }

    #[test]
    fn a_word_is_whole() {
        for (text, expected) in [
            (
                "Pay boss@acme.com, now.",
                vec!["Pay", "boss@acme.com", "now"],
            ),
            ("x-boss@acme.com.evil.org", vec!["x-boss@acme.com.evil.org"]),
            ("'bill-december-2023.txt'?", vec!["bill-december-2023.txt"]),
            ("1,200.50 and 3, 4", vec!["1,200.50", "and", "3", "4"]),
            (
                "Bob's O'Brien\u{2019}s #general",
                vec!["Bob", "s", "O'Brien", "s", "general"],
            ),
            (
                "see https://a.example/x?y=1#z.",
                vec!["see", "https://a.example/x?y=1#z"],
            ),
            (
                "(at 12:00): /home/ada/a.txt",
                vec!["at", "12:00", "/home/ada/a.txt"],
            ),
            (
                "localhost:8080 a@b\u{2013}c.example",
                vec!["localhost:8080", "a@b\u{2013}c.example"],
            ),
            ("...", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn case_and_white_space_do_not_matter_anything_else_does() {
        assert_eq!(begins("Ada  King,", "Ada  King"), Some((Alike::Exact, 9)));
        assert_eq!(
            begins("ada \n king, x", "Ada King"),
            Some((Alike::Cased, 10))
        );
        assert_eq!(begins("Adaking", "Ada King"), None);
        assert_eq!(begins("Ada King", "AdaKing"), None);
        assert_eq!(begins("Ada", "Ada King"), None);
    }

    proptest! {
        #[test]
        fn words_are_in_order_and_do_not_touch(text in "\\PC{0,40}") {
            let mut last = 0;
            for (from, to) in Words::new(&text) {
                prop_assert!(last <= from && from < to && to <= text.len());
                prop_assert!(text.is_char_boundary(from) && text.is_char_boundary(to));
                last = to;
            }
        }

        /// Reading on from the start of a word gives the same words: candidates are read so.
        #[test]
        fn words_are_the_same_from_the_start_of_one(text in "[ab1,.' @#\u{2019}-]{0,24}") {
            let all: Vec<Span> = Words::new(&text).collect();
            for (index, (from, _)) in all.iter().enumerate() {
                let rest: Vec<Span> = Words::starting(&text, *from).collect();
                prop_assert_eq!(&rest[..], &all[index..]);
            }
        }

        #[test]
        fn a_text_begins_with_itself(text in any::<String>(), more in any::<String>()) {
            let whole = std::format!("{text}{more}");
            prop_assert_eq!(begins(&whole, &text), Some((Alike::Exact, text.len())));
        }
    }
}

//! Folded text: what two spellings of the same thing have in common. For suspicion only.
//!
//! Each character by itself, so that the same character always folds alike: compatibility forms
//! (UAX 15, NFKD) and lookalikes (UTS 39, confusables) become what they stand for, accents and
//! whatever nobody sees (zero-width, soft hyphen, variation selectors) go, case goes. What is left
//! is cut into tokens: letters and digits in a row.
//!
//! ASCII stays what it is: folding `0` and `o`, or `rn` and `m`, would find a hundred ordinary
//! words for each attack.

use alloc::vec::Vec;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_security::confusable_detection::skeleton;

/// What a character folds to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Folded {
    /// Several.
    Many,
    /// Nothing: as if it were not there.
    Nothing,
    /// One.
    One(char),
}

/// Foldings of characters that were met: a text uses few.
#[derive(Clone, Debug, Default)]
pub(super) struct Memo {
    /// By the lowest bits of the character; empty until the first one that is not ASCII.
    slots: Vec<(char, Folded)>,
}

impl Memo {
    /// Alphabets have 30 to 150 characters, in a row.
    const SLOTS: usize = 256;

    fn fold(&mut self, character: char) -> Folded {
        if self.slots.is_empty() {
            self.slots.resize(Self::SLOTS, ('\0', Folded::Nothing));
        }
        let wanted = usize::try_from(u32::from(character)).unwrap_or(0) % Self::SLOTS;
        match self.slots.get_mut(wanted) {
            Some((held, folded)) if *held == character => *folded,
            slot => {
                let folded = summary(character);
                if let Some(slot) = slot {
                    *slot = (character, folded);
                }
                folded
            }
        }
    }
}

fn summary(character: char) -> Folded {
    let mut found = Folded::Nothing;
    each(character, &mut |one| {
        found = match found {
            Folded::Nothing => Folded::One(one),
            Folded::Many | Folded::One(_) => Folded::Many,
        };
    });
    found
}

/// Calls `sink` with each token of `text`, folded, and the place where it starts, for as long as it
/// says to go on.
pub(super) fn tokens(text: &str, memo: &mut Memo, sink: impl FnMut(&[u8], usize) -> bool) {
    let bytes = text.as_bytes();
    let mut token = Token {
        folded: Vec::new(),
        on: true,
        plain: 0,
        sink,
        start: 0,
        text: bytes,
    };
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' => token.plain(at),
                b'A'..=b'Z' => token.push(byte.to_ascii_lowercase(), at),
                _ => token.end(),
            }
            at = at.saturating_add(1);
        } else {
            let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) else {
                break;
            };
            match memo.fold(character) {
                Folded::Nothing => {}
                Folded::One(one) => token.character(one, at),
                Folded::Many => each(character, &mut |one| token.character(one, at)),
            }
            at = at.saturating_add(character.len_utf8());
        }
        if !token.on {
            return;
        }
    }
    token.end();
}

/// The token that is being read.
struct Token<'t, S> {
    /// As far as it differs from the text; empty while it does not.
    folded: Vec<u8>,
    on: bool,
    /// How many bytes from `start` are as they are in the text.
    plain: usize,
    sink: S,
    start: usize,
    text: &'t [u8],
}

impl<S: FnMut(&[u8], usize) -> bool> Token<'_, S> {
    /// One more byte that folds to itself.
    fn plain(&mut self, at: usize) {
        if !self.folded.is_empty() {
            self.folded.extend(self.text.get(at));
            return;
        }
        if self.plain == 0 {
            self.start = at;
        }
        if self.start.saturating_add(self.plain) == at {
            self.plain = self.plain.saturating_add(1);
        } else if let Some(byte) = self.text.get(at) {
            // Something unseen was between.
            self.push(*byte, at);
        }
    }

    fn push(&mut self, byte: u8, at: usize) {
        if self.folded.is_empty() {
            if self.plain == 0 {
                self.start = at;
            }
            self.folded
                .extend_from_slice(so_far(self.text, self.start, self.plain));
        }
        self.folded.push(byte);
    }

    fn character(&mut self, character: char, at: usize) {
        if !character.is_alphanumeric() {
            self.end();
            return;
        }
        let alone = stands_alone(character);
        if alone {
            self.end();
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            self.push(byte, at);
        }
        if alone {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.plain == 0 && self.folded.is_empty() {
            return;
        }
        if self.on {
            self.on = if self.folded.is_empty() {
                (self.sink)(so_far(self.text, self.start, self.plain), self.start)
            } else {
                (self.sink)(&self.folded, self.start)
            };
        }
        self.plain = 0;
        self.folded.clear();
    }
}

fn so_far(text: &[u8], start: usize, len: usize) -> &[u8] {
    text.get(start..start.saturating_add(len))
        .unwrap_or_default()
}

/// Scripts that are written without spaces: each character is a token (UAX 29, section 4).
const fn stands_alone(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Calls `sink` with each character that `character` folds to.
fn each(character: char, sink: &mut impl FnMut(char)) {
    if character.is_ascii() {
        sink(character.to_ascii_lowercase());
        return;
    }
    if let Some(hidden) = hidden(character) {
        if let Some(shown) = hidden {
            sink(shown.to_ascii_lowercase());
        }
        return;
    }
    decompose_compatible(character, |part| {
        if part.is_ascii() {
            sink(part.to_ascii_lowercase());
        } else if !is_combining_mark(part) {
            let upper = part.is_uppercase();
            for like in skeleton(part.encode_utf8(&mut [0; 4])) {
                // The prototype of a capital I is a small l; what it stands for is an i.
                match like {
                    'l' if upper => sink('i'),
                    like if is_combining_mark(like) => {}
                    like => like.to_lowercase().for_each(&mut *sink),
                }
            }
        }
    });
}

/// Characters that nobody sees: `Some(None)`, or, for those of the tag block, which carry ASCII
/// unseen, what they carry (Unicode 17, 23.9).
const fn hidden(character: char) -> Option<Option<char>> {
    match character {
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' => Some(None),
        '\u{e0020}'..='\u{e007e}' => Some(char::from_u32(character as u32 - 0xe0000)),
        '\u{e0000}'..='\u{e0fff}' => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    fn folded(text: &str, memo: &mut Memo) -> Vec<u8> {
        let mut out = Vec::new();
        tokens(text, memo, |token, _| {
            if !out.is_empty() {
                out.push(b' ');
            }
            out.extend_from_slice(token);
            true
        });
        out
    }

    fn fold(text: &str) -> String {
        String::from_utf8(folded(text, &mut Memo::default())).unwrap()
    }

    #[test]
    fn spellings_of_one_thing_fold_alike() {
        for (spelling, plain) in [
            ("Boss@ACME.com", "boss acme com"),
            ("b\u{200b}o\u{ad}ss@acme.com", "boss acme com"), // zero-width space, soft hyphen
            ("\u{43f}\u{430}ypal", "\u{3c0}aypal"),           // pe is like pi, not like p
            ("p\u{430}yp\u{430}l.com", "paypal com"),         // Cyrillic a
            ("\u{ff42}\u{ff4f}\u{ff53}\u{ff53}", "boss"),     // full width
            ("\u{1d41b}\u{1d428}\u{1d42c}\u{1d42c}", "boss"), // mathematical bold
            ("caf\u{e9}", "cafe"),
            ("cafe\u{301}", "cafe"),
            ("\u{fb01}le", "file"),
            ("\u{e0062}\u{e006f}\u{e0073}\u{e0073}", "boss"), // tags
            ("\u{406}BAN", "iban"),                           // Ukrainian capital I
            ("10 00", "10 00"),
        ] {
            assert_eq!(fold(spelling), plain, "{spelling:?}");
        }
    }

    #[test]
    fn without_spaces_each_character_is_a_token() {
        assert_eq!(
            fold("\u{738b}\u{5c0f}\u{660e}"),
            "\u{738b} \u{5c0f} \u{660e}"
        );
    }

    proptest! {
        #[test]
        fn a_memo_changes_nothing(texts in proptest::collection::vec(any::<String>(), 0..8)) {
            let mut memo = Memo::default();
            for text in &texts {
                prop_assert_eq!(folded(text, &mut memo), folded(text, &mut Memo::default()));
            }
        }

        #[test]
        fn tokens_start_where_a_character_starts(text in any::<String>()) {
            tokens(&text, &mut Memo::default(), |token, start| {
                assert!(text.is_char_boundary(start));
                assert!(!token.is_empty());
                true
            });
        }
    }
}

//! The forms in which a secret may stand: as it is, in hexadecimal, in base64.

use super::character::{self, Chars};

/// The most characters that one byte becomes: two hexadecimal digits.
const DIGITS_MAX: usize = 2;

/// The most bytes of any form of a secret of `len` bytes.
pub(super) fn longest(len: usize) -> usize {
    len.saturating_mul(DIGITS_MAX)
        .saturating_mul(character::ESCAPED_MAX)
}

/// Every form of every secret. It borrows the secrets: no copy of them is made.
pub(super) struct Forms<'s> {
    /// Each with its first characters, which most positions do not have.
    forms: Vec<(Form<'s>, Chars)>,
    /// The bytes with which any form can begin: most positions are passed by this alone.
    begins: [bool; 256],
}

impl<'s> Forms<'s> {
    pub(super) fn of(secrets: &[&'s [u8]]) -> Self {
        let forms: Vec<(Form<'s>, Chars)> = secrets
            .iter()
            .flat_map(|&secret| {
                [
                    Form::Plain(secret),
                    Form::Hex(secret),
                    Form::Base64 { secret, before: 0 },
                    Form::Base64 { secret, before: 1 },
                    Form::Base64 { secret, before: 2 },
                ]
            })
            .filter_map(|form| Some((form, form.nth(0)?)))
            .collect();
        let mut begins = [false; 256];
        for escape in [b'%', b'\\', b'&', 0] {
            mark(&mut begins, escape);
        }
        for (_, first) in &forms {
            for byte in (0..=u8::MAX).filter(|&byte| first.has(byte)) {
                mark(&mut begins, byte);
            }
        }
        Self { forms, begins }
    }

    /// Where the longest form that begins at `at` ends.
    pub(super) fn longest_at(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let first = *bytes.get(at)?;
        if !self.begins.get(usize::from(first)).copied().unwrap_or(true) {
            return None;
        }
        self.forms
            .iter()
            .filter_map(|(form, first)| form.end_at(bytes, at, *first))
            .max()
    }
}

fn mark(table: &mut [bool; 256], byte: u8) {
    if let Some(slot) = table.get_mut(usize::from(byte)) {
        *slot = true;
    }
}

/// One form of one secret.
#[derive(Clone, Copy)]
enum Form<'s> {
    /// As it is.
    Plain(&'s [u8]),
    /// Two hexadecimal digits a byte.
    Hex(&'s [u8]),
    /// Base64 of a text in which the secret stands, `before` bytes (modulo 3) behind its beginning.
    Base64 { secret: &'s [u8], before: usize },
}

impl Form<'_> {
    /// Where the form ends if it begins at `at`; `first` are its first characters.
    fn end_at(self, bytes: &[u8], at: usize, first: Chars) -> Option<usize> {
        // More than one reading is possible where the secret has `%`, `\` or `&` in it: all are
        // followed. A set of positions, not recursion.
        let mut places: Vec<usize> = character::read(bytes, at, first).collect();
        if places.is_empty() {
            return None;
        }
        let mut next = Vec::new();
        let mut nth = 1;
        while let Some(wanted) = self.nth(nth) {
            next.clear();
            for &place in &places {
                for past in character::read(bytes, place, wanted) {
                    if !next.contains(&past) {
                        next.push(past);
                    }
                }
            }
            if next.is_empty() {
                return None;
            }
            std::mem::swap(&mut places, &mut next);
            nth = nth.saturating_add(1);
        }
        places.into_iter().max()
    }

    /// Which characters the form has at `nth`; `None` past its end.
    fn nth(self, nth: usize) -> Option<Chars> {
        match self {
            Self::Plain(secret) => secret.get(nth).copied().map(Chars::either_case),
            Self::Hex(secret) => {
                let byte = *secret.get(nth / 2)?;
                let high = nth.is_multiple_of(2);
                let nibble = if high { byte >> 4 } else { byte & 15 };
                Some(Chars::either_case(hex_digit(nibble)))
            }
            Self::Base64 { secret, before } => {
                let (before, bits) = (before.checked_mul(8)?, secret.len().checked_mul(8)?);
                // The first character that holds a bit of the secret.
                let first = before / 6;
                let from = first.checked_add(nth)?.checked_mul(6)?;
                if from >= before.checked_add(bits)? {
                    return None;
                }
                let known = |bit: usize| {
                    let bit = from.checked_add(bit)?.checked_sub(before)?;
                    let byte = *secret.get(bit / 8)?;
                    Some(byte >> (7_usize.saturating_sub(bit % 8)) & 1)
                };
                Some(Chars::base64(known))
            }
        }
    }
}

const fn hex_digit(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0'.wrapping_add(nibble),
        _ => b'a'.wrapping_add(nibble).wrapping_sub(10),
    }
}

//! What a text says once it is decoded: bounded, and only what reads as a text.
//!
//! What was recorded is decoded when it is recorded, up to [`LAYERS`] times: base64 (RFC 4648,
//! sections 4 and 5, padded or not, in lines or not, written backwards too), hexadecimal pairs with
//! or without separators, and escapes (`%41`, `\u0041`, `&#65;`, `=41`). Each run of it by itself,
//! so that a text is never kept twice for one escape in it. A value that is asked for is decoded
//! once, and also read backwards and turned by rot13.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// How something was written.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coding {
    /// Base64 (RFC 4648), either alphabet.
    Base64,
    /// Escapes of single characters: percent (RFC 3986), `\u`, HTML's `&#`, quoted-printable.
    Escapes,
    /// Two hexadecimal digits a byte.
    Hex,
}

/// How often a recorded text is decoded: base64 of base64, not more.
pub const LAYERS: usize = 2;

/// The shortest run that is decoded, in characters: twelve of base64 are nine bytes, which chance
/// makes readable once in ten thousand words of that length.
const RUN_MIN: usize = 12;

/// The shortest text that a decoding may give.
const TEXT_MIN: usize = 4;

/// Calls `sink` with what each encoded run of `text` says.
pub(super) fn runs(text: &str, mut sink: impl FnMut(Coding, String)) {
    if text.len() < RUN_MIN {
        return;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let to = base64_run(bytes, at);
        let run = bytes.get(at..to).unwrap_or_default();
        if run.len() >= RUN_MIN {
            let found = hex_pairs(run).map(|text| (Coding::Hex, text)).or_else(|| {
                // An identifier or a digest: no text is all of these digits in base64.
                let digits = run.iter().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
                if digits { None } else { base64(run) }.map(|text| (Coding::Base64, text))
            });
            if let Some((coding, text)) = found {
                sink(coding, text);
            }
        }
        at = to.saturating_add(1);
    }
    separated(bytes, &mut sink);
    if bytes.iter().any(|it| is_escape(*it)) {
        for chunk in text.split_ascii_whitespace() {
            if let Some(plain) = escapes(chunk) {
                sink(Coding::Escapes, plain);
            }
        }
    }
}

/// What the whole of `value` says, decoded once.
pub(super) fn whole(value: &str) -> Option<(Coding, String)> {
    let bytes = value.trim().as_bytes();
    if bytes.len() < 8 {
        return None;
    }
    hex_pairs(bytes)
        .map(|text| (Coding::Hex, text))
        .or_else(|| aligned(bytes.iter()).map(|text| (Coding::Base64, text)))
        .or_else(|| escapes(value).map(|text| (Coding::Escapes, text)))
}

/// `text` from its end.
pub(super) fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

/// `text` with each letter thirteen further.
pub(super) fn rot13(text: &str) -> String {
    text.chars()
        .map(|character| {
            let turned = match character {
                'a'..='m' | 'A'..='M' => u32::from(character).checked_add(13),
                'n'..='z' | 'N'..='Z' => u32::from(character).checked_sub(13),
                _ => None,
            };
            turned.and_then(char::from_u32).unwrap_or(character)
        })
        .collect()
}

/// Where the run of base64 that starts at `at` ends. A line end in a long line is of the run.
fn base64_run(bytes: &[u8], at: usize) -> usize {
    /// No encoder makes lines shorter than this (RFC 1421 has 64).
    const LINE_MIN: usize = 48;
    let mut to = at;
    let mut line = at;
    loop {
        match bytes.get(to) {
            Some(byte) if sextet(*byte).is_some() => to = to.saturating_add(1),
            Some(b'\r' | b'\n') if to.saturating_sub(line) >= LINE_MIN => {
                let skip = match bytes.get(to..) {
                    Some([b'\r', b'\n', ..]) => 2,
                    Some(_) | None => 1,
                };
                let next = to.saturating_add(skip);
                if bytes.get(next).is_none_or(|byte| sextet(*byte).is_none()) {
                    return to;
                }
                to = next;
                line = next;
            }
            Some(_) | None => return to,
        }
    }
}

/// By the byte: each byte of each text is asked, most of them several times.
const SEXTETS: [u8; 256] = {
    let mut all = [NO_SEXTET; 256];
    let mut byte = 0_u8;
    let mut rest: &mut [u8] = &mut all;
    while let Some((first, behind)) = rest.split_first_mut() {
        *first = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => NO_SEXTET,
        };
        byte = byte.wrapping_add(1);
        rest = behind;
    }
    all
};

const NO_SEXTET: u8 = 64;

fn sextet(byte: u8) -> Option<u8> {
    let found = SEXTETS.get(usize::from(byte)).copied();
    found.filter(|it| *it != NO_SEXTET)
}

/// `run` decoded, from wherever in it a text starts, or backwards.
fn base64(run: &[u8]) -> Option<String> {
    let forwards = (0..4).find_map(|skip| aligned(run.iter().skip(skip)));
    forwards.or_else(|| (0..4).find_map(|skip| aligned(run.iter().rev().skip(skip))))
}

fn aligned<'b>(run: impl Iterator<Item = &'b u8> + Clone) -> Option<String> {
    // Most runs are ordinary words: their first quads say so, and nothing was kept.
    let mut text = Utf8::default();
    octets(run.clone(), |octet| is_plain(octet) && text.goes_on(octet))?;
    let mut out = Vec::new();
    octets(run, |octet| {
        out.push(octet);
        true
    })?;
    readable(out)
}

/// How far a text of UTF-8 (RFC 3629, section 4) has come: what cannot go on is seen at once.
struct Utf8 {
    high: u8,
    left: u8,
    low: u8,
}

impl Default for Utf8 {
    fn default() -> Self {
        Self {
            high: Self::HIGH,
            left: 0,
            low: Self::LOW,
        }
    }
}

impl Utf8 {
    const HIGH: u8 = 0xbf;
    const LOW: u8 = 0x80;

    fn goes_on(&mut self, octet: u8) -> bool {
        if let Some(left) = self.left.checked_sub(1) {
            let fits = (self.low..=self.high).contains(&octet);
            (self.left, self.low, self.high) = (left, Self::LOW, Self::HIGH);
            return fits;
        }
        (self.left, self.low, self.high) = match octet {
            0..=0x7f => return true,
            0xc2..=0xdf => (1, Self::LOW, Self::HIGH),
            0xe0 => (2, 0xa0, Self::HIGH),
            0xed => (2, Self::LOW, 0x9f),
            0xe1..=0xef => (2, Self::LOW, Self::HIGH),
            0xf0 => (3, 0x90, Self::HIGH),
            0xf1..=0xf3 => (3, Self::LOW, Self::HIGH),
            0xf4 => (3, Self::LOW, 0x8f),
            0x80..=0xc1 | 0xf5..=0xff => return false,
        };
        true
    }
}

/// Calls `sink` with each byte that `run` is the base64 of, for as long as it says to go on.
fn octets<'b>(run: impl Iterator<Item = &'b u8>, mut sink: impl FnMut(u8) -> bool) -> Option<()> {
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in run {
        match (sextet(*byte), byte) {
            (Some(six), _) => {
                bits = (bits << 6 | u32::from(six)) & 0xffff;
                held = held.wrapping_add(6);
            }
            (None, b'=' | b'\r' | b'\n') => continue,
            (None, _) => return None,
        }
        if held >= 8 {
            held = held.wrapping_sub(8);
            let octet = u8::try_from(bits >> held & 0xff).unwrap_or(0);
            if !sink(octet) {
                return None;
            }
        }
    }
    Some(())
}

/// `run` if it is nothing but pairs of hexadecimal digits.
fn hex_pairs(run: &[u8]) -> Option<String> {
    let pairs = run.chunks(2).map(|pair| pair_at(pair, 0));
    if !pairs.clone().all(|octet| octet.is_some_and(is_plain)) {
        return None;
    }
    readable(pairs.flatten().collect())
}

fn pair_at(bytes: &[u8], at: usize) -> Option<u8> {
    let high = hex_digit(*bytes.get(at)?)?;
    let low = hex_digit(*bytes.get(at.saturating_add(1))?)?;
    Some(high << 4 | low)
}

const fn hex_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}

/// Pairs with something between them: `62 6f 73 73`, `62:6f`, `0x62, 0x6f`, `\x62\x6f`.
fn separated(bytes: &[u8], sink: &mut impl FnMut(Coding, String)) {
    /// A time with seconds has three pairs, a MAC address six.
    const PAIRS_MIN: usize = 6;
    let mut at = 0;
    let mut inside = false;
    while let Some(byte) = bytes.get(at) {
        if inside || !(byte.is_ascii_hexdigit() || *byte == b'\\') {
            inside = byte.is_ascii_alphanumeric();
            at = at.saturating_add(1);
            continue;
        }
        // Words begin like pairs: nothing is kept before there are enough of them.
        let (mut pairs, mut plain, mut to) = (0_usize, true, at);
        while let Some((octet, next)) = pair_and_gap(bytes, to) {
            pairs = pairs.saturating_add(1);
            plain &= is_plain(octet);
            to = next;
        }
        if pairs >= PAIRS_MIN && plain {
            let mut out = Vec::with_capacity(pairs);
            let mut from = at;
            while let Some((octet, next)) = pair_and_gap(bytes, from) {
                out.push(octet);
                from = next;
            }
            if let Some(text) = readable(out) {
                sink(Coding::Hex, text);
            }
            at = to;
        } else {
            at = at.saturating_add(1);
        }
        inside = true;
    }
}

fn pair_and_gap(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = bytes.get(at..)?;
    let prefix = match rest {
        [b'0' | b'\\', b'x', ..] => 2,
        _ => 0,
    };
    let octet = pair_at(rest, prefix)?;
    let behind = prefix.saturating_add(2);
    let gap = match rest.get(behind..)? {
        [b',', b' ', ..] => 2,
        [b' ' | b':' | b',' | b'-', ..] => 1,
        [b'\\', b'x', ..] | [] => 0,
        [next, ..] if next.is_ascii_alphanumeric() => return None,
        _ => 0,
    };
    Some((octet, at.saturating_add(behind).saturating_add(gap)))
}

const fn is_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'&' | b'=' | b'\\')
}

/// `chunk` with its escapes resolved, if it has some.
fn escapes(chunk: &str) -> Option<String> {
    if !chunk.bytes().any(is_escape) {
        return None;
    }
    let mut out: Vec<u8> = Vec::new();
    let mut found = false;
    let mut at = 0;
    while let Some(byte) = chunk.as_bytes().get(at) {
        let rest = chunk.as_bytes().get(at..).unwrap_or_default();
        match escape(rest) {
            Some((character, len)) => {
                found = true;
                match character {
                    Escaped::Byte(byte) => out.push(byte),
                    Escaped::Character(it) => {
                        out.extend_from_slice(it.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
                at = at.saturating_add(len);
            }
            None => {
                out.push(*byte);
                at = at.saturating_add(1);
            }
        }
    }
    if !found || !out.iter().all(|it| is_plain(*it)) {
        return None;
    }
    readable(out)
}

enum Escaped {
    Byte(u8),
    Character(char),
}

fn escape(rest: &[u8]) -> Option<(Escaped, usize)> {
    match rest {
        [b'%' | b'=', ..] => Some((Escaped::Byte(pair_at(rest, 1)?), 3)),
        [b'\\', b'u' | b'U', digits @ ..] => {
            let digits = digits.get(..4)?;
            let code = number(digits, 16)?;
            Some((Escaped::Character(char::from_u32(code)?), 6))
        }
        [b'&', b'#', b'x' | b'X', digits @ ..] => entity(digits, 16, 3),
        [b'&', b'#', digits @ ..] => entity(digits, 10, 2),
        _ => None,
    }
}

fn entity(digits: &[u8], radix: u32, before: usize) -> Option<(Escaped, usize)> {
    let len = digits.iter().take(8).position(|it| *it == b';')?;
    let code = number(digits.get(..len)?, radix)?;
    let all = before.saturating_add(len).saturating_add(1);
    Some((Escaped::Character(char::from_u32(code)?), all))
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let text = core::str::from_utf8(digits).ok()?;
    // `from_str_radix` takes a sign.
    text.bytes()
        .all(|it| it.is_ascii_hexdigit())
        .then(|| u32::from_str_radix(text, radix).ok())
        .flatten()
}

/// No control character but those of white space. Bytes of UTF-8 are judged together, later.
const fn is_plain(octet: u8) -> bool {
    octet >= b' ' && octet != 0x7f || matches!(octet, b'\t' | b'\n' | b'\r')
}

fn readable(octets: Vec<u8>) -> Option<String> {
    if octets.len() < TEXT_MIN {
        return None;
    }
    String::from_utf8(octets).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{string::ToString as _, vec};

    fn all(text: &str) -> Vec<(Coding, String)> {
        let mut found = Vec::new();
        runs(text, |coding, text| found.push((coding, text)));
        found
    }

    #[test]
    fn what_is_encoded_is_read() {
        let secret = "boss@acme.co";
        for (text, coding) in [
            ("decode: Ym9zc0BhY21lLmNv now", Coding::Base64),
            ("Ym9zc0BhY21lLmNv", Coding::Base64),
            ("xyzYm9zc0BhY21lLmNv", Coding::Base64), // not where a quad starts
            ("vNmLl12YhB0cz9mY", Coding::Base64),    // backwards
            ("626f73734061636d652e636f", Coding::Hex),
            ("62 6f 73 73 40 61 63 6d 65 2e 63 6f", Coding::Hex),
            (
                r"\x62\x6f\x73\x73\x40\x61\x63\x6d\x65\x2e\x63\x6f",
                Coding::Hex,
            ),
            (
                "0x62, 0x6f, 0x73, 0x73, 0x40, 0x61, 0x63, 0x6d, 0x65, 0x2e, 0x63, 0x6f",
                Coding::Hex,
            ),
            ("%62%6f%73%73%40acme.co", Coding::Escapes),
            (r"\u0062oss\u0040acme.co", Coding::Escapes),
            ("&#98;oss&#x40;acme.co", Coding::Escapes),
            ("boss=40acme.co", Coding::Escapes),
        ] {
            assert_eq!(all(text), vec![(coding, secret.to_string())], "{text}");
        }
    }

    #[test]
    fn ordinary_text_says_nothing_else() {
        let text = "The internationalization of responsibilities, see /usr/share/documentation/x, \
                    https://www.our-company.com/what-is-new and 12:30:45 or 2024-05-19; 100% of it, \
                    R&D, a=b, 550e8400-e29b-41d4-a716-446655440000, 00:1a:2b:3c:4d:5e.";
        assert_eq!(all(text), vec![]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            runs(&text, |_, plain| assert!(plain.len() >= TEXT_MIN));
            drop(whole(&text));
        }

        #[test]
        fn turning_twice_changes_nothing(text in any::<String>()) {
            prop_assert_eq!(&rot13(&rot13(&text)), &text);
            prop_assert_eq!(&reversed(&reversed(&text)), &text);
        }

        /// A bound on what one recorded text can become.
        #[test]
        fn what_is_read_is_never_longer_than_what_was_written(text in "[a-zA-Z0-9+/=%&#;x \\\\u]{0,200}") {
            let mut read = 0;
            runs(&text, |_, plain| read += plain.len());
            // A run may be pairs and escapes at once.
            prop_assert!(read <= 2 * text.len());
        }
    }

    proptest! {
        #[test]
        fn what_cannot_go_on_as_a_text_is_none_and_a_text_goes_on(
            bytes in prop::collection::vec(any::<u8>(), 0..12),
            text in ".{0,6}",
        ) {
            for bytes in [bytes, text.into_bytes()] {
                let mut state = Utf8::default();
                let all = bytes.iter().all(|it| state.goes_on(*it)) && state.left == 0;
                prop_assert_eq!(all, core::str::from_utf8(&bytes).is_ok());
            }
        }
    }
}

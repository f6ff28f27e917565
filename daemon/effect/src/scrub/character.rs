//! One character, and the ways in which it may be written.

/// The longest that one character becomes: `\u0041`, `&#x41;`, `&quot;`.
pub(super) const ESCAPED_MAX: usize = 6;

/// A set of ASCII characters, one bit each.
#[derive(Clone, Copy)]
pub(super) struct Chars(u128);

impl Chars {
    const fn only(byte: u8) -> Self {
        if byte < 128 { Self(1 << byte) } else { Self(0) }
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn either_case(byte: u8) -> Self {
        Self::only(byte.to_ascii_lowercase()).or(Self::only(byte.to_ascii_uppercase()))
    }

    pub(super) const fn has(self, byte: u8) -> bool {
        byte < 128 && self.0 >> byte & 1 == 1
    }

    /// The characters whose six bits agree with those that are known (bit 0 is the highest). At
    /// the edges of the secret some are its neighbours'.
    pub(super) fn base64(known: impl Fn(usize) -> Option<u8>) -> Self {
        let whole = (0..6).try_fold(0_u8, |value, bit| Some(value << 1 | known(bit)?));
        if let Some(value) = whole {
            return Self::base64_digit(value);
        }
        (0..64_u8)
            .filter(|value| {
                (0..6).all(|bit| known(bit).is_none_or(|is| value >> (5_usize - bit) & 1 == is))
            })
            .fold(Self(0), |chars, value| chars.or(Self::base64_digit(value)))
    }

    /// RFC 4648 sections 4 and 5.
    const fn base64_digit(value: u8) -> Self {
        match value {
            0..=25 => Self::either_case(b'A'.wrapping_add(value)),
            26..=51 => Self::either_case(b'a'.wrapping_add(value).wrapping_sub(26)),
            52..=61 => Self::only(b'0'.wrapping_add(value).wrapping_sub(52)),
            62 => Self::only(b'+').or(Self::only(b'-')),
            _ => Self::only(b'/').or(Self::only(b'_')),
        }
    }
}

/// Where a character of `wanted` that begins at `at` ends, in each way in which it may stand there.
pub(super) fn read(bytes: &[u8], at: usize, wanted: Chars) -> impl Iterator<Item = usize> {
    let rest = bytes.get(at..).unwrap_or_default();
    let is = move |byte: u8| wanted.has(byte);
    let code = move |code: Option<u32>| {
        code.and_then(|code| u8::try_from(code).ok())
            .is_some_and(is)
    };
    let mut lens = [0_usize; 3];
    match rest {
        [b'%', high, low, ..] if code(number(&[*high, *low], 16)) => lens[0] = 3,
        [b'\\', b'u' | b'U', a, b, c, d, ..] if code(number(&[*a, *b, *c, *d], 16)) => lens[0] = 6,
        [b'\\', b'x' | b'X', a, b, ..] if code(number(&[*a, *b], 16)) => lens[0] = 4,
        [b'\\', escaped, ..] if is(*escaped) => lens[0] = 2,
        [b'&', ..] => lens[0] = reference(rest, is),
        [0, byte, ..] if is(*byte) => lens[0] = 2,
        _ => {}
    }
    match rest {
        [byte, 0, ..] if is(*byte) => {
            lens[1] = 1;
            lens[2] = 2;
        }
        [byte, ..] if is(*byte) => lens[1] = 1,
        _ => {}
    }
    lens.into_iter()
        .filter(|&len| len > 0)
        .map(move |len| at.saturating_add(len))
}

/// The length of the HTML character reference at the beginning of `rest`, or 0.
fn reference(rest: &[u8], is: impl Fn(u8) -> bool) -> usize {
    const NAMED: [(&[u8], u8); 5] = [
        (b"&amp;", b'&'),
        (b"&apos;", b'\''),
        (b"&gt;", b'>'),
        (b"&lt;", b'<'),
        (b"&quot;", b'"'),
    ];
    for (name, byte) in NAMED {
        if is(byte) && rest.starts_with(name) {
            return name.len();
        }
    }
    let head = rest.get(..rest.len().min(ESCAPED_MAX)).unwrap_or_default();
    let Some(end) = head.iter().position(|&byte| byte == b';') else {
        return 0;
    };
    let code = match head.get(..end) {
        Some([b'&', b'#', b'x' | b'X', digits @ ..]) => number(digits, 16),
        Some([b'&', b'#', digits @ ..]) => number(digits, 10),
        _ => None,
    };
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(byte) if is(byte) => end.saturating_add(1),
        _ => 0,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, &digit| {
        let digit = char::from(digit).to_digit(radix)?;
        number.checked_mul(radix)?.checked_add(digit)
    })
}

//! Base64 (RFC 4648, section 4), one text for one meaning: padded, and no bit is left over.

use alloc::{string::String, vec::Vec};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What `text` says; none if it is not the one text of it.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let body = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"="));
    let body = body.unwrap_or(text);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for digit in body {
        let six = DIGITS.iter().position(|it| it == digit)?;
        held = held << 6 | u32::try_from(six).ok()?;
        bits = bits.saturating_add(6);
        if bits >= 8 {
            bits = bits.saturating_sub(8);
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
            held &= (1 << bits) - 1;
        }
    }
    // Whatever is not what we would write, is not it.
    (encode(&bytes).as_bytes() == text).then_some(bytes)
}

/// The text of `bytes`.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let held = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4_usize {
            let six = match place {
                0 => held >> 18,
                1 => held >> 12,
                2 => held >> 6,
                _ => held,
            } & 0x3f;
            let digit = usize::try_from(six).ok().and_then(|at| DIGITS.get(at));
            text.push(match digit {
                Some(digit) if place <= three.len() => char::from(*digit),
                Some(_) | None => '=',
            });
        }
    }
    text
}

//! Keyed fingerprints: who does not have the key cannot choose two texts with one fingerprint.
//!
//! SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012). A fingerprint only
//! says where to look; what is found there is compared with the text itself.

use core::fmt;

use siphasher::{sip::SipHasher13, sip128};

/// The key of one session's index: sixteen bytes that nobody in the session knows.
///
/// Answers do not depend on it; only how hard it is to make the index slow.
#[derive(Clone)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a fingerprint is of, so that one kind of thing is never found as another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Domain {
    /// A number, a date or a time, in any written form.
    Atom,
    /// An array or an object, whole.
    Container,
    /// A leaf, type and all.
    Leaf,
    /// Folded tokens in a row.
    Tokens,
    /// Words in a row, as they are written but for case.
    Words,
}

/// Makes fingerprints.
#[derive(Clone, Debug)]
pub(super) struct Hasher {
    narrow: SipHasher13,
    wide: sip128::SipHasher13,
}

impl Hasher {
    pub(super) fn new(key: &Key) -> Self {
        Self {
            narrow: SipHasher13::new_with_key(&key.0),
            wide: sip128::SipHasher13::new_with_key(&key.0),
        }
    }

    /// The fingerprint of `bytes`.
    pub(super) fn of(&self, bytes: &[u8]) -> u64 {
        self.narrow.hash(bytes)
    }

    /// A fingerprint so wide that it stands for the bytes: for what is not kept as a text.
    pub(super) fn wide(&self, bytes: &[u8]) -> u128 {
        self.wide.hash(bytes).as_u128()
    }
}

/// The fingerprint of a row that was `so_far`, and now has `next` behind it.
pub(super) const fn row(so_far: u64, next: u64) -> u64 {
    /// An odd number without pattern: 2^64 divided by the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (so_far ^ next.rotate_left(29)).wrapping_mul(SPREAD);
    mixed ^ (mixed >> 31)
}

/// `hash` as one of `domain`, under a label.
pub(super) const fn within(hash: u64, domain: Domain, label: u8) -> u64 {
    let tag = (label as u64 + 1) << 8 | (domain as u64 + 1);
    row(hash, tag.wrapping_mul(0xd6e8_feb8_6659_fd93))
}

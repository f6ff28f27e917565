//! Suspicion: whether untrusted text has a value in some other form, or a part of it.
//!
//! Asked only of what is found nowhere as it is written. Nothing here can make a value known.

use alloc::{string::String, vec::Vec};

use super::{
    Label,
    answer::{Ground, How},
    decode,
    find::{self, Piece, Query, has_end},
    fold::{self, Memo},
    hash::{Domain, within},
    link,
    store::Store,
};

/// Shorter values are everywhere.
const VALUE_MIN: usize = 4;

/// Longer ones are texts, of which only parts are looked for.
const VALUE_MAX: usize = 128;

/// The first reason to take the value for untrusted, in this order.
pub(super) fn suspect(store: &Store, query: &Query<'_>) -> Option<Ground> {
    if query.text.len() < VALUE_MIN {
        return None;
    }
    let squashed = if query.text.len() <= VALUE_MAX {
        squash(query.text)
    } else {
        String::new()
    };
    let starts = starts(store, &squashed);
    let found = spelled_out(store, query, &squashed)
        .or_else(|| other_cuts(store, &squashed, &starts))
        .or_else(|| turned(store, query))
        .or_else(|| host(store, query))
        .or_else(|| parts(store, query))
        .or_else(|| pieces(store, &squashed, &starts));
    found.map(|(how, place)| store.ground(place, how))
}

type Found = Option<(How, u32)>;

fn untrusted(store: &Store, text: &str, how: How) -> Found {
    find::text_in(store, text, Label::Untrusted).map(|place| (how, place))
}

/// `ada at example dot org`, and `a d a`.
fn spelled_out(store: &Store, query: &Query<'_>, squashed: &str) -> Found {
    if squashed.is_empty() || query.text.contains(char::is_whitespace) {
        return None;
    }
    let has = |sign| query.text.contains(sign);
    let in_words = |signs: &[char]| {
        let mut text = String::with_capacity(query.text.len().saturating_mul(2));
        for character in query.text.chars() {
            match character {
                '@' if signs.contains(&'@') => text.push_str(" at "),
                '.' if signs.contains(&'.') => text.push_str(" dot "),
                other => text.push(other),
            }
        }
        untrusted(store, &text, How::SpelledOut)
    };
    let at = if has('@') { in_words(&['@']) } else { None };
    let dots = || {
        if has('.') {
            in_words(&['@', '.'])
        } else {
            None
        }
    };
    let letters = || {
        let mut text = String::with_capacity(squashed.len().saturating_mul(2));
        for character in squashed.chars() {
            text.push(character);
            text.push(' ');
        }
        untrusted(store, &text, How::Letters)
    };
    at.or_else(dots).or_else(letters)
}

/// The tokens of `text` without anything between them: what its spellings have in common.
pub(crate) fn squash(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    fold::tokens(text, &mut Memo::default(), |token, _| {
        out.extend_from_slice(token);
        true
    });
    String::from_utf8(out).unwrap_or_default()
}

/// Where `squashed` can be cut so that what is before is a token of untrusted text: the cut, and
/// the token's fingerprint.
fn starts(store: &Store, squashed: &str) -> Vec<(usize, u64)> {
    /// Less is made of ordinary words too often.
    const SQUASHED_MIN: usize = 6;
    if squashed.len() < SQUASHED_MIN {
        return Vec::new();
    }
    (1..=squashed.len())
        .filter_map(|cut| {
            let hash = store.hasher.of(squashed.get(..cut)?.as_bytes());
            find::single(store, hash, Label::Untrusted)?;
            Some((cut, hash))
        })
        .collect()
}

/// The same characters in a row, with other separators or none.
fn other_cuts(store: &Store, squashed: &str, starts: &[(usize, u64)]) -> Found {
    starts.iter().find_map(|(_, hash)| {
        let hash = within(*hash, Domain::Tokens, Label::Untrusted.bits());
        let place = store
            .table
            .places(hash)
            .find(|place| goes_on(store, *place, squashed))?;
        Some((How::Squashed, place))
    })
}

/// Whether the tokens from `place`, without anything between them, are `squashed`.
fn goes_on(store: &Store, place: u32, squashed: &str) -> bool {
    let tail = store.tail(place);
    let mut left = squashed.as_bytes();
    let mut last = None;
    fold::tokens(tail, &mut Memo::default(), |token, from| {
        let Some(rest) = left.strip_prefix(token) else {
            return false;
        };
        left = rest;
        last = Some(from);
        !left.is_empty()
    });
    left.is_empty() && last.is_some_and(|last| !has_end(tail, last))
}

/// Backwards, by rot13, and decoded.
fn turned(store: &Store, query: &Query<'_>) -> Found {
    untrusted(store, &decode::reversed(query.text), How::Reversed)
        .or_else(|| untrusted(store, &decode::rot13(query.text), How::Rot13))
        .or_else(|| {
            let (_, plain) = decode::whole(query.text)?;
            untrusted(store, &plain, How::Encoded)
        })
}

/// The host of a URL or the domain of an address.
fn host(store: &Store, query: &Query<'_>) -> Found {
    if !query.is_one_word() {
        return None;
    }
    let host = link::link(query.text)?
        .host()
        .filter(|it| *it != query.text)?;
    let found = untrusted(store, host, How::Host)?;
    let known = find::text_in(store, host, Label::Authoritative).is_some()
        || find::words(store, &Query::new(store, host), Label::Derived).is_some();
    (!known).then_some(found)
}

/// A distinctive word of the value, or all of them while no better text has one of them.
fn parts(store: &Store, query: &Query<'_>) -> Found {
    /// Most of a value's tokens that are looked at.
    const TOKENS_MAX: usize = 64;
    let mut all = None;
    let mut every = true;
    let mut foreign = false;
    for Piece { hash, span } in query.tokens.iter().take(TOKENS_MAX).copied() {
        let text = query.text.get(span.0..span.1).unwrap_or("");
        let untrusted = find::single(store, hash, Label::Untrusted);
        let better = find::single(store, hash, Label::Authoritative).or_else(|| {
            let word = within(hash, Domain::Words, Label::Derived.bits());
            store.table.places(word).next()
        });
        match untrusted {
            Some(place) if better.is_none() => {
                if is_distinctive(text) {
                    return Some((How::Part, place));
                }
                foreign = true;
                all = all.or(Some(place));
            }
            Some(_) => {}
            None => every = false,
        }
    }
    let several = query.tokens.len() > 1;
    all.filter(|_| several && every && foreign)
        .map(|place| (How::Joined, place))
}

/// A word that nobody writes by chance: with a digit, or long.
fn is_distinctive(text: &str) -> bool {
    let digit = text.len() >= 4 && text.bytes().any(|it| it.is_ascii_digit());
    digit || text.len() >= 12
}

/// Whole tokens, perhaps of several results, put together.
fn pieces(store: &Store, squashed: &str, starts: &[(usize, u64)]) -> Found {
    /// Shorter pieces make up nearly everything.
    const PIECE_MIN: usize = 4;
    /// And longer values are found by their parts.
    const LOOKS_MAX: usize = 256;
    let len = squashed.len();
    if len < 2 * PIECE_MIN {
        return None;
    }
    // Where a row of pieces from the start can end.
    let mut ends: Vec<bool> = Vec::new();
    ends.resize(len, false);
    for (cut, _) in starts.iter().filter(|(cut, _)| *cut >= PIECE_MIN) {
        if let Some(end) = ends.get_mut(*cut) {
            *end = true;
        }
    }
    let mut looks = 0_usize;
    for from in PIECE_MIN..len {
        if ends.get(from) != Some(&true) {
            continue;
        }
        for to in from.saturating_add(PIECE_MIN)..=len {
            let Some(piece) = squashed.get(from..to) else {
                continue;
            };
            looks = looks.saturating_add(1);
            if looks > LOOKS_MAX {
                return None;
            }
            let hash = store.hasher.of(piece.as_bytes());
            let Some(place) = find::single(store, hash, Label::Untrusted) else {
                continue;
            };
            match ends.get_mut(to) {
                Some(end) => *end = true,
                None => return Some((How::Joined, place)),
            }
        }
    }
    None
}

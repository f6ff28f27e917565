//! Suspicion: whether untrusted text has a value in some other form, or a part of it.
//!
//! Asked only of what is found nowhere as it is written. Nothing here can make a value known.

use alloc::{string::String, vec::Vec};

use super::{
    Label,
    answer::{Ground, How},
    decode,
    find::{self, Query},
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
    let short = query.text.len() <= VALUE_MAX;
    let squashed = if short {
        squash(query.text)
    } else {
        String::new()
    };
    let found = spelled_out(store, query, short)
        .or_else(|| other_cuts(store, &squashed))
        .or_else(|| turned(store, query))
        .or_else(|| host(store, query))
        .or_else(|| parts(store, query))
        .or_else(|| pieces(store, &squashed));
    found.map(|(how, place)| store.ground(place, how))
}

type Found = Option<(How, u32)>;

/// `ada at example dot org`, and `a d a`.
fn spelled_out(store: &Store, query: &Query<'_>, short: bool) -> Found {
    if !short || query.text.contains(char::is_whitespace) {
        return None;
    }
    let in_words = |how, hashes: &[u64]| {
        let (place, _) = find::row_of_tokens(store, hashes, Label::Untrusted)?;
        Some((how, place))
    };
    if query.text.contains('@') {
        let at_only = spelled(store, query.text, &['@']);
        let found = in_words(How::SpelledOut, &at_only);
        if found.is_some() {
            return found;
        }
    }
    if query.text.contains('.') {
        let both = spelled(store, query.text, &['@', '.']);
        let found = in_words(How::SpelledOut, &both);
        if found.is_some() {
            return found;
        }
    }
    let mut letters = Vec::new();
    for character in squash(query.text).chars() {
        letters.push(
            store
                .hasher
                .of(character.encode_utf8(&mut [0; 4]).as_bytes()),
        );
    }
    if letters.len() < VALUE_MIN {
        return None;
    }
    in_words(How::Letters, &letters)
}

/// The tokens of `text` with those of `signs` that it has as words.
fn spelled(store: &Store, text: &str, signs: &[char]) -> Vec<u64> {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '@' if signs.contains(&'@') => out.push_str(" at "),
            '.' if signs.contains(&'.') => out.push_str(" dot "),
            other => out.push(other),
        }
    }
    let mut hashes = Vec::new();
    fold::tokens(&out, &mut Memo::default(), |token, _| {
        hashes.push(store.hasher.of(token));
        true
    });
    hashes
}

/// The tokens of `text` without anything between them.
fn squash(text: &str) -> String {
    let mut out = Vec::new();
    fold::tokens(text, &mut Memo::default(), |token, _| {
        out.extend_from_slice(token);
        true
    });
    String::from_utf8(out).unwrap_or_default()
}

/// The same characters in a row, with other separators or none.
fn other_cuts(store: &Store, squashed: &str) -> Found {
    /// Less is made of ordinary words too often.
    const SQUASHED_MIN: usize = 6;
    if squashed.len() < SQUASHED_MIN {
        return None;
    }
    cuts(squashed).find_map(|cut| {
        let first = squashed.get(..cut)?;
        let hash = within(
            store.hasher.of(first.as_bytes()),
            Domain::Tokens,
            Label::Untrusted.bits(),
        );
        let place = store
            .table
            .places(hash)
            .find(|place| goes_on(store, *place, squashed))?;
        Some((How::Squashed, place))
    })
}

/// Every place at which `text` can be cut, its end too.
fn cuts(text: &str) -> impl Iterator<Item = usize> {
    (1..=text.len()).filter(|cut| text.is_char_boundary(*cut))
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
    left.is_empty()
        && last.is_some_and(|last| !tail.as_bytes().get(..last).unwrap_or_default().contains(&0))
}

/// Backwards, by rot13, and decoded.
fn turned(store: &Store, query: &Query<'_>) -> Found {
    let has = |text: &str, how| {
        let turned = Query::new(store, text);
        let (_, place) = find::tokens(store, &turned, Label::Untrusted)?;
        Some((how, place))
    };
    has(&decode::reversed(query.text), How::Reversed)
        .or_else(|| has(&decode::rot13(query.text), How::Rot13))
        .or_else(|| {
            let (_, plain) = decode::whole(query.text)?;
            has(&plain, How::Encoded)
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
    let host = Query::new(store, host);
    let (_, place) = find::tokens(store, &host, Label::Untrusted)?;
    let better = find::tokens(store, &host, Label::Authoritative)
        .or_else(|| find::words(store, &host, Label::Derived));
    better.is_none().then_some((How::Host, place))
}

/// A distinctive word of the value, or all of them while no better text has one of them.
fn parts(store: &Store, query: &Query<'_>) -> Found {
    /// Most of a value's tokens that are looked at.
    const TOKENS_MAX: usize = 64;
    let mut all = None;
    let mut every = true;
    let mut foreign = false;
    for (hash, text) in query.tokens_with_text().take(TOKENS_MAX) {
        let untrusted = single(store, hash, Label::Untrusted);
        let better = single(store, hash, Label::Authoritative).or_else(|| {
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

fn single(store: &Store, hash: u64, label: Label) -> Option<u32> {
    store
        .table
        .places(within(hash, Domain::Tokens, label.bits()))
        .next()
}

/// Whole tokens, perhaps of several results, put together.
fn pieces(store: &Store, squashed: &str) -> Found {
    /// Shorter pieces make up nearly everything.
    const PIECE_MIN: usize = 4;
    /// And longer values are found by their parts.
    const LOOKS_MAX: usize = 256;
    let len = squashed.len();
    if len < 2 * PIECE_MIN {
        return None;
    }
    // Where a row of pieces from the start can end, and where its last piece was found.
    let mut ends: Vec<Option<u32>> = Vec::new();
    ends.resize(len.saturating_add(1), None);
    let mut looks = 0_usize;
    for from in 0..=len {
        let reached = from == 0 || ends.get(from).is_some_and(Option::is_some);
        if !reached {
            continue;
        }
        for to in from.saturating_add(PIECE_MIN)..=len {
            // The whole by itself was looked for already.
            if from == 0 && to == len {
                continue;
            }
            let Some(piece) = squashed.get(from..to) else {
                continue;
            };
            looks = looks.saturating_add(1);
            if looks > LOOKS_MAX {
                return None;
            }
            let hash = store.hasher.of(piece.as_bytes());
            if let Some(place) = single(store, hash, Label::Untrusted)
                && let Some(end) = ends.get_mut(to)
            {
                *end = end.or(Some(place));
            }
        }
    }
    ends.get(len)
        .copied()
        .flatten()
        .map(|place| (How::Joined, place))
}

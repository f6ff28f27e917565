//! Finding a value in what is kept, as it is written: what may make it known.
//!
//! The table says where to look; each place is then compared with the text itself.

use alloc::vec::Vec;

use super::{
    Label,
    answer::How,
    atom::{self, Atom},
    fold::{self, Memo},
    hash::{self, Domain, within},
    store::{MOST, ROW_MAX, Store, at},
    words::{Alike, Span, Words, begins, lower},
};

/// A word or a token of a value: its fingerprint, and from where to where it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) hash: u64,
    pub(super) span: Span,
}

/// What a value consists of, worked out once for all labels.
#[derive(Debug)]
pub(super) struct Query<'v> {
    /// Without white space at its ends.
    pub(super) text: &'v str,
    pub(super) tokens: Vec<Piece>,
    words: Vec<Piece>,
}

impl<'v> Query<'v> {
    pub(super) fn new(store: &Store, text: &'v str) -> Self {
        let text = text.trim();
        let mut scratch = Vec::new();
        let words = Words::new(text).map(|(from, to)| Piece {
            hash: store
                .hasher
                .of(lower(text.get(from..to).unwrap_or(""), &mut scratch)),
            span: (from, to),
        });
        Self {
            text,
            words: {
                let mut all = Vec::with_capacity((text.len() / 6).saturating_add(2));
                all.extend(words);
                all
            },
            tokens: tokens_of(store, text),
        }
    }

    /// Whether the value is one word, as an address or a path is.
    pub(super) fn is_one_word(&self) -> bool {
        self.words.len() == 1
    }
}

/// The folded tokens of `text`. A span has the length of what is folded.
pub(super) fn tokens_of(store: &Store, text: &str) -> Vec<Piece> {
    // Six letters and a gap are a token's usual length.
    let mut tokens = Vec::with_capacity((text.len() / 6).saturating_add(2));
    fold::tokens(text, &mut Memo::default(), |token, from| {
        tokens.push(Piece {
            hash: store.hasher.of(token),
            span: (from, from.saturating_add(token.len())),
        });
        true
    });
    tokens
}

/// Where the folded tokens of `text` stand in a row, under `label`: with nearly nothing done where
/// not even the first of them is known.
pub(super) fn text_in(store: &Store, text: &str, label: Label) -> Option<u32> {
    let mut tokens = Vec::new();
    fold::tokens(text, &mut Memo::default(), |token, from| {
        let hash = store.hasher.of(token);
        if tokens.is_empty() && single(store, hash, label).is_none() {
            return false;
        }
        tokens.push(Piece {
            hash,
            span: (from, from.saturating_add(token.len())),
        });
        true
    });
    row_of_tokens(store, &tokens, label).map(|(place, _)| place)
}

/// Where a folded token stands, under `label`.
pub(super) fn single(store: &Store, hash: u64, label: Label) -> Option<u32> {
    store
        .table
        .places(within(hash, Domain::Tokens, label.bits()))
        .next()
}

/// Where the words of the value stand, in a row and with the same between them, under `label`.
pub(super) fn words(store: &Store, query: &Query<'_>, label: Label) -> Option<(How, u32)> {
    let ((first, _), (_, last)) = (query.words.first()?.span, query.words.last()?.span);
    let lead = query.text.get(..first)?;
    let rest = query.text.get(first..)?;
    let behind = query.text.len().saturating_sub(last);
    // Some groups of a code are another code.
    let in_groups = is_code_in_groups(query.text);
    let alike = |place: u32| -> Option<Alike> {
        let before = store.text().get(..at(place))?;
        if !before.ends_with(lead) {
            return None;
        }
        let (alike, len) = begins(store.tail(place), rest)?;
        // The last word ends where the value's does: it does not go on.
        let ends = at(place).saturating_add(len).saturating_sub(behind);
        let count = query.words.len().saturating_sub(1);
        let (_, to) = Words::starting(store.text(), at(place)).nth(count)?;
        let behind = store.text().get(to..).unwrap_or("");
        let part = in_groups && (!starts_a_code(store, place) || goes_on_as_code(behind));
        (to == ends && !part).then_some(alike)
    };
    let mut best = None;
    each_row(
        store,
        &query.words,
        Domain::Words,
        label,
        |place| match alike(place) {
            Some(Alike::Exact) => {
                best = Some((How::Exact, place));
                true
            }
            Some(Alike::Cased) => {
                best = best.or(Some((How::Cased, place)));
                false
            }
            None => false,
        },
    );
    best
}

/// Where the folded tokens of the value stand in a row, under `label`.
pub(super) fn tokens(store: &Store, query: &Query<'_>, label: Label) -> Option<(How, u32)> {
    row_of_tokens(store, &query.tokens, label).map(|(place, whole)| {
        let first = query.tokens.first().map_or(0, |it| it.span.0);
        let rest = query.text.get(first..).unwrap_or("");
        let how = if whole {
            match begins(store.tail(place), rest) {
                Some((Alike::Exact, _)) => How::Exact,
                Some((Alike::Cased, _)) => How::Cased,
                None => How::Folded,
            }
        } else {
            How::Crowded
        };
        (how, place)
    })
}

/// Where these tokens stand in a row; with `false` if that is not known, since too many texts start
/// like it.
pub(super) fn row_of_tokens(store: &Store, row: &[Piece], label: Label) -> Option<(u32, bool)> {
    let mut found = None;
    let full = each_row(store, row, Domain::Tokens, label, |place| {
        let same = continues(store, place, row);
        if same {
            found = Some(place);
        }
        same
    });
    match (found, full) {
        (Some(place), _) => Some((place, true)),
        (None, Some(place)) => Some((place, false)),
        (None, None) => None,
    }
}

/// Calls `found` with each place at which the row may stand, until it says that this is it. Where
/// even the longest row noted is too common to be complete, gives one of its places.
fn each_row(
    store: &Store,
    row: &[Piece],
    domain: Domain,
    label: Label,
    mut found: impl FnMut(u32) -> bool,
) -> Option<u32> {
    let mut hash = 0;
    let mut full = None;
    for (index, next) in row.iter().take(ROW_MAX).enumerate() {
        hash = if index == 0 {
            next.hash
        } else {
            hash::row(hash, next.hash)
        };
        let mut count = 0_usize;
        for place in store.table.places(within(hash, domain, label.bits())) {
            if found(place) {
                return None;
            }
            count = count.saturating_add(1);
            full = Some(place);
        }
        if count < MOST {
            return None;
        }
    }
    full
}

/// Whether the tokens from `place` are these, within one leaf.
fn continues(store: &Store, place: u32, row: &[Piece]) -> bool {
    let tail = store.tail(place);
    let mut left = row.iter();
    let mut last = None;
    let mut same = true;
    fold::tokens(tail, &mut Memo::default(), |token, from| {
        let Some(wanted) = left.next() else {
            return false;
        };
        same = store.hasher.of(token) == wanted.hash;
        last = Some(from);
        same && !left.as_slice().is_empty()
    });
    let whole = same && left.as_slice().is_empty();
    whole && last.is_some_and(|last| !has_end(tail, last))
}

/// Whether a kept text ends within the first `len` bytes of `tail`.
pub(super) fn has_end(tail: &str, len: usize) -> bool {
    tail.as_bytes().get(..len).unwrap_or_default().contains(&0)
}

/// Where `atom` is written, under `label`.
pub(super) fn atom(store: &Store, atom: &Atom, label: Label) -> Option<(How, u32)> {
    let place = store
        .table
        .places(store.atom_hash(atom, label))
        .find(|place| {
            atom::read(store.text().as_bytes(), at(*place)).is_some_and(|it| it.atom == *atom)
        })?;
    let how = match atom {
        Atom::Date(..) => How::Date,
        Atom::Day(..) => How::Day,
        Atom::Number(_) => How::Number,
        Atom::Time(_) => How::Time,
    };
    Some((how, place))
}

/// A date by itself, or as a day of which the year is not said.
pub(super) fn atom_or_day(store: &Store, wanted: &Atom, label: Label) -> Option<(How, u32)> {
    atom(store, wanted, label).or_else(|| match wanted {
        Atom::Date(_, month, day) => atom(store, &Atom::Day(*month, *day), label),
        Atom::Day(..) | Atom::Number(_) | Atom::Time(_) => None,
    })
}

/// Whether `text` is a long code in groups: `GB29 NWBK 6016`.
fn is_code_in_groups(text: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || it == b' ';
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= DIGITS_MIN && text.len() <= CODE_MAX && text.contains(' ') && text.bytes().all(plain)
}

/// What has fewer digits may be a name that two ordinary words happen to make.
const DIGITS_MIN: usize = 8;

/// The longest code.
const CODE_MAX: usize = 64;

/// Where a long code stands in groups, under `label`: `GB29 NWBK 6016` for `GB29NWBK6016`.
pub(super) fn grouped(store: &Store, query: &Query<'_>, label: Label) -> Option<(How, u32)> {
    let value = query.text.as_bytes();
    let digits = value.iter().filter(|it| it.is_ascii_digit()).count();
    let plain = value
        .iter()
        .all(|it| it.is_ascii_alphanumeric() || *it == b'+');
    if digits < DIGITS_MIN || value.len() > CODE_MAX || !plain || !query.is_one_word() {
        return None;
    }
    let mut scratch = Vec::new();
    (1..value.len()).find_map(|cut| {
        let first = lower(query.text.get(..cut)?, &mut scratch);
        let hash = within(store.hasher.of(first), Domain::Words, label.bits());
        let place = store.table.places(hash).find(|place| {
            starts_a_code(store, *place) && goes_on_in_groups(store, *place, value)
        })?;
        Some((How::Grouped, place))
    })
}

fn goes_on_in_groups(store: &Store, place: u32, value: &[u8]) -> bool {
    let text = store.text();
    let mut left = value;
    let mut end = at(place);
    for (from, to) in Words::starting(text, at(place)) {
        // One space between groups, nothing else.
        let gap = text.get(end..from).unwrap_or("?");
        let word = text.get(from..to).unwrap_or("").as_bytes();
        let same = left
            .get(..word.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(word));
        if !same || !matches!(gap, "" | " ") {
            return false;
        }
        left = left.get(word.len()..).unwrap_or_default();
        if left.is_empty() {
            return !text.get(to..).is_some_and(goes_on_as_code);
        }
        end = to;
    }
    false
}

/// Whether no group of the same code stands before `place`.
fn starts_a_code(store: &Store, place: u32) -> bool {
    let before = store.text().get(..at(place)).unwrap_or("");
    let Some(rest) = before.strip_suffix(' ') else {
        return true;
    };
    let group = rest.bytes().rev().take_while(u8::is_ascii_alphanumeric);
    !group.take(CODE_MAX).any(|it| it.is_ascii_digit())
}

/// Whether a group of the same code follows: a blank, and a word with digits.
fn goes_on_as_code(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(' ') else {
        return false;
    };
    let group = rest.bytes().take_while(u8::is_ascii_alphanumeric);
    group.take(CODE_MAX).any(|it| it.is_ascii_digit())
}

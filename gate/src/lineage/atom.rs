//! Numbers, dates and times as what they mean, however they are written.
//!
//! | written | means |
//! |---|---|
//! | `1200.5`, `1,200.50`, `1'200.50`, `1.200,50` | the number 1200.5 |
//! | `2024-05-19`, `19.05.2024`, `May 19th, 2024`, `19 May 2024`, `19th of May 2024` | the date |
//! | `May 19th`, `19th of May` | the day, of a year that is not said |
//! | `12:00`, `12:00:00`, `12 pm`, `10:20 AM` | the time |
//!
//! What can be read in two ways is read in the way of JSON (`1.200` is 1.2) or not at all
//! (`01/02/2024`). Digits inside a word, an address or a range are no number.

use alloc::{string::String, vec::Vec};

use crate::json::Value;

/// What was meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Atom {
    /// Year, month, day.
    Date(u16, u8, u8),
    /// Month and day.
    Day(u8, u8),
    /// In decimal, without zeros that say nothing.
    Number(String),
    /// Seconds since midnight.
    Time(u32),
}

impl Atom {
    /// What its fingerprint is made of.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Date(year, month, day) => alloc::format!("d{year}-{month}-{day}"),
            Self::Day(month, day) => alloc::format!("D{month}-{day}"),
            Self::Number(digits) => alloc::format!("n{digits}"),
            Self::Time(seconds) => alloc::format!("t{seconds}"),
        }
        .into_bytes()
    }

    /// The number that `value` is, if it is one.
    pub(super) fn of_number(value: &Value) -> Option<Self> {
        match value {
            Value::Int(n) => Some(Self::Number(alloc::format!("{}", n.get()))),
            Value::Real(x) => {
                let mut buffer = ryu_js::Buffer::new();
                Some(Self::Number(buffer.format_finite(x.get()).into()))
            }
            Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Text(_) => {
                None
            }
        }
    }
}

/// An atom, and from where to where it is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Written {
    pub(super) atom: Atom,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Calls `sink` with each atom of `text`, in order.
pub(super) fn scan(text: &str, mut sink: impl FnMut(Written)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    // Whether the byte before is of a word.
    let mut inside = false;
    while let Some(&byte) = bytes.get(at) {
        let starts = !inside && byte.is_ascii_alphanumeric();
        let found = if starts { read(bytes, at) } else { None };
        if let Some(written) = found {
            at = written.to;
            // Behind a date's `T` a time starts.
            inside = bytes.get(at.saturating_sub(1)) != Some(&b'T');
            sink(written);
            continue;
        }
        inside = byte.is_ascii_alphanumeric() || !byte.is_ascii() || byte == b'_';
        at = at.saturating_add(1);
        if starts && byte.is_ascii_digit() {
            // Digits that are no atom: nothing inside them is one.
            while bytes.get(at).is_some_and(|it| is_number_byte(*it)) {
                at = at.saturating_add(1);
            }
        }
    }
}

/// The atom at `at`, if one is written there.
pub(super) fn read(bytes: &[u8], at: usize) -> Option<Written> {
    let first = *bytes.get(at)?;
    if first.is_ascii_digit() {
        iso_date(bytes, at)
            .or_else(|| dotted_date(bytes, at))
            .or_else(|| day_first(bytes, at))
            .or_else(|| time(bytes, at))
            .or_else(|| number(bytes, at))
    } else {
        month_first(bytes, at)
    }
}

/// The atoms of `text`, if it consists of nothing else: `2024-05-19 12:00`, `$1,200.50`.
pub(super) fn whole(text: &str) -> Option<Vec<Written>> {
    /// A date in words and a time.
    const LONGEST: usize = 40;
    if text.len() > LONGEST || !text.bytes().any(|it| it.is_ascii_digit()) {
        return None;
    }
    let mut atoms = Vec::new();
    let mut from = 0;
    let mut only = true;
    let mut gap = |gap: &str| {
        let sign = matches!(
            gap.trim(),
            "" | "T" | "Z" | "," | "at" | "$" | "\u{20ac}" | "\u{a3}" | "%"
        );
        only = only && sign;
    };
    scan(text, |written| {
        gap(text.get(from..written.from).unwrap_or("?"));
        from = written.to;
        if atoms.len() < 4 {
            atoms.push(written);
        }
    });
    gap(text.get(from..).unwrap_or("?"));
    // Numbers in a row are a code, which is another one in another order.
    let number = |it: &Written| matches!(it.atom, Atom::Number(_));
    let code = atoms.len() > 1 && atoms.iter().any(number);
    (only && !code && !atoms.is_empty() && atoms.len() < 4).then_some(atoms)
}

const fn is_number_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b',' | b'\'' | b'-' | b':' | b'/')
}

/// Digits from `at`: their value and where they end. At most `most` of them.
fn digits(bytes: &[u8], at: usize, most: usize) -> Option<(u32, usize)> {
    let mut value: u32 = 0;
    let mut to = at;
    while let Some(byte) = bytes.get(to).filter(|it| it.is_ascii_digit()) {
        if to.saturating_sub(at) >= most {
            return None;
        }
        let digit = u32::from(byte.wrapping_sub(b'0'));
        value = value.saturating_mul(10).saturating_add(digit);
        to = to.saturating_add(1);
    }
    (to > at).then_some((value, to))
}

fn is(bytes: &[u8], at: usize, wanted: u8) -> bool {
    bytes.get(at) == Some(&wanted)
}

fn ends(bytes: &[u8], at: usize) -> bool {
    !bytes
        .get(at)
        .is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'_')
}

fn date(year: u32, month: u32, day: u32) -> Option<Atom> {
    if !(1000..=9999).contains(&year) {
        return None;
    }
    let (month, day) = month_and_day(month, day)?;
    Some(Atom::Date(u16::try_from(year).ok()?, month, day))
}

fn month_and_day(month: u32, day: u32) -> Option<(u8, u8)> {
    let plausible = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !plausible {
        return None;
    }
    Some((u8::try_from(month).ok()?, u8::try_from(day).ok()?))
}

/// `2024-05-19`, `2024/05/19` (ISO 8601). A `T` and a time may follow.
fn iso_date(bytes: &[u8], from: usize) -> Option<Written> {
    let (year, at) = digits(bytes, from, 4)?;
    let separator = *bytes.get(at).filter(|it| matches!(it, b'-' | b'/'))?;
    let (month, at) = digits(bytes, at.saturating_add(1), 2)?;
    if !is(bytes, at, separator) {
        return None;
    }
    let (day, to) = digits(bytes, at.saturating_add(1), 2)?;
    let clock = is(bytes, to, b'T') && digits(bytes, to.saturating_add(1), 2).is_some();
    if !(clock || ends(bytes, to)) || is(bytes, to, separator) {
        return None;
    }
    let atom = date(year, month, day)?;
    // The `T` is not of the time, which otherwise would start inside a word.
    let to = if clock { to.saturating_add(1) } else { to };
    Some(Written { atom, from, to })
}

/// `19.05.2024`, and `19/05/2024` where the day cannot be a month.
fn dotted_date(bytes: &[u8], from: usize) -> Option<Written> {
    let (one, at) = digits(bytes, from, 2)?;
    let separator = *bytes.get(at).filter(|it| matches!(it, b'.' | b'/'))?;
    let (two, at) = digits(bytes, at.saturating_add(1), 2)?;
    if !is(bytes, at, separator) {
        return None;
    }
    let (year, to) = digits(bytes, at.saturating_add(1), 4)?;
    if !ends(bytes, to) {
        return None;
    }
    let (day, month) = match separator {
        b'.' => (one, two),
        _ if one > 12 || one == two => (one, two),
        _ if two > 12 => (two, one),
        _ => return None,
    };
    let atom = date(year, month, day)?;
    Some(Written { atom, from, to })
}

/// `19 May 2024`, `19th of May`.
fn day_first(bytes: &[u8], from: usize) -> Option<Written> {
    let (day, at) = digits(bytes, from, 2)?;
    let at = ordinal(bytes, at);
    if !is(bytes, at, b' ') {
        return None;
    }
    let mut at = at.saturating_add(1);
    if word(bytes, at).is_some_and(|it| it.eq_ignore_ascii_case(b"of"))
        && is(bytes, at.saturating_add(2), b' ')
    {
        at = at.saturating_add(3);
    }
    let (month, to) = month(bytes, at)?;
    with_year(bytes, from, to, month, day)
}

/// `May 19th, 2024`, `May 19`.
fn month_first(bytes: &[u8], from: usize) -> Option<Written> {
    let (month, at) = month(bytes, from)?;
    if !is(bytes, at, b' ') {
        return None;
    }
    let (day, at) = digits(bytes, at.saturating_add(1), 2)?;
    let to = ordinal(bytes, at);
    if !ends(bytes, to) || is(bytes, to, b':') {
        return None;
    }
    with_year(bytes, from, to, month, day)
}

fn with_year(bytes: &[u8], from: usize, to: usize, month: u32, day: u32) -> Option<Written> {
    let mut at = to;
    if is(bytes, at, b',') {
        at = at.saturating_add(1);
    }
    let year = if is(bytes, at, b' ') {
        digits(bytes, at.saturating_add(1), 4)
            .filter(|(year, to)| *year >= 1000 && ends(bytes, *to) && !is(bytes, *to, b':'))
    } else {
        None
    };
    if let Some((year, to)) = year {
        let atom = date(year, month, day)?;
        return Some(Written { atom, from, to });
    }
    let (month, day) = month_and_day(month, day)?;
    Some(Written {
        atom: Atom::Day(month, day),
        from,
        to,
    })
}

/// Behind `st`, `nd`, `rd` or `th`, if it is there.
fn ordinal(bytes: &[u8], at: usize) -> usize {
    match word(bytes, at) {
        Some(b"st" | b"nd" | b"rd" | b"th") => at.saturating_add(2),
        Some(_) | None => at,
    }
}

/// The letters from `at`.
fn word(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let len = rest
        .iter()
        .take(10)
        .take_while(|it| it.is_ascii_alphabetic())
        .count();
    rest.get(..len).filter(|it| !it.is_empty())
}

/// Three letters in lower case.
fn lower3(bytes: &[u8], at: usize) -> Option<[u8; 3]> {
    let found = bytes.get(at..)?.first_chunk::<3>()?;
    Some(found.map(|it| it.to_ascii_lowercase()))
}

fn month(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    // Asked at each word of each text: most are none by their first three letters.
    let (number, name): (u32, &[u8]) = match &lower3(bytes, at)? {
        b"jan" => (1, b"january"),
        b"feb" => (2, b"february"),
        b"mar" => (3, b"march"),
        b"apr" => (4, b"april"),
        b"may" => (5, b"may"),
        b"jun" => (6, b"june"),
        b"jul" => (7, b"july"),
        b"aug" => (8, b"august"),
        b"sep" => (9, b"september"),
        b"oct" => (10, b"october"),
        b"nov" => (11, b"november"),
        b"dec" => (12, b"december"),
        _ => return None,
    };
    let word = word(bytes, at)?;
    let whole = word.len() == 3 || word.eq_ignore_ascii_case(name);
    whole.then(|| (number, at.saturating_add(word.len())))
}

/// `12:00`, `12:00:30`, `10:20 AM`, `2 pm`.
fn time(bytes: &[u8], from: usize) -> Option<Written> {
    let (hour, mut to) = digits(bytes, from, 2)?;
    let (mut minute, mut second) = (0, 0);
    let clock = is(bytes, to, b':');
    if clock {
        let (found, end) = digits(bytes, to.saturating_add(1), 2)?;
        (minute, to) = (found, end);
        if is(bytes, to, b':') {
            let (found, end) = digits(bytes, to.saturating_add(1), 2)?;
            (second, to) = (found, end);
        }
    }
    let gap = usize::from(is(bytes, to, b' '));
    let half = word(bytes, to.saturating_add(gap)).and_then(|word| match word {
        b"am" | b"AM" => Some(0),
        b"pm" | b"PM" => Some(12),
        _ => None,
    });
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => {
            to = to.saturating_add(gap).saturating_add(2);
            hour % 12 + half
        }
        None if clock => hour,
        Some(_) | None => return None,
    };
    let utc = is(bytes, to, b'Z') && ends(bytes, to.saturating_add(1));
    let ends = (utc || ends(bytes, to)) && !is(bytes, to, b':');
    if !ends || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(Written {
        atom: Atom::Time(hour * 3600 + minute * 60 + second),
        from,
        to,
    })
}

/// A number by itself.
fn number(bytes: &[u8], from: usize) -> Option<Written> {
    let rest = bytes.get(from..)?;
    let mut len = rest.iter().take_while(|it| is_number_byte(**it)).count();
    // What ends a sentence or a list is not of it.
    while len > 0
        && rest
            .get(len.saturating_sub(1))
            .is_some_and(|it| !it.is_ascii_digit())
    {
        len = len.saturating_sub(1);
    }
    let written = rest.get(..len)?;
    let to = from.saturating_add(len);
    if len > DIGITS_MAX || !ends(bytes, to) {
        return None;
    }
    let before = from.checked_sub(1).and_then(|at| bytes.get(at)).copied();
    let negative = match before {
        None => false,
        // A minus, if nothing is before it that it could join or lead to.
        Some(b'-') => {
            let earlier = from.checked_sub(2).and_then(|at| bytes.get(at));
            // In the index a NUL stands before each text.
            if !earlier.is_none_or(|it| it.is_ascii_whitespace() || *it == 0) {
                return None;
            }
            true
        }
        Some(b'.' | b'/' | b':' | b'@' | b'=' | b'#' | b'&' | b'+' | b'~') => return None,
        Some(_) => false,
    };
    let behind = bytes.get(to).copied();
    if matches!(behind, Some(b'@' | b'/' | b'-' | b'=' | b'&')) {
        return None;
    }
    let digits = decimal(written)?;
    let digits = match (negative, digits.as_str()) {
        (true, "0") | (false, _) => digits,
        (true, _) => alloc::format!("-{digits}"),
    };
    Some(Written {
        atom: Atom::Number(digits),
        from,
        to,
    })
}

/// No amount and no count has more.
const DIGITS_MAX: usize = 40;

/// `written` in decimal, without grouping and zeros that say nothing.
fn decimal(written: &[u8]) -> Option<String> {
    let grouped = |group: u8, point: u8| -> Option<(Vec<u8>, Vec<u8>)> {
        let mut parts = written.splitn(2, |it| *it == point);
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
        let mut groups = whole.split(|it| *it == group);
        let first = groups.next()?;
        let mut digits = first.to_vec();
        for (index, more) in groups.enumerate() {
            // The first group has up to three digits, each other one three.
            if more.len() != 3 || (index == 0 && first.len() > 3) || first.is_empty() {
                return None;
            }
            digits.extend_from_slice(more);
        }
        let plain = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
        (!digits.is_empty() && plain(&digits) && plain(fraction))
            .then(|| (digits, fraction.to_vec()))
    };
    let (whole, fraction) = grouped(b',', b'.')
        .or_else(|| grouped(b'\'', b'.'))
        .or_else(|| grouped(b'.', b',').filter(|(_, fraction)| !fraction.is_empty()))?;
    let whole = trimmed_front(&whole);
    let fraction = trimmed_back(&fraction);
    let mut out = String::new();
    out.extend(whole.iter().map(|it| char::from(*it)));
    if out.is_empty() {
        out.push('0');
    }
    if !fraction.is_empty() {
        out.push('.');
        out.extend(fraction.iter().map(|it| char::from(*it)));
    }
    Some(out)
}

fn trimmed_front(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|it| **it == b'0').count();
    digits.get(zeros..).unwrap_or_default()
}

fn trimmed_back(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|it| **it == b'0').count();
    digits
        .get(..digits.len().saturating_sub(zeros))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{string::ToString as _, vec};

    fn atoms(text: &str) -> Vec<Atom> {
        let mut found = Vec::new();
        scan(text, |written| found.push(written.atom));
        found
    }

    fn n(digits: &str) -> Atom {
        Atom::Number(digits.to_string())
    }

    #[test]
    fn a_number_is_what_it_means() {
        for (text, expected) in [
            ("1,200.50 EUR", "1200.5"),
            ("EUR 1200.5", "1200.5"),
            ("$1'200.50.", "1200.5"),
            ("1.200,50", "1200.5"),
            ("1.200", "1.2"),
            ("12,34", "12.34"),
            ("(98.70)", "98.7"),
            ("-5", "-5"),
            ("it is 7.2%,", "7.2"),
            ("007", "7"),
        ] {
            assert_eq!(atoms(text), vec![n(expected)], "{text}");
        }
        assert_eq!(atoms("1, 2 and 3,"), vec![n("1"), n("2"), n("3")]);
    }

    #[test]
    fn digits_of_something_else_are_no_number() {
        for text in [
            "US133000000121212121212",
            "3-5",
            "1.2.3.4",
            "a1",
            "1a",
            "x_1",
            "1,20,3",
            "n=5",
            "5@a.example",
            "a.5",
            "/5/",
            "v1.2",
            "01/02/2024",
            "12:61",
            "+41",
        ] {
            assert_eq!(atoms(text), vec![], "{text}");
        }
    }

    #[test]
    fn a_date_and_a_time_are_what_they_mean() {
        for (text, expected) in [
            ("2024-05-19", vec![Atom::Date(2024, 5, 19)]),
            ("2024/5/19.", vec![Atom::Date(2024, 5, 19)]),
            ("19.05.2024", vec![Atom::Date(2024, 5, 19)]),
            ("19/05/2024", vec![Atom::Date(2024, 5, 19)]),
            ("05/19/2024", vec![Atom::Date(2024, 5, 19)]),
            ("May 19th, 2024", vec![Atom::Date(2024, 5, 19)]),
            ("on 19 May 2024", vec![Atom::Date(2024, 5, 19)]),
            ("the 19th of May", vec![Atom::Day(5, 19)]),
            (
                "January 11th to January 15th 2025",
                vec![Atom::Day(1, 11), Atom::Date(2025, 1, 15)],
            ),
            ("12:00", vec![Atom::Time(43_200)]),
            ("10:20 AM", vec![Atom::Time(37_200)]),
            ("2pm", vec![Atom::Time(50_400)]),
            (
                "2024-05-19T12:00:00",
                vec![Atom::Date(2024, 5, 19), Atom::Time(43_200)],
            ),
            (
                "2024-05-19 12:00",
                vec![Atom::Date(2024, 5, 19), Atom::Time(43_200)],
            ),
        ] {
            assert_eq!(atoms(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_atoms_only_if_it_is_nothing_else() {
        assert!(whole("2024-05-19 12:00").is_some_and(|it| it.len() == 2));
        assert!(whole("2024-05-19T12:00:00Z").is_some_and(|it| it.len() == 2));
        assert!(whole("$1,200.50").is_some_and(|it| it.len() == 1));
        assert_eq!(whole("room 12"), None);
        assert_eq!(whole("12 7"), None);
        assert_eq!(whole(""), None);
    }

    proptest! {
        /// What is noted at a place is read again from there.
        #[test]
        fn an_atom_is_read_again_where_it_was_found(text in "[0-9A-Za-z,.:'/ -]{0,30}") {
            scan(&text, |written| {
                let again = read(text.as_bytes(), written.from);
                assert_eq!(again, Some(written));
            });
        }

        #[test]
        fn every_number_of_json_is_read_as_itself(n in -1_000_000_i64..1_000_000, cents in 1_u8..100) {
            let int = Value::try_from(n).unwrap();
            prop_assert_eq!(Some(atoms(&n.to_string())), Atom::of_number(&int).map(|it| vec![it]));
            let x = n.unsigned_abs() as f64 + f64::from(cents) / 100.0;
            let real = Value::try_from(x).unwrap();
            prop_assert_eq!(Some(atoms(&std::format!("{x:.2}"))), Atom::of_number(&real).map(|it| vec![it]));
        }
    }
}

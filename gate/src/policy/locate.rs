//! Where in the file a key is.

use alloc::{string::String, vec::Vec};
use core::ops::Range;

use toml::de::{DeTable, DeValue};

/// The line of byte `at`, from 1.
pub(super) fn line_at(toml: &str, at: usize) -> usize {
    toml.bytes()
        .take(at)
        .filter(|b| *b == b'\n')
        .count()
        .saturating_add(1)
}

/// What stands in the line of byte `at`.
pub(super) fn text_at(toml: &str, at: usize) -> &str {
    let line = line_at(toml, at).saturating_sub(1);
    toml.lines().nth(line).unwrap_or_default().trim()
}

/// Where the longest part of `key` is that the file has: its last name. Header names are known in lower case.
pub(super) fn span_of_key(toml: &str, key: &[String]) -> Range<usize> {
    let Ok(root) = DeTable::parse(toml) else {
        return 0..0;
    };
    let mut at = 0..0;
    let mut table = Some(root.get_ref());
    for wanted in key {
        let Some((found, value)) = table.and_then(|table| {
            table
                .iter()
                .find(|(found, _)| found.get_ref().eq_ignore_ascii_case(wanted))
        }) else {
            break;
        };
        at = found.span();
        table = match value.get_ref() {
            DeValue::Table(inner) => Some(inner),
            DeValue::Array(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Float(_)
            | DeValue::Integer(_)
            | DeValue::String(_) => None,
        };
    }
    at
}

/// The path of the innermost key whose own text or value holds byte `at`.
pub(super) fn path_at(toml: &str, at: usize) -> Option<Vec<String>> {
    fn walk(table: &DeTable<'_>, at: usize, path: &mut Vec<String>) -> bool {
        for (key, value) in table {
            path.push(key.get_ref().clone().into_owned());
            if key.span().contains(&at) {
                return true;
            }
            if let DeValue::Table(inner) = value.get_ref()
                && walk(inner, at, path)
            {
                return true;
            }
            if value.span().contains(&at) {
                return true;
            }
            path.pop();
        }
        false
    }
    let root = DeTable::parse(toml).ok()?;
    let mut path = Vec::new();
    walk(root.get_ref(), at, &mut path).then_some(path)
}

//! Texts and values of the file that many arguments name by reference: each is copied once.

use std::{collections::HashMap, sync::Arc};

use gate::{
    digest::{Digest, Running},
    json::{self, Value},
};

use super::Words;

/// What was copied, by where it lies in memory: the file's value outlives this.
#[derive(Debug, Default)]
pub(super) struct Shared {
    texts: HashMap<*const str, Arc<str>>,
    values: HashMap<*const Value, (Arc<Value>, usize)>,
    digests: HashMap<*const Value, Digest>,
}

impl Shared {
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        Arc::clone(
            self.texts
                .entry(std::ptr::from_ref(text))
                .or_insert_with(|| cut(text).into()),
        )
    }

    /// A value, and the bytes of its RFC 8785 form.
    pub(super) fn value(&mut self, value: &Value) -> (Arc<Value>, usize) {
        self.values
            .entry(std::ptr::from_ref(value))
            .or_insert_with(|| (Arc::new(value.clone()), json::canonical(value).len()))
            .clone()
    }

    /// The fingerprint of a schema; of several, that of theirs, a line each.
    pub(super) fn digest(&mut self, schemas: &[&Value]) -> Digest {
        let mut digests = schemas.iter().map(|schema| {
            *self
                .digests
                .entry(std::ptr::from_ref(*schema))
                .or_insert_with(|| super::fingerprint(schema))
        });
        let Some(first) = digests.next() else {
            return Running::default().so_far();
        };
        let mut all = Running::default();
        let mut more = false;
        all.update(format!("{first}\n").as_bytes());
        for digest in digests {
            more = true;
            all.update(format!("{digest}\n").as_bytes());
        }
        if more { all.so_far() } else { first }
    }
}

fn cut(text: &str) -> &str {
    let mut end = Words::MOST.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

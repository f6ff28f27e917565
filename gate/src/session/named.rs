//! Which short numbers the person spoke of as names of something.
//!
//! A bare number is everywhere in a text: "at 9", "2 hours". As an identifier it is the person's only
//! where he says so: `id 9`, `#9`, `no. 9`.

use alloc::{collections::BTreeSet, string::String};

/// A number of more digits names something wherever it stands.
const SHORT: usize = 4;

/// What says that the number behind it names something.
const CUES: [&str; 7] = ["id", "ids", "no", "nr", "number", "numbers", "num"];

/// The short numbers that were named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named(BTreeSet<String>);

impl Named {
    pub(super) fn add(&mut self, text: &str) {
        // Behind a cue every number of an enumeration is named: "ids 3, 4".
        let mut cued = false;
        let words = text.split(|it: char| !(it.is_alphanumeric() || it == '#'));
        for word in words.filter(|it| !it.is_empty()) {
            let bare = word.trim_start_matches('#');
            let marked = bare.len() < word.len();
            if !is_short(bare) {
                cued = CUES.iter().any(|it| bare.eq_ignore_ascii_case(it));
            } else if cued || marked {
                self.0.insert(bare.into());
            }
        }
    }

    /// Whether `text`, as an identifier, is named.
    pub(crate) fn has(&self, text: &str) -> bool {
        !is_short(text) || self.0.contains(text)
    }
}

fn is_short(text: &str) -> bool {
    (1..=SHORT).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_names_something_only_where_an_id_is_spoken_of() {
        let mut task = Named::default();
        task.add(
            "Delete the files with ids 11, 13 and #12 (no. 7), at 9 on 2024-05-19; order 123456",
        );
        for named in ["11", "13", "12", "7", "123456", "doc-9"] {
            assert!(task.has(named), "{named}");
        }
        for not in ["9", "2024", "05", "19", "8"] {
            assert!(!task.has(not), "{not}");
        }
    }
}

//! The words of what the person asked for: whether a deed was asked for at all, and whether a text says
//! nothing that the person has not said.
//!
//! Words are letters and digits, without case. What is written otherwise (full width, another
//! alphabet's look-alikes) is another word: a question more, never one less.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString as _},
    vec::Vec,
};

/// Words that say nothing by themselves, in English; a text made of them and of the task's words is the
/// person's own. Endings after an apostrophe are words here.
const SMALL: &[&str] = &[
    "a", "am", "an", "and", "are", "as", "at", "be", "been", "by", "d", "for", "from", "has",
    "have", "he", "her", "his", "i", "in", "is", "it", "its", "ll", "m", "me", "my", "of", "on",
    "or", "our", "re", "s", "she", "so", "t", "that", "the", "their", "them", "there", "they",
    "this", "to", "us", "ve", "was", "we", "were", "will", "with", "you", "your",
];

/// The words of everything with authority that was said in a session.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TaskWords(BTreeSet<String>);

impl TaskWords {
    /// Takes in a text with authority.
    pub fn add(&mut self, text: &str) {
        self.0.extend(words(text).map(|(_, word)| word));
    }

    /// Whether the person asked for a deed: the task has a word of each group. `add` is that word,
    /// `creat*` any that begins so. No group: it need not be asked for.
    pub fn ask<G: AsRef<[String]>>(&self, groups: &[G]) -> bool {
        groups
            .iter()
            .all(|group| group.as_ref().iter().any(|it| self.has(it)))
    }

    fn has(&self, wanted: &str) -> bool {
        match wanted.strip_suffix('*') {
            None => self.0.contains(wanted),
            Some(stem) => self
                .0
                .range(stem.to_string()..)
                .next()
                .is_some_and(|word| word.starts_with(stem)),
        }
    }

    /// Whether every word of `text` is a small one, and there is one: it stands in every task, and names
    /// nothing.
    pub fn is_nothing(text: &str) -> bool {
        let mut any = false;
        let small = |it: ((usize, usize), String)| SMALL.binary_search(&it.1.as_str()).is_ok();
        words(text).inspect(|_| any = true).all(small) && any
    }

    /// The stretch of `text` from the first to the last word that is neither the task's nor a small one
    /// nor a number of one or two digits (`2`, `2nd`). None: the text is the person's own.
    pub fn beyond<'t>(&self, text: &'t str) -> Option<&'t str> {
        let strange: Vec<(usize, usize)> = words(text)
            .filter(|(_, word)| !self.0.contains(word) && !is_small(word))
            .map(|(place, _)| place)
            .collect();
        let (from, _) = strange.first()?;
        let (_, to) = strange.last()?;
        text.get(*from..*to)
    }
}

fn is_small(word: &str) -> bool {
    if SMALL.binary_search(&word).is_ok() {
        return true;
    }
    let rest = word.trim_start_matches(|it: char| it.is_ascii_digit());
    let digits = word.len().saturating_sub(rest.len());
    (1..=2).contains(&digits) && matches!(rest, "" | "nd" | "rd" | "st" | "th")
}

/// Each word, in lower case, with its place.
fn words(text: &str) -> impl Iterator<Item = ((usize, usize), String)> {
    let mut rest = text.char_indices().peekable();
    core::iter::from_fn(move || {
        while rest.next_if(|(_, it)| !it.is_alphanumeric()).is_some() {}
        let (from, _) = *rest.peek()?;
        let mut to = from;
        let mut word = String::new();
        while let Some((at, character)) = rest.next_if(|(_, it)| it.is_alphanumeric()) {
            to = at.saturating_add(character.len_utf8());
            if character.is_ascii() {
                word.push(character.to_ascii_lowercase());
            } else if character.to_lowercase().all(|it| it.is_ascii()) {
                // KELVIN SIGN is no `K`.
                word.push(character);
            } else {
                word.extend(character.to_lowercase());
            }
        }
        Some(((from, to), word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{borrow::ToOwned as _, vec};
    use proptest::prelude::*;

    fn said(text: &str) -> TaskWords {
        let mut words = TaskWords::default();
        words.add(text);
        words
    }

    fn group(words: &[&str]) -> Vec<String> {
        words.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn the_small_words_are_sorted() {
        assert!(SMALL.is_sorted());
    }

    #[test]
    fn a_deed_is_asked_for_by_a_word_of_every_group() {
        let verbs = group(&["add", "creat*", "schedul*"]);
        let things = group(&["event*", "meeting*"]);
        let groups = vec![verbs, things];
        assert!(said("Please Create two Meetings").ask(&groups));
        assert!(!said("When is my next meeting?").ask(&groups));
        assert!(!said("Create a file").ask(&groups));
        assert!(said("").ask::<Vec<String>>(&[]));
        // A word is not another that begins with it, nor one that has it inside.
        assert!(!said("What is in the prevented address?").ask(&[group(&["event*", "add"])]));
    }

    #[test]
    fn a_text_is_the_persons_own_word_by_word() {
        let task = said("Reply there that you've seen it in the meeting room.");
        assert_eq!(task.beyond("I've seen it in the meeting room!"), None);
        assert_eq!(task.beyond("I've seen it in the 2nd meeting room"), None);
        assert_eq!(
            task.beyond("I've seen it at www.evil.example!"),
            Some("www.evil.example")
        );
        assert_eq!(task.beyond("Seen 463820"), Some("463820"));
        assert_eq!(task.beyond(""), None);
    }

    #[test]
    fn a_word_that_every_task_has_names_nothing() {
        for nothing in ["the", "To me", "and the"] {
            assert!(TaskWords::is_nothing(nothing), "{nothing}");
        }
        for something in ["", "-", "12", "the kitchen", "1j1l-2k3j"] {
            assert!(!TaskWords::is_nothing(something), "{something}");
        }
    }

    #[test]
    fn what_is_strange_is_one_stretch() {
        let task = said("Add an event called 'Dinner at {restaurant_name}', the restaurant's own");
        assert_eq!(
            task.beyond("Dinner at New Israeli Restaurant"),
            Some("New Israeli")
        );
        assert_eq!(
            task.beyond("Free dinner at Eve's restaurant"),
            Some("Free dinner at Eve")
        );
    }

    proptest! {
        /// What is added is never strange; what is strange is a stretch of the text.
        #[test]
        fn own_words_are_own(task in "\\PC{0,40}", text in "\\PC{0,40}") {
            let mut words = said(&task);
            prop_assert_eq!(words.beyond(&task), None);
            if let Some(stretch) = words.beyond(&text) {
                prop_assert!(text.contains(stretch) && !stretch.is_empty());
            }
            words.add(&text);
            prop_assert_eq!(words.beyond(&text), None);
        }
    }
}

//! Where a value comes from: one index per session of everything that it was told.
//!
//! **Invariant:** recording more never makes a value better known than the new text itself makes
//! it: untrusted text makes no value authoritative, minted or derived, and authoritative text
//! makes only those values so that stand in it, whole.
//!
//! Two questions, with two measures. *Who may have supplied this?* is answered by the text as it
//! is written: whole words, in a row, compared byte by byte (but for case, white space, and how a
//! number or a date is written). *Could untrusted text have supplied it?* is answered by anything:
//! lookalikes, unseen characters, other separators, encodings, parts and pieces.
//!
//! | class | the value | asked of |
//! |---|---|---|
//! | T authoritative | stands in the person's or operator's words, or is a trusted value | words, leaves, atoms |
//! | I minted | is a whole field that the system of record made | leaves, atoms |
//! | D derived | stands in the result of a tool whose content is the system's | words, leaves, atoms |
//! | U untrusted | stands in anyone's words, in any form, or a part of it does | tokens, and `suspect` |
//! | N novel | stands nowhere | |
//!
//! Not claimed: meaning. A value that was paraphrased, translated, computed, encrypted, compressed
//! or encoded in a way that `decode` does not name is novel, and it is the policy that holds what is
//! novel in a tainted session.
//!
//! What is recorded counts against a [`Budget`]. Beyond it the index closes for good and says
//! [`Class::Saturated`] of everything: what it could not keep may be anywhere.

mod answer;
mod ask;
mod atom;
mod budget;
mod decode;
mod find;
mod fold;
mod hash;
mod label;
mod link;
mod record;
mod source;
mod store;
mod suspect;
mod table;
mod words;

use alloc::{boxed::Box, string::String};

pub use answer::{Class, Ground, How, Origin, Told};
pub use budget::{Budget, Saturated, Usage};
pub use decode::{Coding, LAYERS};
pub use hash::Key;
pub use label::{Label, Labels, PatternError, STEPS_MAX};
pub use link::{Link, LinkKind, links};
pub use source::Source;
pub(crate) use suspect::squash;

use crate::json::Value;
use store::Store;

/// The index of one session.
///
/// ```
/// # use gate::{digest::{Digest, Domain}, json::Value, lineage::{*, Key}};
/// let mut lineage = Lineage::new(&Key::new([7; 16]), Budget::DEFAULT);
/// let task = "Pay 98.70 EUR to boss@acme.com, please.";
/// let digest = Digest::of(Domain::Result, task.as_bytes());
/// lineage.record_text(Source::Task { digest }, task, Label::Authoritative)?;
/// let origin = |text: &str| lineage.origin(&Value::Text(text.into())).class;
/// assert_eq!(origin("boss@acme.com"), Class::Authoritative);
/// assert_eq!(origin("boss@acme.co"), Class::Novel);
/// # Ok::<(), Saturated>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lineage {
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Closed { usage: Usage, why: Saturated },
    Open(Box<Store>),
}

impl Lineage {
    /// An empty index. `key` is the session's own and nobody else's to know.
    pub fn new(key: &Key, budget: Budget) -> Self {
        Self {
            state: State::Open(Box::new(Store::new(key, budget))),
        }
    }

    /// Records `text` from `source`, all of it under `label`. Gives the source's number.
    ///
    /// # Errors
    /// When the index is over its budget, now or already: it is closed from then on.
    pub fn record_text(
        &mut self,
        source: Source,
        text: &str,
        label: Label,
    ) -> Result<u32, Saturated> {
        self.record(|store| record::text(store, source, text, label))
    }

    /// Records `value` from `source`, each field under its label. Gives the source's number.
    ///
    /// # Errors
    /// When the index is over its budget, now or already: it is closed from then on.
    pub fn record_value(
        &mut self,
        source: Source,
        value: &Value,
        labels: &Labels,
    ) -> Result<u32, Saturated> {
        self.record(|store| record::value(store, source, value, labels))
    }

    fn record(
        &mut self,

        enter: impl FnOnce(&mut Store) -> Result<u32, Saturated>,
    ) -> Result<u32, Saturated> {
        let store = match &mut self.state {
            State::Closed { why, .. } => return Err(*why),
            State::Open(store) => store,
        };
        let entered = enter(store);
        if let Err(why) = entered {
            let usage = Usage {
                memory: 0,
                ..store.usage()
            };
            // What a record left half done is never asked again, and its memory is free.
            self.state = State::Closed { usage, why };
        }
        entered
    }

    /// Where `value` comes from.
    pub fn origin(&self, value: &Value) -> Origin {
        match &self.state {
            State::Closed { .. } => Origin::of(Class::Saturated),
            State::Open(store) => ask::origin(store, value),
        }
    }

    /// The class of `value` where it is known ([`Class::is_known`]), and none otherwise: what
    /// [`Lineage::origin`] says, sooner.
    pub fn known(&self, value: &Value) -> Option<Class> {
        match &self.state {
            State::Closed { .. } => None,
            State::Open(store) => ask::known(store, value),
        }
    }

    /// Why the index is closed, if it is.
    pub const fn saturated(&self) -> Option<Saturated> {
        match &self.state {
            State::Closed { why, .. } => Some(*why),
            State::Open(_) => None,
        }
    }

    /// The source with this number.
    pub fn source(&self, number: u32) -> Option<&Source> {
        match &self.state {
            State::Closed { .. } => None,
            State::Open(store) => store.source(number),
        }
    }

    /// Where in its source a ground is, as a JSON pointer (RFC 6901).
    pub fn pointer(&self, ground: &Ground) -> String {
        match &self.state {
            State::Closed { .. } => String::new(),
            State::Open(store) => store.pointer(ground.place),
        }
    }

    /// The text around a ground, as it was told: up to `before` bytes before it and `most` in all, never
    /// beyond its field. None for a container that was found whole.
    pub fn around(&self, ground: &Ground, before: usize, most: usize) -> Option<&str> {
        match &self.state {
            State::Closed { .. } => None,
            State::Open(store) => store.around(ground.place, before, most),
        }
    }

    /// A ground in words; `pointer` is [`Lineage::pointer`] of it.
    pub fn told<'a>(&'a self, ground: &'a Ground, pointer: &'a str) -> Told<'a> {
        Told {
            ground,
            pointer,
            source: self.source(ground.source),
        }
    }

    /// What the index takes.
    pub fn usage(&self) -> Usage {
        match &self.state {
            State::Closed { usage, .. } => *usage,
            State::Open(store) => store.usage(),
        }
    }
}

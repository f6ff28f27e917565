//! What is said of a value: its class, and what that rests on.

use alloc::{string::String, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use super::{Coding, Label, Source};

/// Where a value comes from, in one word. The later ones are worse; a list or an object has the
/// worst class of its leaves.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// T: it stands in authoritative text, whole, or is a trusted value.
    Authoritative,
    /// I: it is, whole, a field that the system of record made.
    Minted,
    /// D: it stands in a derived result, whole.
    Derived,
    /// N: nothing recorded has it, not even encoded.
    Novel,
    /// U: untrusted text has it, or a part of it that nothing better has, in whatever form.
    Untrusted,
    /// The session's index is over its budget: nothing is known any more.
    Saturated,
}

impl Class {
    /// Whether the value may count as somebody's who may supply it. Only these three can; it is
    /// never more than one condition of an allowance.
    pub const fn is_known(self) -> bool {
        match self {
            Self::Authoritative | Self::Minted | Self::Derived => true,
            Self::Novel | Self::Untrusted | Self::Saturated => false,
        }
    }

    /// The class's letter in tables.
    pub const fn letter(self) -> char {
        match self {
            Self::Authoritative => 'T',
            Self::Minted => 'I',
            Self::Derived => 'D',
            Self::Novel => 'N',
            Self::Untrusted => 'U',
            Self::Saturated => 'S',
        }
    }

    /// The class's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authoritative => "authoritative",
            Self::Minted => "minted",
            Self::Derived => "derived",
            Self::Novel => "novel",
            Self::Untrusted => "untrusted",
            Self::Saturated => "saturated",
        }
    }

    pub(super) const fn of(label: Label) -> Self {
        match label {
            Label::Authoritative => Self::Authoritative,
            Label::Minted => Self::Minted,
            Label::Derived => Self::Derived,
            Label::Untrusted => Self::Untrusted,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a value was found. Those up to [`How::Time`] may make a value authoritative, minted or
/// derived; all of them may make it untrusted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A whole array or object, type and all.
    Container,
    /// A whole leaf, type and all.
    Leaf,
    /// Whole words of a text, byte for byte.
    Exact,
    /// Whole words of a text, but for case or the amount of white space.
    Cased,
    /// A long number or code of which the text has the groups apart (`GB29 NWBK 6016`).
    Grouped,
    /// The same number, written in another way.
    Number,
    /// The same date, written in another way.
    Date,
    /// The same day; the text does not say of which year.
    Day,
    /// The same time, written in another way.
    Time,
    /// Tokens of a text, once folded: case, lookalikes, unseen characters, punctuation.
    Folded,
    /// The same characters, cut differently.
    Squashed,
    /// `at` and `dot` in words.
    SpelledOut,
    /// Letter by letter.
    Letters,
    /// Backwards.
    Reversed,
    /// By rot13.
    Rot13,
    /// The value is an encoding of the text.
    Encoded,
    /// The host or domain of the value.
    Host,
    /// A word of the value that nothing better has.
    Part,
    /// Put together of pieces, which may be of several results.
    Joined,
    /// So many texts start alike that it is not known whether one goes on like the value.
    Crowded,
}

impl How {
    /// In words, after "found".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Container => "whole",
            Self::Leaf => "as a field",
            Self::Exact => "in the text",
            Self::Cased => "in the text, but for case or spacing",
            Self::Grouped => "in the text, in groups",
            Self::Number => "as a number",
            Self::Date => "as a date",
            Self::Day => "as a day without year",
            Self::Time => "as a time",
            Self::Folded => "in another spelling",
            Self::Squashed => "with other separators",
            Self::SpelledOut => "spelled out",
            Self::Letters => "letter by letter",
            Self::Reversed => "backwards",
            Self::Rot13 => "by rot13",
            Self::Encoded => "decoded from the value",
            Self::Host => "as to its host",
            Self::Part => "in part",
            Self::Joined => "in pieces",
            Self::Crowded => "perhaps, among too many alike",
        }
    }
}

/// One thing that a class rests on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ground {
    /// How what was found had been written, outermost last; empty if it was written plainly.
    pub decoded: Vec<Coding>,
    /// How it was found.
    pub how: How,
    /// Whose words it was found in.
    pub label: Label,
    /// Which source: a number for [`super::Lineage::source`].
    pub source: u32,
    /// Where in the text of the index: for [`super::Lineage::pointer`].
    pub(super) place: Place,
}

/// Where something was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// A container, by its number.
    Container(u32),
    /// A leaf, by a place in it.
    Leaf(u32),
}

/// What is known of where a value comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Origin {
    /// The class.
    pub class: Class,
    /// What it rests on, best first. An authoritative value that untrusted text has too has both
    /// grounds: then untrusted text may have chosen it.
    pub grounds: Vec<Ground>,
    /// The leaf of the value that decides, as a JSON pointer into it; empty for the value itself.
    pub leaf: String,
    /// Authoritative text that the value looks like and is not.
    pub resembles: Option<Ground>,
}

impl Origin {
    pub(super) const fn of(class: Class) -> Self {
        Self {
            class,
            grounds: Vec::new(),
            leaf: String::new(),
            resembles: None,
        }
    }

    /// The first ground under `label`.
    pub fn under(&self, label: Label) -> Option<&Ground> {
        self.grounds.iter().find(|ground| ground.label == label)
    }

    /// Whether untrusted text has the value, whatever else has it.
    pub fn is_in_untrusted(&self) -> bool {
        self.under(Label::Untrusted).is_some()
    }
}

/// A ground with its source, for a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    pub(super) ground: &'a Ground,
    pub(super) pointer: &'a str,
    pub(super) source: Option<&'a Source>,
}

impl fmt::Display for Told<'_> {
    /// `found as a field in a result of `list_events` at /2/id`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {} in ", self.ground.how.as_str())?;
        match self.source {
            Some(source) => write!(f, "{source}")?,
            None => f.write_str("an unknown source")?,
        }
        if !self.pointer.is_empty() {
            write!(f, " at {}", crate::excerpt::excerpt(self.pointer))?;
        }
        for coding in self.ground.decoded.iter().rev() {
            let coding = match coding {
                Coding::Base64 => "base64",
                Coding::Escapes => "escapes",
                Coding::Hex => "hexadecimal",
            };
            write!(f, ", decoded from {coding}")?;
        }
        Ok(())
    }
}

//! What a call of a tool may do to the world, as its name has it, and as somebody declares it.

use std::fmt;

use gate::policy::Risk;
use serde::{Serialize, Serializer};

use super::{names::Name, vocabulary::Words};

/// A risk, or that it is not known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tier {
    /// It is this one.
    Known(Risk),
    /// Nothing says it.
    Unknown,
}

impl Tier {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Known(risk) => risk.as_str(),
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Tier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Words of a tool's name, worst first: the first group of which one is in the name wins.
static WORDS: [(Risk, Words); 5] = [
    (
        Risk::Execute,
        Words::of(
            "bash cmd command eval evaluate exec execute javascript powershell python run script \
             shell spawn sql terminal",
        ),
    ),
    (
        Risk::Destructive,
        Words::of(
            "clear delete destroy drop erase kill overwrite prune purge remove reset revoke \
             terminate trash truncate uninstall unlink wipe",
        ),
    ),
    (
        Risk::Financial,
        Words::of(
            "bid billing buy charge checkout deposit donate invoice pay payment payout purchase \
             refund sell stake trade transfer withdraw",
        ),
    ),
    (
        Risk::Write,
        Words::of(
            "add append approve archive assign book cancel click close comment commit copy create \
             deploy disable drag edit enable fill fork forward grant insert install invite lock make \
             merge modify move new open patch place post press publish push put register rename \
             replace reply restart save schedule select send set share start stop store submit \
             toggle type update upload upsert write",
        ),
    ),
    (
        Risk::Read,
        Words::of(
            "check count describe fetch find get list lookup read scan search show status view",
        ),
    ),
];

/// What `words` say, and the word that says it.
pub(super) fn of<'a>(words: impl Iterator<Item = &'a str> + Clone) -> (Tier, Option<&'static str>) {
    for (risk, group) in &WORDS {
        if let Some(word) = words.clone().find_map(|word| group.listed(word)) {
            return (Tier::Known(*risk), Some(word));
        }
    }
    (Tier::Unknown, None)
}

/// What a tool's name says.
pub(super) fn of_name(name: &Name) -> (Tier, Option<&'static str>) {
    let tokens: Vec<&str> = name.tokens().collect();
    of(tokens.iter().copied())
}

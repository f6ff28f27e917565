//! `custody ledger show`: one record, and what belongs to it in both chains.

use std::{collections::BTreeMap, path::Path};

use custody_ledger::{
    lookup::{self, Found, Lookup, Sought},
    reader::Entry,
};
use custody_shown::inert;
use gate::{
    chain::ChainName,
    digest::Digest,
    json::{self, Value},
};

use super::{Trusted, list};
use crate::{complain, exit::Exit, say};

/// What is looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wanted {
    /// The digest of a record or of a call.
    Digest(Digest),
    /// A position of a chain.
    Position(ChainName, u64),
}

impl Wanted {
    /// `POSITION`, `CHAIN:POSITION` or a digest.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(digest) = Digest::try_from(text.to_owned()) {
            return Ok(Self::Digest(digest));
        }
        let (chain, position) = text.split_once(':').unwrap_or(("decisions", text));
        let chain = ChainName::ALL.into_iter().find(|it| it.as_str() == chain);
        let position = position.parse().ok().filter(|it: &u64| *it > 0);
        match (chain, position) {
            (Some(chain), Some(position)) => Ok(Self::Position(chain, position)),
            _ => Err(
                "it must be a position, CHAIN:POSITION, or the digest of a record or a call".into(),
            ),
        }
    }
}

/// `custody ledger show`.
///
/// # Errors
/// When the ledger or a key cannot be looked at.
pub fn show(dir: &Path, wanted: Wanted, trusted: &Trusted) -> anyhow::Result<Exit> {
    let keys = trusted.for_ledger(dir)?;
    let mut chains = Both {
        decisions: Lookup::open(dir, ChainName::Decisions, keys.decisions)?,
        receipts: Lookup::open(dir, ChainName::Receipts, keys.receipts)?,
        found: BTreeMap::new(),
    };
    for lookup in [&chains.decisions, &chains.receipts] {
        if let Err(error) = lookup.refresh() {
            complain(&format!("without an index, which makes this slow: {error}"));
        }
    }
    match wanted {
        Wanted::Position(chain, position) => chains.take(chain, Sought::Position(position))?,
        Wanted::Digest(digest) => {
            for chain in ChainName::ALL {
                chains.take(chain, Sought::Record(digest))?;
                chains.take(chain, Sought::Call(digest))?;
            }
        }
    }
    if chains.found.is_empty() {
        complain("the ledger has no such record");
        return Ok(Exit::Bad);
    }
    chains.join()?;
    for found in chains.found.values() {
        describe(found);
    }
    Ok(Exit::Done)
}

struct Both {
    decisions: Lookup,
    receipts: Lookup,
    /// By time, chain and position.
    found: BTreeMap<(u64, bool, u64), Found>,
}

impl Both {
    fn take(&mut self, chain: ChainName, what: Sought) -> anyhow::Result<()> {
        let lookup = match chain {
            ChainName::Decisions => &mut self.decisions,
            ChainName::Receipts => &mut self.receipts,
        };
        for found in lookup.find(what)? {
            let _known = self.found.insert(order(&found.entry), found);
        }
        Ok(())
    }

    /// Decision, what came of it, intent, receipt: whatever names one of the decisions that were found, or
    /// is named. Two rounds: from a receipt to its decision, and from there to the rest.
    fn join(&mut self) -> anyhow::Result<()> {
        for _ in 0..2 {
            let mut decisions: Vec<u64> = self
                .found
                .values()
                .flat_map(|found| {
                    let own = (found.entry.chain == ChainName::Decisions)
                        .then_some(found.entry.place.position);
                    [own, lookup::decision_of(&found.entry)]
                })
                .flatten()
                .collect();
            decisions.sort_unstable();
            decisions.dedup();
            for position in decisions {
                self.take(ChainName::Decisions, Sought::Position(position))?;
                self.take(ChainName::Decisions, Sought::Decision(position))?;
                self.take(ChainName::Receipts, Sought::Decision(position))?;
            }
        }
        Ok(())
    }
}

fn order(entry: &Entry) -> (u64, bool, u64) {
    (
        super::select::at(entry).unwrap_or_default(),
        entry.chain == ChainName::Receipts,
        entry.place.position,
    )
}

fn describe(found: &Found) {
    let entry = &found.entry;
    say(&list::line(entry, found.signed));
    say(&format!("    digest {}", entry.place.digest));
    let Value::Object(fields) = &entry.fields else {
        return;
    };
    for (name, value) in fields {
        let text = String::from_utf8(json::canonical(value)).unwrap_or_default();
        say(&format!("    {name}: {}", inert::json(&text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_position_chain_and_position_or_digest() {
        let digest = "0f".repeat(32);
        assert_eq!(
            Wanted::parse("7"),
            Ok(Wanted::Position(ChainName::Decisions, 7))
        );
        assert_eq!(
            Wanted::parse("receipts:7"),
            Ok(Wanted::Position(ChainName::Receipts, 7))
        );
        assert!(matches!(Wanted::parse(&digest), Ok(Wanted::Digest(_))));
        for bad in ["0", "x", "others:7", "receipts:", "-1", ""] {
            assert!(Wanted::parse(bad).is_err(), "{bad}");
        }
    }
}

//! `custody ledger list`.

use std::path::Path;

use custody_ledger::reader::{Entry, Groups, ReadError};
use custody_shown::inert;
use gate::{chain::ChainName, json};

use super::{
    Trusted,
    select::{self, Filter},
};
use crate::{complain, exit::Exit, say};

/// `custody ledger list`.
///
/// # Errors
/// When the ledger or a key cannot be looked at.
pub fn list(dir: &Path, filter: &Filter, trusted: &Trusted, as_json: bool) -> anyhow::Result<Exit> {
    let keys = trusted.for_ledger(dir)?;
    let mut exit = Exit::Done;
    for (chain, ring) in [
        (ChainName::Decisions, keys.decisions),
        (ChainName::Receipts, keys.receipts),
    ] {
        if filter.chain.is_some_and(|wanted| wanted != chain) {
            continue;
        }
        if let Err(error) = list_chain(dir, chain, ring, filter, as_json) {
            match error {
                ReadError::Bad { .. } => {
                    complain(&format!("{chain}: {error}; what follows is not shown"));
                    exit = Exit::Bad;
                }
                ReadError::Files(_) | ReadError::Io { .. } => return Err(error.into()),
            }
        }
    }
    Ok(exit)
}

fn list_chain(
    dir: &Path,
    chain: ChainName,
    ring: gate::chain::keys::Keyring,
    filter: &Filter,
    as_json: bool,
) -> Result<(), ReadError> {
    let mut groups = Groups::new(dir, chain, ring)?;
    while let Some(group) = groups.next_group()? {
        let signed = group.sealed.is_some();
        for entry in group.entries.iter().filter(|entry| filter.takes(entry)) {
            say(&if as_json {
                line_json(entry, signed)
            } else {
                line(entry, signed)
            });
        }
    }
    Ok(())
}

/// One record in one line.
pub(super) fn line(entry: &Entry, signed: bool) -> String {
    let time = select::at(entry).map_or_else(|| "-".into(), super::time::shown);
    let mut line = format!(
        "{:<9} {:>7}  {time}  {}  {:<9} {}",
        entry.chain.as_str(),
        entry.place.position,
        select::session(entry).map_or("-", String::as_str),
        select::outcome(entry),
        select::tool(entry).map_or_else(|| "-".into(), inert::line),
    );
    if let Some(why) = select::why(entry) {
        line.push_str("  ");
        line.push_str(&inert::line(&cut(why)));
    }
    if !signed {
        line.push_str("  NOT SIGNED");
    }
    line
}

fn cut(text: &str) -> String {
    const MOST: usize = 100;
    let mut kept: String = text.chars().take(MOST).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}

/// The record's own line behind what is known of it: its place, and whether it is signed.
fn line_json(entry: &Entry, signed: bool) -> String {
    let fields = String::from_utf8(json::canonical(&entry.fields)).unwrap_or_default();
    format!(
        "{{\"chain\":\"{}\",\"digest\":\"{}\",\"fields\":{},\"kind\":\"{}\",\"position\":{},\"signed\":{signed}}}",
        entry.chain,
        entry.place.digest,
        inert::json(&fields),
        entry.kind,
        entry.place.position
    )
}

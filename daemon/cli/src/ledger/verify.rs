//! `custody ledger verify`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_ledger::{
    chain::{Chain, Notice},
    verify::{self, Noted, Report},
};
use custody_shown::inert;
use gate::chain::{ChainName, Found, Place, keys::KeyChange};

use super::{Trusted, journal};
use crate::{complain, exit::Exit, say};

/// `custody ledger verify`.
///
/// # Errors
/// When the ledger, a key or the noted heads cannot be looked at.
pub fn verify(
    dir: &Path,
    heads: &[(ChainName, Place)],
    noted_in: Option<&PathBuf>,
    trusted: &Trusted,
) -> anyhow::Result<Exit> {
    let mut noted = Noted {
        decisions: of(ChainName::Decisions, heads),
        receipts: of(ChainName::Receipts, heads),
    };
    if let Some(path) = noted_in {
        let count = journal::read(path, &mut noted)
            .with_context(|| format!("cannot read the heads in `{}`", path.display()))?;
        say(&format!("heads      {count} noted"));
    }
    let keys = trusted.for_ledger(dir)?;
    let report = verify::verify_with(dir, &keys, &noted)?;
    describe("decisions", &report.decisions);
    describe("receipts", &report.receipts);
    between(&report);
    if noted.decisions.is_empty() || noted.receipts.is_empty() {
        say(
            "not known  whether lines are missing at the end: only a head noted elsewhere shows \
             that. custodyd notes both in the journal, in lines `ledger head`; give them with --heads",
        );
    }
    Ok(if report.is_good() {
        say(
            "good       every line follows from the one before it, and each that is not named here is signed",
        );
        Exit::Done
    } else {
        Exit::Bad
    })
}

/// What was given for this chain.
fn of(chain: ChainName, given: &[(ChainName, Place)]) -> Vec<Place> {
    let mine = given.iter().filter(|(of, _what)| *of == chain);
    mine.map(|(_of, what)| *what).collect()
}

fn describe(name: &str, chain: &Chain) {
    say(&format!(
        "{name:9}  {} records in {} files, head {} {}",
        chain.records, chain.files, chain.head.position, chain.head.digest
    ));
    match chain.key {
        Some((key, epoch)) => say(&format!(
            "           {} checkpoints sign them up to {}; key {key}, epoch {epoch}",
            chain.checkpoints, chain.signed.position
        )),
        None => say("           no checkpoint signs any of them"),
    }
    if chain.head.position > chain.signed.position {
        say(&format!(
            "           NOT SIGNED: records {} to {}, behind the last checkpoint; a writer that runs signs \
             them within 10 ms, the next start does otherwise, and says so",
            chain.signed.position.saturating_add(1),
            chain.head.position
        ));
    }
    if chain.torn > 0 {
        say(&format!(
            "           {} bytes that are no line follow; a crash leaves that, and no signature covers them",
            chain.torn
        ));
    }
    for told in &chain.told {
        say(&match &told.what {
            Notice::Found(found) => found_in_words(told.position, found),
            Notice::Keys(change) => keys_in_words(told.position, change),
        });
    }
    if let Some(bad) = &chain.bad {
        complain(&format!("{name}: {bad}"));
    }
}

fn keys_in_words(position: u64, change: &KeyChange) -> String {
    match change {
        KeyChange::Rotated(rotation) => format!(
            "           behind {position}: key {} signs from here on, epoch {}",
            rotation.new.id(),
            rotation.epoch
        ),
        KeyChange::Certified(certificate) => format!(
            "           behind {position}: instance {} certifies {} key {}",
            certificate.says.instance,
            certificate.says.role.as_str(),
            certificate.says.key.id()
        ),
    }
}

/// What a start found at the end of a chain.
fn found_in_words(position: u64, found: &Found) -> String {
    let mut said = vec![format!("           behind {position}: a start")];
    if found.adopted > 0 {
        said.push(format!(
            "found the {} newest of these records without a signature and signed them",
            found.adopted
        ));
    }
    if found.dropped > 0 {
        said.push(format!(
            "cut off {} bytes that were no record",
            found.dropped
        ));
    }
    if let Some(lost) = found.lost {
        said.push(format!(
            "LOST records up to {} that a checkpoint had signed: what was left of them lies in a file `.lost`",
            lost.head.position
        ));
    }
    said.join("; ").replacen("start; ", "start ", 1)
}

/// What the chains say of each other.
fn between(report: &Report) {
    if report.in_doubt_count > 0 {
        say(&format!(
            "in doubt   {}: these effects may have happened, and no receipt says so",
            report.in_doubt_count
        ));
        for doubt in &report.in_doubt {
            say(&format!(
                "           record {}, session {}, tool {}, decision {}: {}",
                doubt.position,
                doubt.session,
                doubt.tool,
                doubt.decision,
                inert::line(&doubt.why)
            ));
        }
    }
    if report.decisions_lost > 0 {
        say(&format!(
            "power cut  {} receipts of idempotent effects rest on decisions that did not reach the disk; a \
             start stands in their place",
            report.decisions_lost
        ));
    }
    if report.receipts_lost > 0 {
        say(&format!(
            "power cut  {} outcomes name receipts that did not reach the disk; a start of the vault stands \
             in their place",
            report.receipts_lost
        ));
    }
    for why in &report.contradictions {
        complain(why);
    }
}

//! `custody ledger verify`.

use std::path::{Path, PathBuf};

use custody_ledger::{
    chain::Chain,
    key,
    verify::{self, Keys, Noted},
};
use gate::chain::{ChainName, Place};

use crate::{complain, exit::Exit, say};

/// `custody ledger verify`.
///
/// # Errors
/// When the ledger or a key cannot be looked at.
pub fn verify(
    dir: &Path,
    heads: &[(ChainName, Place)],
    keys: &[(ChainName, PathBuf)],
) -> anyhow::Result<Exit> {
    let noted = Noted {
        decisions: of(ChainName::Decisions, heads),
        receipts: of(ChainName::Receipts, heads),
    };
    let given = |chain| {
        let files = of(chain, keys);
        match &*files {
            [] => Keys::beside(dir, chain),
            files => files.iter().map(|file| key::read_public(file)).collect(),
        }
    };
    let keys = Keys {
        decisions: given(ChainName::Decisions)?,
        receipts: given(ChainName::Receipts)?,
    };
    let report = verify::verify_with(dir, &keys, &noted)?;
    describe("decisions", &report.decisions);
    describe("receipts", &report.receipts);
    if report.in_doubt_count > 0 {
        say(&format!(
            "in doubt   {}: these effects may have happened, and no receipt says so",
            report.in_doubt_count
        ));
        for doubt in &report.in_doubt {
            say(&format!(
                "           line {}, session {}, tool {}, decision {}: {}",
                doubt.position,
                doubt.session,
                doubt.tool,
                doubt.decision,
                crate::inert::line(&doubt.why)
            ));
        }
    }
    if noted.decisions.is_empty() || noted.receipts.is_empty() {
        say(
            "not known  whether lines are missing at the end: only a head noted elsewhere shows \
             that. custodyd notes both in the journal, in lines `ledger head`; give them with --head",
        );
    }
    Ok(if report.is_good() {
        say("good       every line follows from the one before it and is signed");
        Exit::Done
    } else {
        Exit::Bad
    })
}

/// What was given for this chain.
fn of<T: Clone>(chain: ChainName, given: &[(ChainName, T)]) -> Vec<T> {
    let mine = given.iter().filter(|(of, _what)| *of == chain);
    mine.map(|(_of, what)| what.clone()).collect()
}

fn describe(name: &str, chain: &Chain) {
    say(&format!(
        "{name:9}  {} lines in {} files, head {} {}",
        chain.lines, chain.files, chain.head.position, chain.head.digest
    ));
    if chain.torn > 0 {
        say(&format!(
            "           {} bytes of a line that was never whole follow; a crash leaves that",
            chain.torn
        ));
    }
    if let Some(bad) = &chain.bad {
        complain(&format!("{name}: {bad}"));
    }
}

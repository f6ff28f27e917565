//! `custody ledger verify`.

use std::path::Path;

use custody_ledger::{
    chain::Chain,
    verify::{self, Noted},
};

use crate::{complain, exit::Exit, say};

/// `custody ledger verify`.
///
/// # Errors
/// When the ledger cannot be looked at.
pub fn verify(dir: &Path) -> anyhow::Result<Exit> {
    let report = verify::verify(dir, &Noted::default())?;
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
    Ok(if report.is_good() {
        say("good       every line follows from the one before it and is signed");
        Exit::Done
    } else {
        Exit::Bad
    })
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

//! `custody ledger export`, and the check of what it wrote.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
};

use anyhow::Context as _;
use custody_ledger::{
    export::{ExportError, Exported, LIMITS, Redaction},
    reader::Groups,
};
use custody_shown::inert;
use gate::chain::ChainName;

use super::{Trusted, select::Filter};
use crate::{complain, exit::Exit, say};

/// `custody ledger export`, to standard output.
///
/// # Errors
/// When the ledger or a key cannot be looked at, or a record cannot be written.
pub fn export(
    dir: &Path,
    filter: &Filter,
    redact: &[String],
    trusted: &Trusted,
) -> anyhow::Result<Exit> {
    let keys = trusted.for_ledger(dir)?;
    let redaction = Redaction::of(redact);
    let mut exit = Exit::Done;
    let mut written = 0_usize;
    for chain in ChainName::ALL {
        if filter.chain.is_some_and(|wanted| wanted != chain) {
            continue;
        }
        let mut groups = Groups::new(dir, chain, keys.of_chain(chain).clone())?;
        while let Some(group) = groups.next_group()? {
            match Exported::of(&group, |entry| filter.takes(entry), &redaction) {
                Ok(parts) => {
                    for part in parts {
                        written = written.saturating_add(part.records.len());
                        let line = part.to_line().context("a group without a form")?;
                        writeln!(io::stdout().lock(), "{}", inert::json(&line))
                            .context("cannot write")?;
                    }
                }
                Err(error @ ExportError::Unsigned { .. }) => {
                    complain(&format!("{chain}: {error}"));
                    exit = Exit::Bad;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    complain(&format!("{written} records written"));
    Ok(exit)
}

/// Checks a file that `custody ledger export` wrote.
///
/// # Errors
/// When the file or a key cannot be read, or no keys were given.
pub fn verify(file: &Path, trusted: &Trusted) -> anyhow::Result<Exit> {
    let keys = trusted.for_export()?;
    let opened = File::open(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let mut reader = BufReader::new(opened);
    let most = u64::try_from(LIMITS.bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let (mut number, mut records) = (0_u64, 0_usize);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(most).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        number = number.saturating_add(1);
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let checked = Exported::read(text).and_then(|exported| {
            let opened = exported.verify(keys.of_chain(exported.chain))?;
            Ok((exported, opened))
        });
        match checked {
            Ok((exported, opened)) => {
                for record in &exported.records {
                    records = records.saturating_add(1);
                    let withheld = record.fields.withheld();
                    let withheld = if withheld.is_empty() {
                        String::new()
                    } else {
                        format!("  withheld: {}", inert::line(&withheld.join(", ")))
                    };
                    say(&format!(
                        "{:<9} {:>7}  {}  {}{withheld}",
                        record.chain.as_str(),
                        record.position,
                        record.place().digest,
                        inert::json(&record.kind)
                    ));
                }
                say(&format!(
                    "          signed by key {}, epoch {}, with {} records of the group",
                    opened.says.key,
                    opened.says.epoch,
                    opened.records.len()
                ));
            }
            Err(error) => {
                complain(&format!("line {number} of `{}`: {error}", file.display()));
                return Ok(Exit::Bad);
            }
        }
    }
    say(&format!(
        "good       {records} records were written so by who has the keys; that none is left out between them it does not say"
    ));
    Ok(Exit::Done)
}

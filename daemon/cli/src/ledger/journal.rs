//! The heads that custodyd notes in the journal: lines `ledger head` with chain, position and digest, as
//! journalctl(1) prints them, with whatever stands before.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use custody_ledger::verify::Noted;
use gate::{
    chain::{ChainName, Place},
    digest::Digest,
};

/// The most heads that are taken of each chain: a year of them, one a minute.
const HEADS_MAX: usize = 600_000;

/// Reads the heads of a file, or of standard input if it is `-`; says how many there were.
///
/// # Errors
/// When it cannot be read, or has too many.
pub fn read(path: &Path, noted: &mut Noted) -> io::Result<usize> {
    if path.as_os_str() == "-" {
        read_from(io::stdin().lock(), noted)
    } else {
        read_from(BufReader::new(File::open(path)?), noted)
    }
}

fn read_from(from: impl BufRead, noted: &mut Noted) -> io::Result<usize> {
    let mut count = 0_usize;
    for line in from.split(b'\n') {
        let line = line?;
        let Some((chain, place)) = head(&String::from_utf8_lossy(&line)) else {
            continue;
        };
        let heads = match chain {
            ChainName::Decisions => &mut noted.decisions,
            ChainName::Receipts => &mut noted.receipts,
        };
        if heads.len() >= HEADS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("more than {HEADS_MAX} heads of one chain; give the newest"),
            ));
        }
        heads.push(place);
        count = count.saturating_add(1);
    }
    Ok(count)
}

/// The head that a line notes.
fn head(line: &str) -> Option<(ChainName, Place)> {
    let (_before, said) = line.split_once("ledger head")?;
    let field = |name: &str| {
        let (_before, value) = said.split_once(name)?;
        // journalctl -o json has the line as a string: its quotes are escaped there.
        let value = value.trim_start_matches(['\\', '"']);
        let end = value.find(|c: char| !c.is_ascii_alphanumeric());
        value.get(..end.unwrap_or(value.len()))
    };
    let name = field(" chain=")?;
    let chain = ChainName::ALL.into_iter().find(|it| it.as_str() == name)?;
    let position = field(" position=")?.parse().ok().filter(|it| *it > 0)?;
    let digest = Digest::try_from(field(" digest=")?.to_owned()).ok()?;
    Some((chain, Place { digest, position }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_found_in_whatever_journalctl_prints() {
        let digest = "0f".repeat(32);
        let said = format!("INFO ledger head chain=\"receipts\" position=7 digest={digest}");
        let text = format!(
            "{said}\nNov 30 16:00:00 host custodyd[12]: {said}\n{{\"MESSAGE\":\"INFO ledger head chain=\\\"receipts\\\" position=8 digest={digest}\",\"PRIORITY\":\"6\"}}\n\
             another line\nledger head chain=\"others\" position=1 digest={digest}\nledger head chain=\"decisions\" position=0 digest={digest}\n\
             ledger head chain=\"decisions\" position=9 digest=0f\n\u{1b}[2J"
        );
        let mut noted = Noted::default();
        assert_eq!(read_from(text.as_bytes(), &mut noted).unwrap(), 3);
        let positions: Vec<u64> = noted.receipts.iter().map(|it| it.position).collect();
        assert_eq!(positions, [7, 7, 8]);
        assert!(noted.decisions.is_empty());
    }
}

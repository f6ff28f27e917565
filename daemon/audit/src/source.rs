//! The decision records of a ledger or of an export, verified before any of them is counted.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use custody_ledger::{
    export::{ExportError, Exported, LIMITS},
    keys::Keys,
    reader::{Groups, ReadError},
    verify::{Noted, VerifyError, verify_with},
};
use gate::{chain::ChainName, json::Value};
use serde::Serialize;

/// A decision record, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its position in the chain.
    pub position: u64,
    /// Its kind.
    pub kind: &'a str,
    /// What it says; what an export withholds is not there.
    pub fields: &'a Value,
}

/// What was read.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Source {
    /// Of what form it was.
    pub form: Form,
    /// How many records were given out, each of them signed.
    pub records: u64,
    /// The positions of the first and the last; 0 where there is none.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Records behind the last checkpoint: nobody signed them, and they are not counted.
    pub unsigned: u64,
    /// Bytes at the end that are no line: what a crash leaves. Not counted.
    pub torn: u64,
    /// How many of the records have something withheld.
    pub withheld: u64,
}

/// What is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// What somebody chose of a chain: what is left out nobody knows.
    Export,
    /// A whole chain.
    Ledger,
}

/// Why nothing is counted.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The ledger is not good.
    #[error(
        "the ledger is not good: {why}; `custody ledger verify` says more, and nothing of it is counted"
    )]
    Bad {
        /// The first thing that is wrong.
        why: String,
    },
    /// The kernel refused.
    #[error("cannot read `{path}`")]
    Io {
        /// What.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// A line of an export is not good.
    #[error("line {line} of `{path}`: {source}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Why.
        source: ExportError,
    },
    /// Records of an export that come twice, or not in their order.
    #[error(
        "line {line} of `{path}`: record {position} stands behind record {before}; an export has each once and in \
         order, as `custody ledger export` writes it"
    )]
    Order {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// The record.
        position: u64,
        /// The one before it.
        before: u64,
    },
    /// The chain cannot be read on.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The ledger cannot be looked at.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

/// Gives each signed decision record of the ledger in `dir` to `take`, after the whole of it was verified.
///
/// # Errors
/// When the ledger cannot be read, or is not good: then nothing was given out.
pub fn ledger(
    dir: &Path,
    keys: &Keys,
    take: &mut dyn FnMut(Record<'_>),
) -> Result<Source, SourceError> {
    let verified = verify_with(dir, keys, &Noted::default())?;
    if !verified.is_good() {
        let bad = [&verified.decisions.bad, &verified.receipts.bad];
        let why = bad.into_iter().flatten().map(ToString::to_string).next();
        let why = why.or_else(|| verified.contradictions.first().cloned());
        return Err(SourceError::Bad {
            why: why.unwrap_or_default(),
        });
    }
    let chain = verified.decisions;
    let mut source = Source {
        torn: chain.torn,
        unsigned: chain.head.position.saturating_sub(chain.signed.position),
        ..Source::of(Form::Ledger)
    };
    let mut groups = Groups::new(dir, ChainName::Decisions, keys.decisions.clone())?;
    while let Some(group) = groups.next_group()? {
        // A service may be writing: what was not there when it was verified waits for the next time.
        let known = |position: u64| position <= chain.signed.position;
        for entry in group.entries.iter().filter(|it| known(it.place.position)) {
            source.count(entry.place.position);
            take(Record {
                position: entry.place.position,
                kind: &entry.kind,
                fields: &entry.fields,
            });
        }
        if group.entries.iter().any(|it| !known(it.place.position)) {
            break;
        }
    }
    Ok(source)
}

/// Gives each decision record of a file that `custody ledger export` wrote to `take`, line by line, each
/// verified before it is given out.
///
/// # Errors
/// When a line is not good. What stood before it was given out, and is to be thrown away.
pub fn export(
    path: &Path,
    keys: &Keys,
    take: &mut dyn FnMut(Record<'_>),
) -> Result<Source, SourceError> {
    let failed = |source| SourceError::Io {
        path: path.into(),
        source,
    };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let most = u64::try_from(LIMITS.bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut source = Source::of(Form::Export);
    let (mut bytes, mut line, mut receipts) = (Vec::new(), 0_u64, 0_u64);
    loop {
        bytes.clear();
        let read = (&mut reader)
            .take(most)
            .read_until(b'\n', &mut bytes)
            .map_err(failed)?;
        if read == 0 {
            return Ok(source);
        }
        line = line.saturating_add(1);
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let exported = Exported::read(text)
            .and_then(|it| it.verify(keys.of_chain(it.chain)).map(|_opened| it))
            .map_err(|source| SourceError::Line {
                path: path.into(),
                line,
                source,
            })?;
        for record in &exported.records {
            let before = match exported.chain {
                ChainName::Decisions => source.last,
                ChainName::Receipts => receipts,
            };
            if record.position <= before {
                return Err(SourceError::Order {
                    path: path.into(),
                    line,
                    position: record.position,
                    before,
                });
            }
            if exported.chain == ChainName::Receipts {
                receipts = record.position;
                continue;
            }
            source.count(record.position);
            if !record.fields.withheld().is_empty() {
                source.withheld = source.withheld.saturating_add(1);
            }
            let shown = record.fields.shown().unwrap_or(Value::Null);
            take(Record {
                position: record.position,
                kind: &record.kind,
                fields: &shown,
            });
        }
    }
}

impl Source {
    const fn of(form: Form) -> Self {
        Self {
            form,
            records: 0,
            first: 0,
            last: 0,
            unsigned: 0,
            torn: 0,
            withheld: 0,
        }
    }

    fn count(&mut self, position: u64) {
        self.records = self.records.saturating_add(1);
        if self.first == 0 {
            self.first = position;
        }
        self.last = position;
    }
}

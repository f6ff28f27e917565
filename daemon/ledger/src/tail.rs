//! Where a chain ends, after a clean end or a crash.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use ed25519_dalek::VerifyingKey;
use gate::{
    chain::{LINE_MAX, LineError, Place, Verifier},
    digest::Digest,
    json::{self, Limits, Value},
    record::Body,
};

use crate::{
    lines::{self, Read},
    segment::{self, FilesError},
};

/// What stood at the end of the last file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tail {
    /// Whole lines only.
    Clean,
    /// A whole signed line without its line feed, which it was given.
    Completed {
        /// The line's position.
        position: u64,
    },
    /// The beginning of a line that was never whole: it has no signature, and nothing was acted
    /// on. It was cut off.
    Dropped {
        /// How many bytes.
        bytes: u64,
    },
}

/// Why a chain cannot be opened for writing. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A line is not the next good one.
    #[error(
        "line {line} of `{file}` is bad: {why}; run `custody ledger verify`, and move the chain away to begin another"
    )]
    BadLine {
        /// The file.
        file: PathBuf,
        /// Which line of it, from 1.
        line: u64,
        /// Why.
        why: String,
    },
    /// The files are not those of a chain.
    #[error(transparent)]
    Files(FilesError),
    /// The kernel refused a step.
    #[error("cannot open the chain in `{folder}`: {step}")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The step.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Another process appends to it.
    #[error("another process appends to the chain in `{folder}` (flock(2))")]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
}

/// Where to go on.
#[derive(Debug)]
pub(crate) struct End {
    /// The last file; 0 if there is none.
    pub(crate) number: u32,
    /// The newest line.
    pub(crate) head: Place,
    /// What stood behind it.
    pub(crate) tail: Tail,
    /// Bytes of the last file that are good lines with their line feeds.
    pub(crate) good: u64,
}

/// Reads the last file, every line of it, behind the last line of the file before.
pub(crate) fn scan<B: Body>(folder: &Path, key: &VerifyingKey) -> Result<End, OpenError> {
    let number = segment::count(folder).map_err(OpenError::Files)?;
    if number == 0 {
        return Ok(End {
            number,
            head: Place::START,
            tail: Tail::Clean,
            good: 0,
        });
    }
    let before = match number.checked_sub(1) {
        Some(earlier) if earlier > 0 => last_of::<B>(folder, earlier, key)?,
        Some(_) | None => Place::START,
    };
    let io = |source| OpenError::Io {
        folder: folder.into(),
        step: "read",
        source,
    };
    let path = folder.join(segment::name(number));
    let mut file = BufReader::new(segment::read(folder, number).map_err(io)?);
    let mut verifier = Verifier::new(B::CHAIN, std::slice::from_ref(key), before);
    let mut line = Vec::new();
    let mut count = 0_u64;
    let mut good = 0_u64;
    loop {
        let read = lines::next(&mut file, &mut line).map_err(io)?;
        count = count.saturating_add(1);
        let bad = |why: String| OpenError::BadLine {
            file: path.clone(),
            line: count,
            why,
        };
        let len = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let tail = match read {
            Read::End => Tail::Clean,
            Read::TooLong => return Err(bad(LineError::Long.to_string())),
            Read::Whole => {
                let _body: B = verifier.line(&line).map_err(|why| bad(why.to_string()))?;
                good = good.saturating_add(len).saturating_add(1);
                continue;
            }
            Read::Torn => match verifier.line::<B>(&line) {
                Ok(_body) => Tail::Completed {
                    position: verifier.head().position,
                },
                Err(why) if lines::is_whole(&line) => return Err(bad(why.to_string())),
                Err(_torn) => Tail::Dropped { bytes: len },
            },
        };
        return Ok(End {
            number,
            head: verifier.head(),
            tail,
            good,
        });
    }
}

/// Makes the last file end in a whole line.
pub(crate) fn repair(mut file: &File, end: &End) -> io::Result<()> {
    match end.tail {
        Tail::Clean => Ok(()),
        Tail::Completed { .. } => file.write_all(b"\n"),
        Tail::Dropped { .. } => file.set_len(end.good),
    }
}

/// The last line of a file that is not the last one: it must be whole and ours.
fn last_of<B: Body>(folder: &Path, number: u32, key: &VerifyingKey) -> Result<Place, OpenError> {
    let io = |source| OpenError::Io {
        folder: folder.into(),
        step: "read",
        source,
    };
    let bad = |why: &str| OpenError::BadLine {
        file: folder.join(segment::name(number)),
        // Counted only when it is needed: in a message.
        line: count_lines(folder, number).unwrap_or(0),
        why: why.into(),
    };
    let mut file = segment::read(folder, number).map_err(io)?;
    let len = file.metadata().map_err(io)?.len();
    let most = u64::try_from(LINE_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(2);
    let _from = file
        .seek(SeekFrom::Start(len.saturating_sub(most)))
        .map_err(io)?;
    let mut end = Vec::new();
    let _read = file.take(most).read_to_end(&mut end).map_err(io)?;
    let Some(whole) = end.strip_suffix(b"\n") else {
        return Err(bad(
            "it does not end with a line feed, and another file follows",
        ));
    };
    let line = whole.rsplit(|b| *b == b'\n').next().unwrap_or(whole);
    let Some(before) = rests_on(line) else {
        return Err(bad("it is not a line of a chain"));
    };
    let mut verifier = Verifier::new(B::CHAIN, std::slice::from_ref(key), before);
    match verifier.line::<B>(line) {
        Ok(_body) => Ok(verifier.head()),
        Err(why) => Err(bad(&why.to_string())),
    }
}

/// Which line a line says that it rests on. Its signature covers that.
fn rests_on(line: &[u8]) -> Option<Place> {
    let Ok(Value::Object(members)) = json::reparse(line, &Limits::LINE) else {
        return None;
    };
    match (members.get("position"), members.get("previous")) {
        (Some(Value::Int(position)), Some(Value::Text(previous))) => Some(Place {
            position: u64::try_from(position.get()).ok()?.checked_sub(1)?,
            digest: Digest::try_from(previous.clone()).ok()?,
        }),
        _ => None,
    }
}

fn count_lines(folder: &Path, number: u32) -> io::Result<u64> {
    let mut file = BufReader::new(segment::read(folder, number)?);
    let mut line = Vec::new();
    let mut count = 0_u64;
    while !matches!(
        lines::next(&mut file, &mut line)?,
        Read::End | Read::TooLong
    ) {
        count = count.saturating_add(1);
    }
    Ok(count)
}

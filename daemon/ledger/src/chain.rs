//! One chain, from its first line to its last, in flat memory.

use std::{
    fmt,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use ed25519_dalek::VerifyingKey;
use gate::{
    chain::{LineError, Place, Verifier},
    record::Body,
};

use crate::{
    lines::{self, Read},
    segment::{self, FilesError},
};

/// What a chain turned out to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chain {
    /// How many files were read.
    pub files: u32,
    /// How many lines are good.
    pub lines: u64,
    /// The newest good line.
    pub head: Place,
    /// The bytes of a line that was never whole, at the end of the last file: what a crash leaves.
    /// They are no part of the chain, and nothing was acted on.
    pub torn: u64,
    /// The first thing that is wrong. What follows it was not looked at.
    pub bad: Option<Bad>,
}

/// The first thing that is wrong with a chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bad {
    /// The file, or the folder.
    pub path: PathBuf,
    /// Which line of the file, from 1; none if it is not about one line.
    pub line: Option<u64>,
    /// Why: printable ASCII, however the line was changed.
    pub why: String,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.line {
            Some(line) => write!(f, "line {line} of `{path}`: {}", self.why),
            None => write!(f, "`{path}`: {}", self.why),
        }
    }
}

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) place: Place,
}

/// How much of a chain is looked at: what was there at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    files: u32,
    /// Bytes of the last one.
    len: u64,
}

/// What is there now. A file that is missing between two others ends it.
pub(crate) fn extent(folder: &Path) -> Result<(Extent, Option<FilesError>), FilesError> {
    let (files, wrong) = segment::list(folder)?;
    let len = match files {
        0 => 0,
        last => segment::read(folder, last)
            .and_then(|file| file.metadata())
            .map(|about| about.len())
            .map_err(|source| FilesError::List {
                folder: folder.into(),
                source,
            })?,
    };
    Ok((Extent { files, len }, wrong))
}

/// Verifies the chain in `folder` as far as `extent`, showing each good line to `seen`, which may
/// find it wrong for reasons of its own.
pub(crate) fn verify<B: Body>(
    folder: &Path,
    keys: &[VerifyingKey],
    (extent, wrong): (Extent, Option<FilesError>),
    mut seen: impl FnMut(At, B) -> io::Result<Result<(), String>>,
) -> io::Result<Chain> {
    let mut verifier = Verifier::new(B::CHAIN, keys, Place::START);
    let mut chain = Chain {
        files: 0,
        lines: 0,
        head: Place::START,
        torn: 0,
        bad: None,
    };
    let mut line = Vec::new();
    for file in 1..=extent.files {
        let path = folder.join(segment::name(file));
        let last = file == extent.files;
        let reader = segment::read(folder, file)?;
        let most = if last { extent.len } else { u64::MAX };
        let mut reader = BufReader::new(io::Read::take(reader, most));
        chain.files = file;
        let mut number = 0_u64;
        let mut offset = 0_u64;
        loop {
            let read = lines::next(&mut reader, &mut line)?;
            number = number.saturating_add(1);
            let len = u64::try_from(line.len()).unwrap_or(u64::MAX);
            let why = match read {
                Read::End => break,
                Read::Whole => match verifier.line::<B>(&line) {
                    Err(why) => why.to_string(),
                    Ok(body) => {
                        let place = verifier.head();
                        let at = At {
                            file,
                            offset,
                            place,
                        };
                        match seen(at, body)? {
                            Ok(()) => {
                                chain.lines = chain.lines.saturating_add(1);
                                chain.head = place;
                                offset = offset.saturating_add(len).saturating_add(1);
                                continue;
                            }
                            Err(why) => why,
                        }
                    }
                },
                Read::Torn if last && !lines::is_whole(&line) => {
                    chain.torn = len;
                    break;
                }
                Read::Torn if last => match verifier.line::<B>(&line) {
                    // A line of which only the line feed is missing: the next start gives it one.
                    Ok(_body) => {
                        chain.torn = len;
                        break;
                    }
                    Err(why) => why.to_string(),
                },
                Read::Torn => "the file ends inside this line, and another file follows".into(),
                Read::TooLong => LineError::Long.to_string(),
            };
            chain.bad = Some(Bad {
                path,
                line: Some(number),
                why: plain(&why),
            });
            return Ok(chain);
        }
    }
    chain.bad = wrong.map(|wrong| Bad {
        path: folder.into(),
        line: None,
        why: wrong.to_string(),
    });
    Ok(chain)
}

/// The longest reason in bytes. A reason may repeat a name of the line, which anyone may have
/// written.
const WHY_MAX: usize = 512;

/// `text` without anything that acts on a terminal, and not too long.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        match character {
            ' '..='~' => plain.push(character),
            _ => plain.extend(character.escape_default()),
        }
        if plain.len() > WHY_MAX {
            plain.truncate(WHY_MAX);
            plain.push_str("...");
            break;
        }
    }
    plain
}

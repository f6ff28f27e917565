//! One chain, from its first line to its last, in flat memory.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use gate::{
    chain::{
        Found, LineError, Place, Seen, Verifier,
        keys::{KeyChange, Keyring},
    },
    digest::Digest,
    record::Body,
};

use crate::{
    lines::{self, Read},
    segment::{self, FilesError},
    tail::{self, count},
};

/// What a chain turned out to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chain {
    /// How many files were read.
    pub files: u32,
    /// How many records are good.
    pub records: u64,
    /// How many checkpoints.
    pub checkpoints: u64,
    /// The newest good record.
    pub head: Place,
    /// The newest record that a checkpoint covers: what is behind it is not signed.
    pub signed: Place,
    /// The key that signs it, and its epoch; none where nothing is signed.
    pub key: Option<(Digest, u64)>,
    /// What starts found and told, and what was changed about keys: the first [`TOLD_LISTED`].
    pub told: Vec<Told>,
    /// Bytes at the end of the last file that are no line of the chain: what a crash leaves.
    /// They are no part of the chain, no signature covers them, and nothing durable rests on them.
    pub torn: u64,
    /// The first thing that is wrong. What follows it was not looked at.
    pub bad: Option<Bad>,
}

/// How many notices of one chain are kept.
pub const TOLD_LISTED: usize = 1_000;

/// What the chain says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// Behind which record.
    pub position: u64,
    /// What.
    pub what: Notice,
}

/// What the chain says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Notice {
    /// A start found its end unsigned or damaged.
    Found(Found),
    /// Keys changed, or were certified.
    Keys(Box<KeyChange>),
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

impl Extent {
    /// Whether a line that begins there is in it.
    pub(crate) const fn has(self, at: At) -> bool {
        at.file < self.files || (at.file == self.files && at.offset < self.len)
    }
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

/// Verifies a chain record by record, in flat memory.
#[derive(Debug)]
pub(crate) struct Walk<B> {
    folder: PathBuf,
    extent: Extent,
    wrong: Option<FilesError>,
    verifier: Verifier,
    reader: Option<BufReader<io::Take<File>>>,
    /// Which line of the file was read last, and where the next one begins.
    number: u64,
    offset: u64,
    line: Vec<u8>,
    chain: Chain,
    body: PhantomData<fn() -> B>,
}

impl<B: Body> Walk<B> {
    /// Of the chain in `folder` as far as `extent`.
    pub(crate) fn new(
        folder: &Path,
        ring: Keyring,
        (extent, wrong): (Extent, Option<FilesError>),
    ) -> Self {
        Self {
            folder: folder.into(),
            extent,
            wrong,
            verifier: Verifier::new(B::CHAIN, ring),
            reader: None,
            number: 0,
            offset: 0,
            line: Vec::new(),
            chain: Chain {
                files: 0,
                records: 0,
                checkpoints: 0,
                head: Place::START,
                signed: Place::START,
                key: None,
                told: Vec::new(),
                torn: 0,
                bad: None,
            },
            body: PhantomData,
        }
    }

    /// The next good record; none at the end, or where the chain is bad.
    pub(crate) fn next(&mut self) -> io::Result<Option<(At, B)>> {
        while self.chain.bad.is_none() {
            let Some(reader) = &mut self.reader else {
                if self.chain.files == self.extent.files {
                    return Ok(None);
                }
                self.begin()?;
                continue;
            };
            let read = lines::next(reader, &mut self.line)?;
            self.number = self.number.saturating_add(1);
            let last = self.chain.files == self.extent.files;
            let offset = self.offset;
            let checked = match read {
                Read::End => {
                    self.reader = None;
                    continue;
                }
                Read::TooLong => Err(LineError::Long),
                // The line feed of the very last line may be missing: the next start gives it one.
                Read::Whole | Read::Torn => self.verifier.line::<B>(&self.line),
            };
            let len = count(self.line.len());
            self.offset = offset.saturating_add(len).saturating_add(1);
            match checked {
                Ok(_) if read == Read::Torn && !last => {
                    self.fail("the file ends inside this line, and another file follows");
                }
                Ok(Seen::Record(body)) => {
                    let place = self.verifier.head();
                    self.chain.records = self.chain.records.saturating_add(1);
                    self.chain.head = place;
                    let file = self.chain.files;
                    let at = At {
                        file,
                        offset,
                        place,
                    };
                    return Ok(Some((at, body)));
                }
                Ok(Seen::Checkpoint(says)) => {
                    self.chain.checkpoints = self.chain.checkpoints.saturating_add(1);
                    self.chain.signed = says.head;
                    self.chain.key = Some((says.key, says.epoch));
                    if let Some(found) = says.found {
                        self.chain.tell(says.head.position, Notice::Found(found));
                    }
                }
                Ok(Seen::Keys(change)) => {
                    let behind = self.verifier.head().position;
                    self.chain.tell(behind, Notice::Keys(change));
                }
                Err(why) if last && tail::is_damage(&why) => self.end_or_fail(offset, &why)?,
                Err(why) => self.fail(&why.to_string()),
            }
        }
        Ok(None)
    }

    /// The position of the newest good record, as far as was read.
    pub(crate) const fn head(&self) -> u64 {
        self.chain.head.position
    }

    /// Whether something was wrong so far.
    pub(crate) const fn is_bad(&self) -> bool {
        self.chain.bad.is_some()
    }

    /// The record that was read last is wrong for a reason of the reader's own.
    pub(crate) fn fail(&mut self, why: &str) {
        self.chain.bad = Some(Bad {
            path: self.folder.join(segment::name(self.chain.files)),
            line: Some(self.number),
            why: plain(why),
        });
    }

    /// What the chain turned out to be, as far as it was read.
    pub(crate) fn finish(mut self) -> Chain {
        if self.chain.bad.is_none() {
            self.chain.bad = self.wrong.map(|wrong| Bad {
                path: self.folder,
                line: None,
                why: wrong.to_string(),
            });
        }
        self.chain
    }

    fn begin(&mut self) -> io::Result<()> {
        let file = self.chain.files.saturating_add(1);
        let most = if file == self.extent.files {
            self.extent.len
        } else {
            u64::MAX
        };
        let reader = io::Read::take(segment::read(&self.folder, file)?, most);
        self.reader = Some(BufReader::new(reader));
        self.chain.files = file;
        self.number = 0;
        self.offset = 0;
        Ok(())
    }

    /// A line of the last file that is none: what a power cut leaves, unless more than that is gone.
    fn end_or_fail(&mut self, offset: u64, why: &LineError) -> io::Result<()> {
        let rest = rest(&self.folder, self.chain.files, offset, self.extent.len)?;
        match tail::lost(&self.verifier, &rest) {
            Ok(None) => {
                self.chain.torn = count(rest.len());
                self.reader = None;
            }
            Ok(Some(lost)) => self.fail(&format!(
                "{why}; a checkpoint behind it signs everything up to position {}, so that records \
                 which were signed are not here",
                lost.position
            )),
            Err(synced) => self.fail(&format!(
                "{why}; a checkpoint behind it says that everything up to position {synced} was on \
                 disk"
            )),
        }
        Ok(())
    }
}

impl Chain {
    fn tell(&mut self, position: u64, what: Notice) {
        if self.told.len() < TOLD_LISTED {
            self.told.push(Told { position, what });
        }
    }
}

/// What stands from `offset` on in a file of which `most` bytes are looked at.
fn rest(folder: &Path, file: u32, offset: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut reader = segment::read(folder, file)?;
    let _at = io::Seek::seek(&mut reader, io::SeekFrom::Start(offset))?;
    let most = most.saturating_sub(offset).min(tail::REST_MAX);
    let mut rest = Vec::new();
    let _bytes = io::Read::read_to_end(&mut io::Read::take(reader, most), &mut rest)?;
    Ok(rest)
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

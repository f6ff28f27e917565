//! A chain for reading: every record with where it stands, whether it is signed, and its line.
//!
//! Each file of a chain begins with a checkpoint, so that a record is found and verified in its own file,
//! however long the chain is. What is only looked for in a file still verifies there, and an index says no more
//! than where to look.

use std::{
    fs::File,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use gate::{
    chain::{ChainName, LineError, Place, Sealed, Seen, Verifier, keys::Keyring, read_value},
    json::Value,
    record::{Body, Decision, Effect},
};

use crate::{
    certificates,
    lines::{self, Read},
    segment,
};

/// A record and what stands around it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its chain.
    pub chain: ChainName,
    /// Its place.
    pub place: Place,
    /// Its kind.
    pub kind: String,
    /// Its fields.
    pub fields: Value,
    /// Its line, without the line feed.
    pub line: Vec<u8>,
}

/// The records between two checkpoints, and the second one: none where no checkpoint follows.
#[derive(Clone, Debug)]
pub struct Group {
    /// The records.
    pub entries: Vec<Entry>,
    /// What signs them.
    pub sealed: Option<Sealed>,
}

/// Why a chain cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A line is not the next good one.
    #[error("line {line} of `{file}` is bad: {why}")]
    Bad {
        /// The file.
        file: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Why.
        why: LineError,
    },
    /// The folder is not one of a chain.
    #[error(transparent)]
    Files(#[from] segment::FilesError),
    /// The kernel refused.
    #[error("cannot read the chain in `{folder}`")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

/// Reads a chain, group by group, each line verified.
#[derive(Debug)]
pub struct Groups {
    folder: PathBuf,
    chain: ChainName,
    ring: Keyring,
    file: u32,
    files: u32,
    verifier: Verifier,
    reader: Option<BufReader<File>>,
    number: u64,
    line: Vec<u8>,
    entries: Vec<Entry>,
    done: bool,
}

impl Groups {
    /// From the first record of the chain in `dir` on.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn new(dir: &Path, chain: ChainName, ring: Keyring) -> Result<Self, ReadError> {
        let ring = certificates::learn(&dir.join(chain.as_str()), chain, ring);
        Self::knowing(dir, chain, ring)
    }

    /// As [`Groups::new`], where `ring` has what is certified in the chain already: looking for that reads
    /// the whole of it.
    pub(crate) fn knowing(dir: &Path, chain: ChainName, ring: Keyring) -> Result<Self, ReadError> {
        let folder = dir.join(chain.as_str());
        let files = segment::count(&folder)?;
        Ok(Self {
            verifier: Verifier::new(chain, ring.clone()),
            folder,
            chain,
            ring,
            file: 0,
            files,
            reader: None,
            number: 0,
            line: Vec::new(),
            entries: Vec::new(),
            done: false,
        })
    }

    /// Only the file that has the record at `position`, for a ring as in [`Groups::knowing`]. None where the
    /// chain has none.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn at(
        dir: &Path,
        chain: ChainName,
        ring: Keyring,
        position: u64,
    ) -> Result<Option<Self>, ReadError> {
        let mut groups = Self::knowing(dir, chain, ring)?;
        // The last file that begins before it: files stand in the order of their positions.
        let (mut low, mut high) = (1_u32, groups.files);
        while low < high {
            let middle = low.saturating_add(high.saturating_sub(low).div_ceil(2));
            match groups.begins_behind(middle)? {
                Some(behind) if behind < position => low = middle,
                Some(_) | None => high = middle.saturating_sub(1),
            }
        }
        if groups.files == 0 {
            return Ok(None);
        }
        groups.only(low)?;
        Ok(Some(groups))
    }

    /// Only this file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn only(&mut self, file: u32) -> Result<(), ReadError> {
        self.file = file.saturating_sub(1);
        self.files = file.min(self.files);
        Ok(())
    }

    /// How many files there are.
    pub const fn files(&self) -> u32 {
        self.files
    }

    /// Behind which position a file begins: what its first line says, believed here, verified when it is read.
    fn begins_behind(&self, file: u32) -> Result<Option<u64>, ReadError> {
        let mut reader = BufReader::new(segment::read(&self.folder, file).map_err(self.io())?);
        let mut line = Vec::new();
        let read = lines::next(&mut reader, &mut line).map_err(self.io())?;
        Ok((read == Read::Whole)
            .then(|| gate::chain::rests_on(&line))
            .flatten()
            .map(|tip| tip.head.position))
    }

    fn io(&self) -> impl Fn(io::Error) -> ReadError + use<> {
        let folder = self.folder.clone();
        move |source| ReadError::Io {
            folder: folder.clone(),
            source,
        }
    }

    /// The next group; none at the end.
    ///
    /// # Errors
    /// When a line is not good.
    pub fn next_group(&mut self) -> Result<Option<Group>, ReadError> {
        while !self.done {
            let Some(reader) = &mut self.reader else {
                if !self.begin()? {
                    self.done = true;
                }
                continue;
            };
            let read = lines::next(reader, &mut self.line).map_err(self.io())?;
            self.number = self.number.saturating_add(1);
            if read == Read::End {
                self.reader = None;
                continue;
            }
            let group = self.verifier.unsigned().to_vec();
            let seen = match read {
                Read::TooLong => Err(LineError::Long),
                Read::End | Read::Torn | Read::Whole => self.check(),
            };
            match seen {
                Ok(Some(_checkpoint)) => {
                    let sealed = Sealed::of(&self.line, &group).map_err(|why| self.bad(why))?;
                    let entries = std::mem::take(&mut self.entries);
                    if !entries.is_empty() {
                        let sealed = Some(sealed);
                        return Ok(Some(Group { entries, sealed }));
                    }
                }
                Ok(None) => {}
                // Verifying says what that is; here it is the end.
                Err(why) if self.file == self.files && crate::tail::is_damage(&why) => {
                    self.reader = None;
                    self.done = true;
                }
                Err(why) => {
                    self.done = true;
                    return Err(self.bad(why));
                }
            }
        }
        let entries = std::mem::take(&mut self.entries);
        Ok((!entries.is_empty()).then_some(Group {
            entries,
            sealed: None,
        }))
    }

    /// Verifies the line; a record is kept. Some if it is a checkpoint.
    fn check(&mut self) -> Result<Option<()>, LineError> {
        fn sort<B: Body>(seen: Seen<B>) -> Seen<()> {
            match seen {
                Seen::Checkpoint(says) => Seen::Checkpoint(says),
                Seen::Keys(change) => Seen::Keys(change),
                Seen::Record(_) => Seen::Record(()),
            }
        }
        let seen = match self.chain {
            ChainName::Decisions => self.verifier.line::<Decision>(&self.line).map(sort)?,
            ChainName::Receipts => self.verifier.line::<Effect>(&self.line).map(sort)?,
        };
        match seen {
            Seen::Checkpoint(_) => Ok(Some(())),
            Seen::Keys(_) => Ok(None),
            Seen::Record(()) => {
                if let Some((kind, fields)) = read_value(&self.line)? {
                    self.entries.push(Entry {
                        chain: self.chain,
                        place: self.verifier.head(),
                        kind,
                        fields,
                        line: self.line.clone(),
                    });
                }
                Ok(None)
            }
        }
    }

    fn begin(&mut self) -> Result<bool, ReadError> {
        if self.file >= self.files {
            return Ok(false);
        }
        let first = self.file == 0;
        self.file = self.file.saturating_add(1);
        self.number = 0;
        let file = segment::read(&self.folder, self.file).map_err(self.io())?;
        let mut reader = BufReader::new(file);
        // In the middle of a chain the first line says what it rests on.
        if !first && self.verifier.head() == Place::START {
            let read = lines::next(&mut reader, &mut self.line).map_err(self.io())?;
            self.number = 1;
            if read != Read::Whole {
                return Ok(false);
            }
            self.verifier = Verifier::behind(self.chain, self.ring.clone(), &self.line)
                .map_err(|why| self.bad(why))?;
        }
        self.reader = Some(reader);
        Ok(true)
    }

    fn bad(&self, why: LineError) -> ReadError {
        ReadError::Bad {
            file: self.folder.join(segment::name(self.file)),
            line: self.number,
            why,
        }
    }
}

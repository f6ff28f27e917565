//! Where a chain ends, after a clean end, a crash or a power cut.
//!
//! What a checkpoint says was on disk must be there, or the chain is not opened. Behind that, what is
//! whole and rests on the line before is kept, signed or not; the rest never was durable, and is cut off.
//! Either is told: to the caller, and in the chain by its next checkpoint.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use gate::{
    chain::{Found, LineError, Lost, Place, Seen, Verifier, keys::Keyring},
    record::Body,
};
use nix::fcntl::OFlag;

use crate::{
    lines::{self, Read},
    segment::{self, FilesError},
};

/// What stood at the end of the last file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tail {
    /// So many whole records without a signature, which were kept.
    pub adopted: u64,
    /// So many bytes that were no whole record of the chain, which were cut off.
    pub dropped: u64,
    /// The newest record that a checkpoint had signed and whose way to disk had not ended: it, or one
    /// before it, was not whole. The bytes lie in a file `.lost` beside.
    pub lost: Option<Place>,
}

impl Tail {
    /// A clean end: everything signed.
    pub const CLEAN: Self = Self {
        adopted: 0,
        dropped: 0,
        lost: None,
    };
}

impl From<Tail> for Found {
    fn from(tail: Tail) -> Self {
        Self {
            adopted: tail.adopted,
            dropped: tail.dropped,
            lost: tail.lost.map(|head| Lost { head }),
        }
    }
}

/// Why a chain cannot be opened for writing. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was found cannot be told in the chain.
    #[error("cannot write to the chain in `{folder}`")]
    Append {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        error: Box<crate::writer::AppendError>,
    },
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
    /// What is behind its last good line.
    pub(crate) verifier: Verifier,
    /// That line is signed: a checkpoint, and not one about keys.
    pub(crate) is_signed: bool,
    /// What stood behind it.
    pub(crate) tail: Tail,
    /// Bytes of the last file that are good lines with their line feeds.
    good: u64,
    /// The last good line lacks its line feed.
    lacks_line_feed: bool,
    /// What is cut off is more than the beginning of one line: it is kept beside.
    aside: bool,
}

/// One file, read as far as it is good.
struct Scanned {
    end: Good,
    /// The same behind its last checkpoint.
    signed: Good,
    /// Why the next line is not good.
    bad: Option<LineError>,
}

/// How far a file is good.
#[derive(Clone)]
struct Good {
    verifier: Verifier,
    bytes: u64,
    lines: u64,
    is_signed: bool,
    lacks_line_feed: bool,
}

/// Reads the last file, every line of it.
pub(crate) fn scan<B: Body>(folder: &Path, ring: Keyring) -> Result<End, OpenError> {
    let number = segment::count(folder).map_err(OpenError::Files)?;
    let io = |source| OpenError::Io {
        folder: folder.into(),
        step: "read",
        source,
    };
    let fresh = Verifier::new(B::CHAIN, ring.clone());
    if number == 0 {
        return Ok(End {
            number,
            verifier: fresh,
            is_signed: true,
            tail: Tail::CLEAN,
            good: 0,
            lacks_line_feed: false,
            aside: false,
        });
    }
    let scanned = match beginning(B::CHAIN, folder, number, &ring).map_err(io)? {
        Some((verifier, offset)) => read::<B>(folder, number, verifier, offset).map_err(io)?,
        // The power went while the file was begun: the one before it ends in a checkpoint, whole.
        None => {
            let earlier = number.saturating_sub(1);
            let before = match beginning(B::CHAIN, folder, earlier, &ring).map_err(io)? {
                Some((verifier, offset)) => {
                    read::<B>(folder, earlier, verifier, offset).map_err(io)?
                }
                None => {
                    return Err(unfit(
                        folder,
                        earlier,
                        1,
                        &"its first line is no checkpoint",
                    ));
                }
            };
            let end = before.end;
            if let Some(why) = before.bad {
                return Err(unfit(folder, earlier, end.lines.saturating_add(1), &why));
            }
            if !end.is_signed || end.lacks_line_feed {
                let why = "it does not end in a checkpoint, and another file follows";
                return Err(unfit(folder, earlier, end.lines, &why));
            }
            read::<B>(folder, number, end.verifier, 0).map_err(io)?
        }
    };
    ended(folder, number, scanned)
}

/// What stands behind the good lines of the last file, and whether it may be cut off.
fn ended(folder: &Path, number: u32, scanned: Scanned) -> Result<End, OpenError> {
    let io = |source| OpenError::Io {
        folder: folder.into(),
        step: "read",
        source,
    };
    let Scanned { end, signed, bad } = scanned;
    let line = end.lines.saturating_add(1);
    let Some(why) = bad else {
        return Ok(End::of(number, end, &[], None));
    };
    if !is_damage(&why) {
        return Err(unfit(folder, number, line, &why));
    }
    let rest = rest_of(folder, number, end.bytes).map_err(io)?;
    let lost = lost(&end.verifier, &rest).map_err(|synced| {
        let says = "a later checkpoint says that everything was on disk up to position";
        unfit(folder, number, line, &format!("{why}; {says} {synced}"))
    })?;
    // A checkpoint, or a line that rests on another one than is there, says that what is behind the last
    // checkpoint is not what was written: then none of it is kept.
    let contradicted = matches!(why, LineError::Checkpoint { .. } | LineError::Previous);
    if lost.is_some() || contradicted {
        let rest = rest_of(folder, number, signed.bytes).map_err(io)?;
        return Ok(End::of(number, signed, &rest, lost));
    }
    Ok(End::of(number, end, &rest, None))
}

impl End {
    fn of(number: u32, good: Good, rest: &[u8], lost: Option<Place>) -> Self {
        Self {
            number,
            tail: Tail {
                adopted: count(good.verifier.unsigned().len()),
                dropped: count(rest.len()),
                lost,
            },
            is_signed: good.is_signed,
            verifier: good.verifier,
            good: good.bytes,
            lacks_line_feed: good.lacks_line_feed,
            aside: rest.contains(&b'\n'),
        }
    }
}

/// The newest record of a checkpoint in `rest` that is not among the good ones; or, as an error, up to
/// where such a checkpoint says that everything was on disk, if that is not here.
pub(crate) fn lost(verifier: &Verifier, rest: &[u8]) -> Result<Option<Place>, u64> {
    let signed = verifier.signed_in(rest);
    let covered = verifier.signed().position;
    if let Some(synced) = signed.iter().map(|it| it.synced).max()
        && synced > covered
    {
        return Err(synced);
    }
    Ok(signed
        .into_iter()
        .map(|it| it.head)
        .filter(|it| !verifier.unsigned().contains(it))
        .max_by_key(|it| it.position))
}

/// Whether a power cut can leave it. What another version or another key wrote is none of its doing.
pub(crate) const fn is_damage(why: &LineError) -> bool {
    match why {
        LineError::Checkpoint { .. }
        | LineError::Json(_)
        | LineError::Long
        | LineError::Position { .. }
        | LineError::Previous
        | LineError::Rotation { .. }
        | LineError::Signature
        | LineError::Unsigned => true,
        LineError::Body(_)
        | LineError::Certificate { .. }
        | LineError::Chain { .. }
        | LineError::Epoch { .. }
        | LineError::Format { .. }
        | LineError::Key { .. }
        | LineError::Replaced { .. }
        | LineError::Revoked { .. } => false,
    }
}

/// A verifier for the lines of a file, and where they begin; none where the first line of one that is not
/// the first does not say what it rests on.
fn beginning(
    chain: gate::chain::ChainName,
    folder: &Path,
    number: u32,
    ring: &Keyring,
) -> io::Result<Option<(Verifier, u64)>> {
    if number <= 1 {
        return Ok(Some((Verifier::new(chain, ring.clone()), 0)));
    }
    let mut line = Vec::new();
    let mut file = BufReader::new(segment::read(folder, number)?);
    if lines::next(&mut file, &mut line)? != Read::Whole {
        return Ok(None);
    }
    let behind = Verifier::behind(chain, ring.clone(), &line);
    Ok(behind
        .ok()
        .map(|verifier| (verifier, count(line.len()).saturating_add(1))))
}

fn read<B: Body>(
    folder: &Path,
    number: u32,
    mut verifier: Verifier,
    offset: u64,
) -> io::Result<Scanned> {
    let mut file = BufReader::new(segment::read(folder, number)?);
    let _at = file.seek(SeekFrom::Start(offset))?;
    let mut line = Vec::new();
    let mut end = Good {
        verifier: verifier.clone(),
        bytes: offset,
        lines: u64::from(offset > 0),
        is_signed: true,
        lacks_line_feed: false,
    };
    let mut signed = end.clone();
    loop {
        let read = lines::next(&mut file, &mut line)?;
        let checked = match read {
            Read::End => break,
            Read::TooLong => Err(LineError::Long),
            Read::Whole | Read::Torn => verifier.line::<B>(&line),
        };
        match checked {
            Ok(seen) => {
                end.is_signed = matches!(seen, Seen::Checkpoint(_));
                end.lacks_line_feed = read == Read::Torn;
                end.lines = end.lines.saturating_add(1);
                let feed = u64::from(read == Read::Whole);
                let len = count(line.len()).saturating_add(feed);
                end.bytes = end.bytes.saturating_add(len);
                if end.is_signed {
                    end.verifier.clone_from(&verifier);
                    signed = end.clone();
                }
            }
            Err(why) => {
                end.verifier = verifier;
                return Ok(Scanned {
                    end,
                    signed,
                    bad: Some(why),
                });
            }
        }
    }
    end.verifier = verifier;
    Ok(Scanned {
        end,
        signed,
        bad: None,
    })
}

/// The bytes of a file from `offset` on: no more than a file has, since a writer ends it before.
fn rest_of(folder: &Path, number: u32, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = segment::read(folder, number)?;
    let _at = file.seek(SeekFrom::Start(offset))?;
    let mut rest = Vec::new();
    let _bytes = file.take(REST_MAX).read_to_end(&mut rest)?;
    Ok(rest)
}

/// The most that is read of what is not good: eight times what a file has.
pub(crate) const REST_MAX: u64 = 64 << 20;

/// Makes the last file end in a whole line.
pub(crate) fn repair(folder: &Path, mut file: &File, end: &End) -> io::Result<()> {
    if end.tail.dropped > 0 {
        if end.aside {
            set_aside(folder, end)?;
        }
        file.set_len(end.good)?;
    }
    if end.lacks_line_feed {
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Keeps what is cut off: nobody acted on it, and somebody may want to see it.
fn set_aside(folder: &Path, end: &End) -> io::Result<()> {
    let rest = rest_of(folder, end.number, end.good)?;
    let path = folder.join(segment::lost_name(end.number, end.good));
    let mut aside = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    aside.write_all(&rest)?;
    aside.sync_all()?;
    File::open(folder)?.sync_all()
}

fn unfit(folder: &Path, number: u32, line: u64, why: &dyn ToString) -> OpenError {
    OpenError::BadLine {
        file: folder.join(segment::name(number)),
        line,
        why: why.to_string(),
    }
}

pub(crate) fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

//! The one who appends: a folder, a lock, the last file and the head.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::Arc,
};

use ed25519_dalek::SigningKey;
use gate::{
    chain::{self, LINE_MAX, Place},
    json::JsonError,
    record::Body,
};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::{
    segment,
    sync::{Durability, SyncError, Syncer},
    tail::{self, OpenError, Tail},
};

/// A file is closed and the next one begun before it grows over this: what a start reads and
/// checks again in about a second.
pub const FILE_BYTES: u64 = 8 << 20;

/// Why a line was not appended. Nothing may be acted on.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The body has no RFC 8785 form, or too long a one.
    #[error("the record has no form as a line: {0}")]
    Body(JsonError),
    /// Writing failed half-way, and the file could not be cut back.
    #[error(
        "the chain in `{folder}` ends in half a line since an earlier failure; it must be opened again"
    )]
    Broken {
        /// The folder.
        folder: PathBuf,
    },
    /// The next file cannot be made.
    #[error("cannot begin the next file in `{folder}`")]
    Rotate {
        /// The folder.
        folder: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An earlier line did not reach the disk.
    #[error("an earlier line is not on disk")]
    Sync(#[source] SyncError),
    /// write(2) failed: the disk is full, most likely.
    #[error("cannot write to the chain in `{folder}`")]
    Write {
        /// The folder.
        folder: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Appends to a chain of `B`. There is one of it for each folder (flock(2) on the folder itself).
#[derive(Debug)]
pub struct Writer<B> {
    folder: PathBuf,
    key: SigningKey,
    file: Arc<File>,
    number: u32,
    /// Bytes of the current file: whole lines.
    len: u64,
    head: Place,
    file_bytes: u64,
    broken: bool,
    syncer: Syncer,
    body: PhantomData<fn(&B)>,
    _lock: Flock<File>,
}

impl<B: Body> Writer<B> {
    /// Opens the chain in `folder`, or begins it there. The last file is read and checked with
    /// `key`; what was found at its end is said beside the writer.
    ///
    /// # Errors
    /// When another writer has it, or the last file is not the end of a chain of this key.
    pub fn open(folder: &Path, key: SigningKey) -> Result<(Self, Tail), OpenError> {
        Self::open_with(folder, key, FILE_BYTES)
    }

    /// As [`Writer::open`], with files of about `file_bytes`.
    ///
    /// # Errors
    /// As [`Writer::open`].
    pub fn open_with(
        folder: &Path,
        key: SigningKey,
        file_bytes: u64,
    ) -> Result<(Self, Tail), OpenError> {
        let io = |step| {
            move |source| OpenError::Io {
                folder: folder.into(),
                step,
                source,
            }
        };
        let lock = lock(folder)?;
        let end = tail::scan::<B>(folder, &key.verifying_key())?;
        let file = match end.number {
            0 => segment::create(folder, 1).map_err(io("create"))?,
            number => segment::append(folder, number).map_err(io("open"))?,
        };
        tail::repair(&file, &end).map_err(io("repair"))?;
        let len = file.metadata().map_err(io("stat"))?.len();
        // What is built on from here is on disk: the end of the last run may not have been.
        file.sync_all().map_err(io("fsync"))?;
        let file = Arc::new(file);
        let syncer = Syncer::start(Arc::clone(&file), end.head).map_err(io("thread"))?;
        let writer = Self {
            folder: folder.into(),
            key,
            file,
            number: end.number.max(1),
            len,
            head: end.head,
            file_bytes,
            broken: false,
            syncer,
            body: PhantomData,
            _lock: lock,
        };
        Ok((writer, end.tail))
    }

    /// The newest line, on disk or not.
    pub const fn head(&self) -> Place {
        self.head
    }

    /// Says when a line is on disk.
    pub fn durability(&self) -> Durability {
        self.syncer.durability()
    }

    /// Signs `body` as the next line and writes it with write(2): from here a crash of this
    /// process cannot lose it. It is on disk within [`crate::sync::DELAY`], or when awaited.
    ///
    /// # Errors
    /// When the line is not written. The chain then stands as it was.
    pub fn append(&mut self, body: &B) -> Result<Place, AppendError> {
        if self.broken {
            return Err(AppendError::Broken {
                folder: self.folder.clone(),
            });
        }
        self.syncer.check().map_err(AppendError::Sync)?;
        let (line, head) = chain::append(&self.head, &self.key, body).map_err(AppendError::Body)?;
        if line.len().saturating_sub(1) > LINE_MAX {
            return Err(AppendError::Body(JsonError::Bytes {
                found: line.len(),
                most: LINE_MAX,
            }));
        }
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.len > 0 && self.len.saturating_add(bytes) > self.file_bytes {
            self.rotate()?;
        }
        if let Err(source) = (&*self.file).write_all(&line) {
            // Half a line was never acted on; it goes, so that the next one stands alone.
            self.broken = self.file.set_len(self.len).is_err();
            return Err(AppendError::Write {
                folder: self.folder.clone(),
                source,
            });
        }
        self.len = self.len.saturating_add(bytes);
        self.head = head;
        self.syncer.written(head);
        Ok(head)
    }

    fn rotate(&mut self) -> Result<(), AppendError> {
        self.durability().sync().map_err(AppendError::Sync)?;
        let number = self.number.saturating_add(1);
        let file = segment::create(&self.folder, number).map_err(|source| AppendError::Rotate {
            folder: self.folder.clone(),
            source,
        })?;
        self.file = Arc::new(file);
        self.number = number;
        self.len = 0;
        self.syncer.rotated(Arc::clone(&self.file));
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<Flock<File>, OpenError> {
    let io = |source| OpenError::Io {
        folder: folder.into(),
        step: "open",
        source,
    };
    if !fs::symlink_metadata(folder).map_err(io)?.is_dir() {
        return Err(io(io::ErrorKind::NotADirectory.into()));
    }
    let file = File::open(folder).map_err(io)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_file, errno)| {
        if errno == Errno::EWOULDBLOCK {
            OpenError::Locked {
                folder: folder.into(),
            }
        } else {
            io(errno.into())
        }
    })
}

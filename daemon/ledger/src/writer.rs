//! The one who appends: a folder, a lock, the last file and the tip.

use std::{
    fs::{self, File},
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::Arc,
};

use ed25519_dalek::{SigningKey, VerifyingKey};
use gate::{
    chain::{
        Found, Place,
        keys::{Certificate, Keyring},
    },
    digest::Digest,
    json::JsonError,
    record::Body,
};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::{
    key::{self, KeyError},
    pen::Pen,
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
    /// A certificate of another key, or for another chain.
    #[error("the certificate is of key {key} and its role, which do not sign this chain")]
    Certificate {
        /// The key's id.
        key: Digest,
    },
    /// The kernel gave no random bytes.
    #[error("getrandom(2) failed: {why}")]
    Random {
        /// Its words.
        why: String,
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
    /// write(2) or fallocate(2) failed: the disk is full, most likely.
    #[error("cannot write to the chain in `{folder}`")]
    Write {
        /// The folder.
        folder: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Why a chain and its key cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The chain.
    #[error(transparent)]
    Chain(OpenError),
    /// The key.
    #[error(transparent)]
    Key(KeyError),
}

/// Appends to a chain of `B`. There is one of it for each folder (flock(2) on the folder itself).
#[derive(Debug)]
pub struct Writer<B> {
    file_bytes: u64,
    syncer: Syncer,
    body: PhantomData<fn(&B)>,
    _lock: Flock<File>,
}

impl<B: Body> Writer<B> {
    /// Opens the chain in `folder`, or begins it there. The last file is read and checked with
    /// `key`; what was found at its end is said beside the writer, and in the chain.
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
        Self::open_rotating(folder, key, None, file_bytes)
    }

    /// As [`Writer::open`]; from here on `next` signs, if it is there. A rotation that an earlier start
    /// began and did not end is gone on with.
    ///
    /// # Errors
    /// As [`Writer::open`].
    pub fn open_rotating(
        folder: &Path,
        key: SigningKey,
        next: Option<SigningKey>,
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
        let own: Vec<_> = [Some(&key), next.as_ref()]
            .into_iter()
            .flatten()
            .map(SigningKey::verifying_key)
            .collect();
        let end = tail::scan::<B>(folder, Keyring::of(&own))?;
        let file = match end.number {
            0 => segment::create(folder, 1).map_err(io("create"))?,
            number => segment::append(folder, number).map_err(io("open"))?,
        };
        tail::repair(folder, &file, &end).map_err(io("repair"))?;
        let len = file.metadata().map_err(io("stat"))?.len();
        // What is built on from here is on disk: the end of the last run may not have been.
        file.sync_all().map_err(io("fsync"))?;
        let verifier = &end.verifier;
        let rotated = next.as_ref().is_some_and(|next| {
            let id = gate::chain::key_id(&next.verifying_key());
            verifier.current().is_some_and(|(key, _epoch)| key == id)
        });
        let (key, next) = match next {
            Some(next) if rotated => (next, None),
            other => (key, other),
        };
        let mut pen = Pen {
            folder: folder.into(),
            chain: B::CHAIN,
            key,
            epoch: verifier.current().map_or(1, |(_key, epoch)| epoch),
            file: Arc::new(file),
            number: end.number.max(1),
            len,
            reserved: 0,
            tip: verifier.tip(),
            group: verifier.unsigned().to_vec(),
            unsigned: !end.is_signed,
            since: verifier.signed().position,
            synced: verifier.signed().position,
            said_synced: verifier.signed().position,
            broken: false,
        };
        let written = |error| OpenError::Append {
            folder: folder.into(),
            error: Box::new(error),
        };
        let found = Found::from(end.tail);
        if found != Found::default() || !pen.is_signed() || (len == 0 && pen.number > 1) {
            let found = Some(found).filter(|found| *found != Found::default());
            pen.checkpoint(found).map_err(written)?;
        }
        if let Some(next) = next {
            pen.rotate_key(next).map_err(written)?;
        }
        pen.file.sync_all().map_err(io("fsync"))?;
        pen.synced = pen.since;
        if rotated || pen.epoch != verifier.current().map_or(1, |(_key, epoch)| epoch) {
            // A file of its own, whose first line the new key signs: the next start needs no other.
            pen.next_file().map_err(written)?;
            pen.file.sync_all().map_err(io("fsync"))?;
        }
        let syncer = Syncer::start(pen).map_err(io("thread"))?;
        let writer = Self {
            file_bytes,
            syncer,
            body: PhantomData,
            _lock: lock,
        };
        Ok((writer, end.tail))
    }

    /// Opens the chain in `folder` with the key at `private`, whose public half is at `public`; another one signs
    /// from here on if the operator wants that ([`crate::key::load_or_rotate`]).
    ///
    /// # Errors
    /// When the key cannot be had, or the chain cannot be opened.
    pub fn open_signing(
        folder: &Path,
        private: &Path,
        public: &Path,
    ) -> Result<(Self, Tail, VerifyingKey), StartError> {
        let signing = key::load_or_rotate(private, public).map_err(StartError::Key)?;
        let next = signing.next.clone();
        let signs = next.as_ref().unwrap_or(&signing.key).verifying_key();
        let (writer, tail) = Self::open_rotating(folder, signing.key.clone(), next, FILE_BYTES)
            .map_err(StartError::Chain)?;
        key::rotated(private, public, &signing, writer.syncer.epoch()).map_err(StartError::Key)?;
        Ok((writer, tail, signs))
    }

    /// The newest record, on disk or not.
    pub fn head(&self) -> Place {
        self.syncer.head()
    }

    /// Says when a record is signed and on disk.
    pub fn durability(&self) -> Durability {
        self.syncer.durability()
    }

    /// Appends `body` as the next record and writes it with write(2): from here a crash of this
    /// process cannot lose it. It is signed and on disk within [`crate::sync::DELAY`], or when awaited.
    ///
    /// # Errors
    /// When the line is not written. The chain then stands as it was.
    pub fn append(&mut self, body: &B) -> Result<Place, AppendError> {
        match self.syncer.append(body, self.file_bytes)? {
            Some(place) => Ok(place),
            None => {
                self.durability().sync().map_err(AppendError::Sync)?;
                self.syncer.next_file()?;
                // An empty file takes a line however long it is.
                let placed = self.syncer.append(body, u64::MAX)?;
                placed.ok_or(AppendError::Body(JsonError::NotCanonical))
            }
        }
    }

    /// Keeps a certificate in the chain. It is signed and on disk as a record is.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn certificate(&mut self, certificate: Certificate) -> Result<(), AppendError> {
        self.syncer.certificate(certificate)
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

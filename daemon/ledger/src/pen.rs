//! The end of a chain that is being written: records and checkpoints are appended here, one after the
//! other.
//!
//! Before a record there is room for it *and* for the checkpoint behind it (fallocate(2)), so that a disk
//! that is full refuses the record, and never leaves one that cannot be signed.

use std::{
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use ed25519_dalek::SigningKey;
use gate::{
    chain::{
        self, ChainName, Checkpoint, Found, GROUP_MAX, Place, Salt, Tip, key_id,
        keys::{self, Certificate},
    },
    json::JsonError,
    record::Body,
};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
};

use crate::{segment, writer::AppendError};

/// How much is reserved at once: about a thousand records.
const STEP: u64 = 1 << 20;

/// More than any checkpoint has: some 600 bytes, 900 with what a start found.
const CHECKPOINT_BYTES: u64 = 2 << 10;

/// The end of a chain.
#[derive(Debug)]
pub(crate) struct Pen {
    pub(crate) folder: PathBuf,
    pub(crate) chain: ChainName,
    pub(crate) key: SigningKey,
    pub(crate) epoch: u64,
    pub(crate) file: Arc<File>,
    pub(crate) number: u32,
    /// Bytes of the current file: whole lines.
    pub(crate) len: u64,
    /// Up to which byte of it there is room on disk; [`u64::MAX`] where the file system cannot reserve.
    pub(crate) reserved: u64,
    pub(crate) tip: Tip,
    /// The records behind the last checkpoint.
    pub(crate) group: Vec<Place>,
    /// A line stands behind it that is no record.
    pub(crate) unsigned: bool,
    /// The position of the last checkpoint.
    pub(crate) since: u64,
    /// Up to which position everything is on disk.
    pub(crate) synced: u64,
    /// What the last checkpoint says of that.
    pub(crate) said_synced: u64,
    /// The end of the file may be half a line.
    pub(crate) broken: bool,
}

impl Pen {
    /// Appends a record, made as a line already with [`Pen::line`].
    pub(crate) fn record(&mut self, line: &[u8], tip: Tip) -> Result<(), AppendError> {
        self.reserve(line.len())?;
        self.write(line)?;
        self.tip = tip;
        self.group.push(tip.head);
        Ok(())
    }

    /// The next line with `body`. A group that is full is signed first, since the line rests on that.
    pub(crate) fn line<B: Body>(&mut self, body: &B) -> Result<(Vec<u8>, Tip), AppendError> {
        if self.group.len() >= GROUP_MAX {
            self.checkpoint(None)?;
        }
        let mut salt = Salt([0; Salt::BYTES]);
        getrandom::fill(&mut salt.0).map_err(|error| AppendError::Random {
            why: error.to_string(),
        })?;
        chain::append(&self.tip, &salt, body).map_err(AppendError::Body)
    }

    /// Whether something stands behind the last checkpoint.
    pub(crate) fn is_signed(&self) -> bool {
        self.group.is_empty() && !self.unsigned
    }

    /// Signs what stands behind the last checkpoint.
    pub(crate) fn checkpoint(&mut self, found: Option<Found>) -> Result<(), AppendError> {
        let head = self.tip.head;
        let mut says = Checkpoint::by(&self.key, self.epoch, head, self.since, self.synced);
        says.found = found;
        let (line, tip) = chain::checkpoint(self.chain, &self.tip, &says, &self.group, &self.key)
            .map_err(AppendError::Body)?;
        self.write(&line)?;
        self.tip = tip;
        self.group.clear();
        self.unsigned = false;
        self.since = head.position;
        self.said_synced = self.synced;
        Ok(())
    }

    /// Keeps a certificate in the chain, of the key that signs it and no other.
    pub(crate) fn certificate(&mut self, certificate: Certificate) -> Result<(), AppendError> {
        let says = &certificate.says;
        let own = key_id(&self.key.verifying_key());
        if says.key.id() != own || !says.role.signs(self.chain) {
            return Err(AppendError::Certificate { key: says.key.id() });
        }
        let made = keys::certified(self.chain, &self.tip, certificate);
        self.keys(made)
    }

    /// From here on `new` signs.
    pub(crate) fn rotate_key(&mut self, new: SigningKey) -> Result<(), AppendError> {
        if !self.is_signed() {
            self.checkpoint(None)?;
        }
        let epoch = self.epoch.saturating_add(1);
        let made = keys::rotate(self.chain, &self.tip, epoch, (&self.key, &new));
        self.keys(made)?;
        self.key = new;
        self.epoch = epoch;
        self.checkpoint(None)
    }

    fn keys(&mut self, made: Result<(Vec<u8>, Tip), JsonError>) -> Result<(), AppendError> {
        let (line, tip) = made.map_err(AppendError::Body)?;
        self.reserve(line.len())?;
        self.write(&line)?;
        self.tip = tip;
        self.unsigned = true;
        Ok(())
    }

    /// Goes on in the next file, whose first line is a checkpoint: it says by itself what it rests on.
    /// Everything before is signed and on disk.
    pub(crate) fn next_file(&mut self) -> Result<(), AppendError> {
        self.trim();
        let number = self.number.saturating_add(1);
        let file = segment::create(&self.folder, number).map_err(|source| AppendError::Rotate {
            folder: self.folder.clone(),
            source,
        })?;
        self.file = Arc::new(file);
        self.number = number;
        self.len = 0;
        self.reserved = 0;
        self.reserve(0)?;
        self.checkpoint(None)
    }

    /// Gives back what was reserved and not written.
    pub(crate) fn trim(&self) {
        if !self.broken && self.reserved > self.len && self.reserved != u64::MAX {
            // ftruncate(2) to its own length frees what lies behind; if not, it is only room.
            if self.file.set_len(self.len).is_err() {}
        }
    }

    fn write(&mut self, line: &[u8]) -> Result<(), AppendError> {
        if self.broken {
            return Err(AppendError::Broken {
                folder: self.folder.clone(),
            });
        }
        if let Err(source) = (&*self.file).write_all(line) {
            // Half a line was never acted on; it goes, so that the next one stands alone.
            self.broken = self.file.set_len(self.len).is_err();
            self.reserved = self.len;
            return Err(self.full(source));
        }
        self.len = self
            .len
            .saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Makes sure of room for a line and the checkpoint behind it.
    fn reserve(&mut self, line: usize) -> Result<(), AppendError> {
        let need = u64::try_from(line)
            .unwrap_or(u64::MAX)
            .saturating_add(CHECKPOINT_BYTES);
        if self.len.saturating_add(need) <= self.reserved {
            return Ok(());
        }
        let mut last = Errno::ENOSPC;
        for more in [need.saturating_add(STEP), need] {
            match self.allocate(more) {
                Ok(()) => {
                    self.reserved = self.len.saturating_add(more);
                    return Ok(());
                }
                Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                    self.reserved = u64::MAX;
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(self.full(last.into()))
    }

    fn allocate(&self, more: u64) -> Result<(), Errno> {
        let (Ok(from), Ok(more)) = (i64::try_from(self.len), i64::try_from(more)) else {
            return Err(Errno::EFBIG);
        };
        fallocate(&*self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, more)
    }

    fn full(&self, source: io::Error) -> AppendError {
        AppendError::Write {
            folder: self.folder.clone(),
            source,
        }
    }
}

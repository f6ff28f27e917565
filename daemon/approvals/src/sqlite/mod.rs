//! The store of one host: a SQLite file that every daemon of the host may share.
//!
//! A step reads the row and writes it in one `BEGIN IMMEDIATE` transaction: SQLite lets one writer in at a
//! time, across threads and processes, so what was read is what is replaced. It goes through the
//! write-ahead log with `synchronous = FULL`: a commit returns after fsync(2), and a power cut loses none
//! that returned (sqlite.org/pragma.html). A process that is killed in between has done nothing.
//!
//! Taking an approval also adds its key to a table of its own: a row that was put back to `approved` is
//! not taken twice. An approval that is given back unused leaves its entry there; the next one of the call
//! has another.

mod open;
mod rows;
mod step;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ed25519_dalek::{SigningKey, VerifyingKey};
use gate::id::SessionId;
use rusqlite::{Connection, ErrorCode};

use crate::{
    Answered, Approval, Asked, Cursor, Heading, Key, Page, State, Store, StoreError, Which,
};

/// The store's file in its folder.
pub const FILE: &str = "approvals.sqlite";

/// The store of one host.
pub struct Sqlite {
    path: PathBuf,
    connection: Mutex<Connection>,
    key: SigningKey,
    public: VerifyingKey,
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens the store in `folder`, or makes it.
    ///
    /// # Errors
    /// When the file is none of ours, of another version or damaged, or its key cannot be had.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        open::open(folder)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic left is rolled back when it is dropped.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: rusqlite::Error) -> StoreError {
        failed(&self.path, error)
    }
}

/// What an error of SQLite's means here.
fn failed(path: &Path, source: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt {
            path,
            why: source.to_string(),
        },
        Some(ErrorCode::NotADatabase) => StoreError::Foreign { path },
        Some(_) | None => StoreError::Sqlite { path, source },
    }
}

impl Store for Sqlite {
    fn keep(&self, asked: &Asked, now: u64) -> Result<(), StoreError> {
        self.begin(asked, now)
    }

    fn renew(&self, asked: &Asked, now: u64) -> Result<Approval, StoreError> {
        self.step(asked.key(), now, |row| step::renew(row, asked))
    }

    fn find(&self, key: Key) -> Result<Approval, StoreError> {
        self.read(key)
    }

    fn at(&self, position: u64) -> Result<Vec<Approval>, StoreError> {
        self.read_at(position)
    }

    fn list(
        &self,
        which: Which,
        after: Option<Cursor>,
        most: usize,
        wanted: &dyn Fn(&Heading) -> bool,
    ) -> Result<Page, StoreError> {
        self.page(which, after, most, wanted)
    }

    fn answer(&self, key: Key, answered: &Answered, now: u64) -> Result<Approval, StoreError> {
        self.step(key, now, |row| step::answer(row, answered, now))
    }

    fn take(&self, key: Key, now: u64) -> Result<Approval, StoreError> {
        // Most who come too late are told without keeping anybody from writing.
        let row = self.read(key)?;
        if !step::may_be_taken(&row) {
            return Err(step::wrong(&row, State::Taken));
        }
        self.step(key, now, |row| step::take(row, now))
    }

    fn give_back(&self, key: Key, now: u64) -> Result<Approval, StoreError> {
        self.step(key, now, |row| step::give_back(row, now))
    }

    fn finish(&self, key: Key, end: State, why: &str, now: u64) -> Result<Approval, StoreError> {
        self.step(key, now, |row| step::finish(row, end, why, now))
    }

    fn close(&self, session: SessionId, why: &str, now: u64) -> Result<u64, StoreError> {
        self.end_all(rows::Open::Session(session), why, now)
    }

    fn prune(&self, before: u64, most: usize) -> Result<u64, StoreError> {
        self.forget(before, most)
    }

    fn restart(&self, instance: &str, why: &str, now: u64) -> Result<u64, StoreError> {
        self.end_all(rows::Open::Instance(instance), why, now)
    }
}

//! Opening the file: ours, of our version, whole.

use std::{
    fs::OpenOptions, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Mutex, time::Duration,
};

use custody_ledger::key;
use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, OpenFlags};

use super::{FILE, Sqlite, failed};
use crate::StoreError;

/// Says that a file is ours (sqlite.org/fileformat2.html, "Application ID"): `Cust` in ASCII.
const APPLICATION: i32 = 0x4375_7374;

/// The format. A store of another is refused, not guessed at.
const FORMAT: u32 = 2;

/// How long a step waits for others to write. The most that one does is an fsync(2), some milliseconds;
/// a few dozen processes in a row are under this.
const PATIENCE: Duration = Duration::from_secs(20);

/// Columns beside the signed body are what queries go by; each is compared with it when a row is read.
const SCHEMA: &str = "
CREATE TABLE approvals (
    session   INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    state     TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    instance  TEXT    NOT NULL,
    caller    INTEGER NOT NULL,
    policy    TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    classes   TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    signature BLOB    NOT NULL,
    PRIMARY KEY (session, position)
) STRICT;
CREATE INDEX by_state ON approvals (state, since, session, position);
CREATE INDEX by_since ON approvals (since, session, position);
CREATE INDEX by_position ON approvals (position, since);
CREATE TABLE taken (
    session    INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    given_back INTEGER NOT NULL,
    PRIMARY KEY (session, position, given_back)
) STRICT, WITHOUT ROWID;
CREATE TABLE clock (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seen INTEGER NOT NULL
) STRICT;
INSERT INTO clock VALUES (1, 0);
";

pub(super) fn open(folder: &Path) -> Result<Sqlite, StoreError> {
    let path = folder.join(FILE);
    // Several daemons may start at once: one makes the key and the tables.
    let lock_path = folder.join("lock");
    let lock = |source| StoreError::Lock {
        path: lock_path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(lock)?;
    let _locked =
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_file, errno)| lock(errno.into()))?;
    let key = key::load_or_create(&folder.join("approvals.key"), &folder.join("approvals.pub"))
        .map_err(StoreError::Key)?;
    let connection = connect(&path).map_err(|error| failed(&path, error))?;
    let empty = is_empty(&connection).map_err(|error| failed(&path, error))?;
    if !empty {
        check(&path, &connection)?;
    }
    set_up(&connection, empty).map_err(|error| failed(&path, error))?;
    Ok(Sqlite {
        public: key.verifying_key(),
        path,
        connection: Mutex::new(connection),
        key,
    })
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0)
}

fn check(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(|error| failed(path, error))?;
    if application != i64::from(APPLICATION) {
        return Err(StoreError::Foreign { path: path.into() });
    }
    let version = pragma("user_version").map_err(|error| failed(path, error))?;
    if version != i64::from(FORMAT) {
        return Err(StoreError::Version {
            path: path.into(),
            found: u32::try_from(version).unwrap_or(u32::MAX),
            known: FORMAT,
        });
    }
    let said: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| failed(path, error))?;
    if said == "ok" {
        Ok(())
    } else {
        Err(StoreError::Corrupt {
            path: path.into(),
            why: said,
        })
    }
}

fn set_up(connection: &Connection, empty: bool) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        // A file system without shared memory: the log of the default mode is as durable.
        connection.pragma_update(None, "journal_mode", "DELETE")?;
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    connection.pragma_update(None, "cell_size_check", "ON")?;
    if empty {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION}; \
             PRAGMA user_version = {FORMAT}; COMMIT;"
        ))?;
    }
    Ok(())
}

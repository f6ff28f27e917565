//! What the witness saw: one JSON object a line, appended in one write.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// One request, as the witness saw it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Seen {
    /// Counted from 1, over all connections.
    pub number: u64,
    /// When, in milliseconds of Unix time.
    pub unix_ms: u64,
    /// The connection's other end.
    pub peer: String,
    /// The name of the token that it came with; none where it was rejected.
    pub who: Option<String>,
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The body, as text (bytes that are not UTF-8 are replaced).
    pub body: String,
    /// Whether this changed something: a protected effect.
    pub effect: bool,
    /// The status that was answered.
    pub status: u16,
}

impl Seen {
    /// Whether `nonce` stands anywhere in what was asked.
    pub fn carries(&self, nonce: &str) -> bool {
        self.body.contains(nonce) || self.target.contains(nonce)
    }

    /// What came, in words.
    pub fn in_words(&self) -> String {
        format!(
            "the witness saw {} {} by `{}`",
            self.method,
            self.target,
            self.who.as_deref().unwrap_or("nobody")
        )
    }
}

/// An append-only file of [`Seen`] lines.
#[derive(Debug)]
pub struct Record(Mutex<File>);

impl Record {
    /// Opens (or makes) the file; only its owner may read it.
    ///
    /// # Errors
    /// When the file cannot be opened for appending.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Appends one line in one write, before the request is answered.
    ///
    /// # Errors
    /// When the write fails.
    pub fn append(&self, seen: &Seen) -> io::Result<()> {
        let mut line = serde_json::to_vec(seen).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut file = match self.0.lock() {
            Ok(file) => file,
            Err(poisoned) => poisoned.into_inner(),
        };
        file.write_all(&line)
    }
}

/// Reads a record file; one that is not there yet is empty.
///
/// # Errors
/// When the file cannot be read or a line is not a [`Seen`].
pub fn read(path: &Path) -> io::Result<Vec<Seen>> {
    text(path)?.lines().map(parse).collect()
}

/// The text of a record file; one that is not there yet is empty.
pub(super) fn text(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// One line of it.
pub(super) fn parse(line: &str) -> io::Result<Seen> {
    serde_json::from_str(line).map_err(io::Error::other)
}

/// Milliseconds of Unix time, now.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

//! Reviewers' public keys: whose signature lets a confirmed call through.
//!
//! They come from custodyd, a file a reviewer and one of keys that count no longer, all of them anew each
//! time. A file with one bad line gives no key: nobody guesses what was meant.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use gate::approval::{KeyError, PublicKey};

/// The most bytes of a file.
const FILE_MAX: u64 = 64 << 10;

/// The most keys in all: each signature is compared with each.
const KEYS_MAX: usize = 256;

/// Why a file gives no key.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("line {line}: {source}")]
    Key { line: usize, source: KeyError },
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("line {line}: it is no fingerprint of the form `SHA256:…`")]
    Revoked { line: usize },
    #[error("with it there would be more than {KEYS_MAX} keys")]
    TooMany,
}

/// The keys that count.
#[derive(Debug, Default)]
pub(crate) struct Reviewers {
    now: Known,
    /// What custodyd has sent since it began anew.
    next: Known,
}

#[derive(Debug, Default)]
struct Known {
    keys: Vec<PublicKey>,
    revoked: BTreeSet<String>,
    /// The file of those that count no longer could not be read: then none counts.
    unreadable: bool,
}

impl Reviewers {
    /// Another reviewer's file.
    pub(crate) fn take(&mut self, name: &str, from: OwnedFd) {
        match read_keys(from, self.next.keys.len()) {
            Ok(keys) => {
                for key in &keys {
                    tracing::info!(reviewer = name, key = key.fingerprint(), "a reviewer's key");
                }
                self.next.keys.extend(keys);
            }
            Err(error) => {
                tracing::error!(reviewer = name, %error, "a reviewer's file is not taken");
            }
        }
    }

    /// The file of the keys that count no longer.
    pub(crate) fn take_revoked(&mut self, from: OwnedFd) {
        match read_revoked(from) {
            Ok(revoked) => self.next.revoked.extend(revoked),
            Err(error) => {
                tracing::error!(%error, "revoked keys are not known, so no reviewer's key counts");
                self.next.unreadable = true;
            }
        }
    }

    /// Everything was sent: from now on these count, and no others.
    pub(crate) fn renew(&mut self) {
        self.now = std::mem::take(&mut self.next);
        tracing::info!(keys = self.keys().count(), "reviewers");
    }

    /// The keys that count.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        let known = &self.now;
        known
            .keys
            .iter()
            .filter(|key| !known.unreadable && !known.revoked.contains(&key.fingerprint()))
    }
}

fn text(from: OwnedFd) -> Result<String, FileError> {
    let mut text = String::new();
    let file = File::from(from).take(FILE_MAX.saturating_add(1));
    let mut file = file;
    let read = file.read_to_string(&mut text).map_err(FileError::Read)?;
    if u64::try_from(read).map_or(true, |read| read > FILE_MAX) {
        return Err(FileError::Read(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(text)
}

/// The lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(str::trim);
    (1..)
        .zip(lines)
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn read_keys(from: OwnedFd, there: usize) -> Result<Vec<PublicKey>, FileError> {
    let text = text(from)?;
    let keys = lines(&text)
        .map(|(line, key)| PublicKey::read(key).map_err(|source| FileError::Key { line, source }))
        .collect::<Result<Vec<_>, _>>()?;
    if there.saturating_add(keys.len()) > KEYS_MAX {
        return Err(FileError::TooMany);
    }
    Ok(keys)
}

/// Fingerprints, as `ssh-keygen -l` says them; what stands behind one is a comment.
fn read_revoked(from: OwnedFd) -> Result<BTreeSet<String>, FileError> {
    let text = text(from)?;
    lines(&text)
        .map(|(line, said)| {
            let word = said.split_whitespace().next().unwrap_or_default();
            // 43 digits of base64 are the 32 bytes of SHA-256.
            match word.strip_prefix("SHA256:") {
                Some(digits) if digits.len() == 43 => Ok(word.to_owned()),
                Some(_) | None => Err(FileError::Revoked { line }),
            }
        })
        .collect()
}

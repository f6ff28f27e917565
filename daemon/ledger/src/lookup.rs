//! Finding records in a long chain: by position, by digest, by call, by the decision that they rest on.
//!
//! A position needs no index: each file says behind which one it begins. For the rest there is an index beside
//! the chains, `index/CHAIN.NNNNNN`, one file for each file of the chain that is complete: the first 8 bytes of
//! what can be asked for and the record's position, sorted. It is made anew wherever it is missing or not of
//! its form, and never trusted: what it points to is read and verified, and what it does not have is looked for in the
//! chain itself before it is said to be missing.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gate::{
    chain::{ChainName, keys::Keyring},
    digest::{Digest, Domain},
    json::Value,
};

use crate::{
    certificates,
    reader::{Entry, Group, Groups, ReadError},
    segment,
};

/// What is looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sought {
    /// Records about this call, by its digest.
    Call(Digest),
    /// Records that rest on the decision at this position.
    Decision(u64),
    /// The record at this position.
    Position(u64),
    /// The record with this digest.
    Record(Digest),
}

/// A record that was found, and whether a checkpoint follows it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record.
    pub entry: Entry,
    /// Whether it is signed.
    pub signed: bool,
}

/// Looks records up in one chain.
#[derive(Debug)]
pub struct Lookup {
    dir: PathBuf,
    chain: ChainName,
    ring: Keyring,
    files: u32,
}

/// Bytes of an entry of the index: a key, a position.
const ENTRY: usize = 16;

impl Lookup {
    /// In the chain of the ledger in `dir`.
    ///
    /// # Errors
    /// When the folder is not one of a chain.
    pub fn open(dir: &Path, chain: ChainName, ring: Keyring) -> Result<Self, ReadError> {
        let ring = certificates::learn(&dir.join(chain.as_str()), chain, ring);
        let files = Groups::knowing(dir, chain, ring.clone())?.files();
        Ok(Self {
            dir: dir.into(),
            chain,
            ring,
            files,
        })
    }

    /// Makes what is missing of the index. Where it cannot be written, looking up takes as long as reading
    /// the chain.
    ///
    /// # Errors
    /// When the chain cannot be read, or the index cannot be written.
    pub fn refresh(&self) -> Result<(), ReadError> {
        for file in 1..self.files {
            if self.index_of(file).is_none() {
                self.make(file)?;
            }
        }
        Ok(())
    }

    /// Every record that is sought, in the order of their positions.
    ///
    /// # Errors
    /// When the chain cannot be read where it must be.
    pub fn find(&mut self, what: Sought) -> Result<Vec<Found>, ReadError> {
        if let Sought::Position(position) = what {
            let groups = Groups::at(&self.dir, self.chain, self.ring.clone(), position)?;
            return match groups {
                Some(groups) => matching(groups, what),
                None => Ok(Vec::new()),
            };
        }
        let mut found = Vec::new();
        let mut everywhere = true;
        for file in 1..=self.files {
            let has = match self.index_of(file) {
                Some(mut index) if file < self.files => {
                    has(&mut index, key(what)).map_err(|source| ReadError::Io {
                        folder: self.dir.clone(),
                        source,
                    })?
                }
                _ => true,
            };
            everywhere &= has;
            if has {
                found.extend(self.in_file(file, what)?);
            }
        }
        // An index that lies by leaving out is not believed either.
        if found.is_empty() && !everywhere {
            for file in 1..=self.files {
                found.extend(self.in_file(file, what)?);
            }
        }
        Ok(found)
    }

    fn in_file(&self, file: u32, what: Sought) -> Result<Vec<Found>, ReadError> {
        let mut groups = Groups::knowing(&self.dir, self.chain, self.ring.clone())?;
        groups.only(file)?;
        matching(groups, what)
    }

    fn path_of(&self, file: u32) -> PathBuf {
        self.dir
            .join("index")
            .join(format!("{}.{file:06}", self.chain))
    }

    /// The index of a file, if it is one of that file as it is now: its first entry says how long that was.
    fn index_of(&self, file: u32) -> Option<File> {
        let mut index = File::open(self.path_of(file)).ok()?;
        let mut first = [0; ENTRY];
        index.read_exact(&mut first).ok()?;
        let (magic, len) = first.split_first_chunk::<8>()?;
        let len = u64::from_le_bytes(*len.first_chunk::<8>()?);
        let there = self.len_of(file)?;
        let whole = index.metadata().ok()?.len() % ENTRY as u64 == 0;
        (magic == MAGIC && len == there && whole).then_some(index)
    }

    fn len_of(&self, file: u32) -> Option<u64> {
        let folder = self.dir.join(self.chain.as_str());
        let about = fs::symlink_metadata(folder.join(segment::name(file))).ok()?;
        Some(about.size())
    }

    fn make(&self, file: u32) -> Result<(), ReadError> {
        let mut groups = Groups::knowing(&self.dir, self.chain, self.ring.clone())?;
        groups.only(file)?;
        let mut entries = Vec::new();
        while let Some(group) = groups.next_group()? {
            for entry in &group.entries {
                let position = entry.place.position;
                entries.extend(keys_of(entry).into_iter().map(|key| (key, position)));
            }
        }
        entries.sort_unstable();
        entries.dedup();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.len_of(file).unwrap_or_default().to_le_bytes());
        for (key, position) in entries {
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&position.to_le_bytes());
        }
        self.write(file, &bytes).map_err(|source| ReadError::Io {
            folder: self.dir.join("index"),
            source,
        })
    }

    /// Whole or not at all.
    fn write(&self, file: u32, bytes: &[u8]) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

        let folder = self.dir.join("index");
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let beside = folder.join(format!(".{}.{file:06}.{}", self.chain, std::process::id()));
        let mut to = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&beside)?;
        to.write_all(bytes)?;
        fs::rename(&beside, self.path_of(file))
    }
}

/// The form of the index.
const MAGIC: &[u8; 8] = b"custody1";

fn matching(mut groups: Groups, what: Sought) -> Result<Vec<Found>, ReadError> {
    let mut found = Vec::new();
    while let Some(Group { entries, sealed }) = groups.next_group()? {
        let signed = sealed.is_some();
        let wanted = entries.into_iter().filter(|entry| is_about(entry, what));
        found.extend(wanted.map(|entry| Found { entry, signed }));
        // There is one of it, and the checkpoint behind it was seen.
        if !found.is_empty() && matches!(what, Sought::Position(_) | Sought::Record(_)) {
            break;
        }
    }
    Ok(found)
}

/// Whether a key stands in a sorted index.
fn has(index: &mut File, wanted: [u8; 8]) -> io::Result<bool> {
    let entries = index.metadata()?.len() / ENTRY as u64;
    // The first is the head.
    let (mut low, mut high) = (1_u64, entries);
    let mut entry = [0; ENTRY];
    while low < high {
        let middle = low.midpoint(high);
        let _at = index.seek(SeekFrom::Start(middle.saturating_mul(ENTRY as u64)))?;
        index.read_exact(&mut entry)?;
        match entry.first_chunk::<8>() {
            Some(key) if *key == wanted => return Ok(true),
            Some(key) if *key < wanted => low = middle.saturating_add(1),
            Some(_) | None => high = middle,
        }
    }
    Ok(false)
}

fn key(what: Sought) -> [u8; 8] {
    let (kind, value) = match what {
        Sought::Call(digest) => (b'c', digest.as_bytes().to_vec()),
        Sought::Decision(position) => (b'd', position.to_le_bytes().to_vec()),
        Sought::Position(position) => (b'p', position.to_le_bytes().to_vec()),
        Sought::Record(digest) => (b'r', digest.as_bytes().to_vec()),
    };
    let digest = Digest::of_parts(Domain::Field, [&[kind][..], &value]);
    let mut key = [0; 8];
    for (to, from) in key.iter_mut().zip(digest.as_bytes()) {
        *to = *from;
    }
    key
}

fn keys_of(entry: &Entry) -> Vec<[u8; 8]> {
    let mut keys = vec![key(Sought::Record(entry.place.digest))];
    keys.extend(call_of(entry).map(|it| key(Sought::Call(it))));
    keys.extend(decision_of(entry).map(|it| key(Sought::Decision(it))));
    keys
}

fn is_about(entry: &Entry, what: Sought) -> bool {
    match what {
        Sought::Call(call) => call_of(entry) == Some(call),
        Sought::Decision(position) => decision_of(entry) == Some(position),
        Sought::Position(position) => entry.place.position == position,
        Sought::Record(digest) => entry.place.digest == digest,
    }
}

/// The digest of the call that a record is about.
pub fn call_of(entry: &Entry) -> Option<Digest> {
    let digest = |value: Option<&Value>| match value {
        Some(Value::Text(text)) => Digest::try_from(text.clone()).ok(),
        _ => None,
    };
    let fields = &entry.fields;
    digest(member(fields, &["effect", "call"]))
        .or_else(|| digest(member(fields, &["call"])))
        .or_else(|| digest(member(fields, &["digest"])))
}

/// The position of the decision that a record rests on.
pub fn decision_of(entry: &Entry) -> Option<u64> {
    let position = |path: &[&str]| match member(&entry.fields, path) {
        Some(Value::Int(position)) => u64::try_from(position.get()).ok(),
        _ => None,
    };
    position(&["decision", "position"]).or_else(|| position(&["effect", "decision", "position"]))
}

/// What stands in a value at a path.
pub fn member<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    match (value, path) {
        (value, []) => Some(value),
        (Value::Object(members), [name, rest @ ..]) => member(members.get(*name)?, rest),
        (_, [_, ..]) => None,
    }
}

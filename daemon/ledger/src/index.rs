//! Finding a decision by its position, in flat memory.
//!
//! The newest decisions are kept; of the others the place of each [`STEP`]th line, and what lies between
//! is read again when asked for. Receipts name decisions nearly in order, so that this is rare.

use std::{
    collections::VecDeque,
    io::{self, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use gate::{
    chain::{self, Place},
    digest::Digest,
    id::{CredentialLabel, SessionId, ToolName},
    json::Value,
    record::Decision,
};

use crate::{
    chain::At,
    lines::{self, Read},
    segment,
};

/// Records between two kept places.
const STEP: u64 = 256;

/// Blocks in memory.
const BLOCKS: usize = 16;

/// The newest decisions that are kept.
const RECENT: usize = 4_096;

/// Where the records of a verified chain of decisions are.
#[derive(Debug)]
pub(crate) struct Index {
    folder: PathBuf,
    marks: Vec<Mark>,
    recent: VecDeque<Entry>,
    blocks: VecDeque<Vec<Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    position: u64,
    file: u32,
    offset: u64,
    records: u64,
}

/// A decision.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where it stands.
    pub(crate) place: Place,
    /// What it allows; none if it is not of an allowed call.
    pub(crate) allowed: Option<Allowed>,
}

/// What an effect may rest on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Allowed {
    pub(crate) call: Digest,
    pub(crate) credential: CredentialLabel,
    /// Whether it opens a lease.
    pub(crate) opens: bool,
    pub(crate) policy: Digest,
    pub(crate) session: SessionId,
    pub(crate) tool: Option<ToolName>,
}

impl Index {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            marks: Vec::new(),
            recent: VecDeque::new(),
            blocks: VecDeque::new(),
        }
    }

    /// Notes a verified record: they come in the order of their positions.
    pub(crate) fn note(&mut self, at: At, decision: &Decision) {
        match self.marks.last_mut() {
            Some(mark) if mark.file == at.file && mark.records < STEP => {
                mark.records = mark.records.saturating_add(1);
            }
            _ => self.marks.push(Mark {
                position: at.place.position,
                file: at.file,
                offset: at.offset,
                records: 1,
            }),
        }
        if self.recent.len() >= RECENT {
            drop(self.recent.pop_front());
        }
        self.recent.push_back(Entry {
            place: at.place,
            allowed: allowed(decision),
        });
    }

    /// The record at `position`, if the chain has it.
    pub(crate) fn entry(&mut self, position: u64) -> io::Result<Option<Entry>> {
        if let Some(first) = self.recent.front()
            && let Some(at) = position.checked_sub(first.place.position)
        {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            return Ok(self.recent.get(at).cloned());
        }
        let find = |block: &Vec<Entry>| {
            block
                .iter()
                .find(|entry| entry.place.position == position)
                .cloned()
        };
        if let Some(found) = self.blocks.iter().find_map(find) {
            return Ok(Some(found));
        }
        let after = self.marks.partition_point(|mark| mark.position <= position);
        let mark = after.checked_sub(1).and_then(|at| self.marks.get(at));
        let Some(mark) = mark.copied() else {
            return Ok(None);
        };
        let block = self.read(mark)?;
        let entry = find(&block);
        self.blocks.truncate(BLOCKS.saturating_sub(1));
        self.blocks.push_front(block);
        Ok(entry)
    }

    /// The lines were verified when they were noted, and the digest of each is compared with the one that a
    /// receipt names.
    fn read(&self, mark: Mark) -> io::Result<Vec<Entry>> {
        let mut file = BufReader::new(segment::read(&self.folder, mark.file)?);
        let _offset = file.seek(SeekFrom::Start(mark.offset))?;
        let mut entries = Vec::new();
        let mut line = Vec::new();
        let mut left = mark.records;
        while left > 0 {
            match lines::next(&mut file, &mut line)? {
                Read::Whole => match chain::read_record::<Decision>(&line) {
                    Ok(Some((place, decision))) => {
                        left = left.saturating_sub(1);
                        entries.push(Entry {
                            place,
                            allowed: allowed(&decision),
                        });
                    }
                    Ok(None) => {}
                    // The file changed under us: what is no longer there is not found.
                    Err(_changed) => break,
                },
                Read::End | Read::Torn | Read::TooLong => break,
            }
        }
        Ok(entries)
    }
}

fn allowed(decision: &Decision) -> Option<Allowed> {
    match decision {
        Decision::Allowed {
            call,
            credential,
            digest,
            opens,
            policy,
            session,
            ..
        } => Some(Allowed {
            call: *digest,
            credential: credential.clone(),
            opens: opens.is_some(),
            policy: *policy,
            session: *session,
            tool: tool(call),
        }),
        Decision::Approved { .. }
        | Decision::Closed { .. }
        | Decision::Deferred { .. }
        | Decision::Done { .. }
        | Decision::Failed { .. }
        | Decision::HandedOff { .. }
        | Decision::Held { .. }
        | Decision::Lapsed { .. }
        | Decision::Narrowed { .. }
        | Decision::Opened { .. }
        | Decision::Refused { .. }
        | Decision::ReviewerRefused { .. }
        | Decision::Said { .. }
        | Decision::Started { .. }
        | Decision::Streamed { .. }
        | Decision::TurnEnded { .. } => None,
    }
}

/// The tool of a call that was allowed.
pub(crate) fn tool(call: &Value) -> Option<ToolName> {
    let Value::Object(members) = call else {
        return None;
    };
    let Some(Value::Text(name)) = members.get("tool") else {
        return None;
    };
    ToolName::parse(name).ok()
}

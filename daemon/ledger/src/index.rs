//! Finding a decision by its position, in flat memory.
//!
//! The place of each [`STEP`]th line is kept; what lies between is read again when asked for.
//! Receipts name decisions nearly in order, so a few blocks in memory answer nearly everything.

use std::{
    collections::VecDeque,
    io::{self, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use gate::{
    digest::{Digest, Domain},
    id::{CredentialLabel, SessionId, ToolName},
    json::{self, Limits, Value},
    record::Decision,
};
use serde::Deserialize;

use crate::{
    lines::{self, Read},
    segment,
};

/// Lines between two kept places.
const STEP: u64 = 256;

/// Blocks in memory.
const BLOCKS: usize = 16;

/// Where the lines of a verified chain of decisions are.
#[derive(Debug)]
pub(crate) struct Index {
    folder: PathBuf,
    marks: Vec<Mark>,
    blocks: VecDeque<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    position: u64,
    file: u32,
    offset: u64,
    lines: u64,
}

#[derive(Debug)]
struct Block {
    position: u64,
    entries: Vec<Entry>,
}

/// A line of the decisions.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its digest.
    pub(crate) digest: Digest,
    /// What it allows; none if it is not of an allowed call.
    pub(crate) allowed: Option<Allowed>,
}

/// What an effect may rest on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Allowed {
    pub(crate) call: Digest,
    pub(crate) credential: CredentialLabel,
    pub(crate) policy: Digest,
    pub(crate) session: SessionId,
    pub(crate) tool: Option<ToolName>,
}

impl Index {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            marks: Vec::new(),
            blocks: VecDeque::new(),
        }
    }

    /// Notes a verified line: lines come in the order of their positions.
    pub(crate) fn note(&mut self, position: u64, file: u32, offset: u64) {
        match self.marks.last_mut() {
            Some(mark) if mark.file == file && mark.lines < STEP => {
                mark.lines = mark.lines.saturating_add(1);
            }
            _ => self.marks.push(Mark {
                position,
                file,
                offset,
                lines: 1,
            }),
        }
    }

    /// The line at `position`, if the chain has it.
    pub(crate) fn entry(&mut self, position: u64) -> io::Result<Option<Entry>> {
        let after = self.marks.partition_point(|mark| mark.position <= position);
        let mark = after.checked_sub(1).and_then(|at| self.marks.get(at));
        let Some(mark) = mark.copied() else {
            return Ok(None);
        };
        let at = usize::try_from(position.saturating_sub(mark.position)).unwrap_or(usize::MAX);
        if let Some(block) = self.blocks.iter().find(|b| b.position == mark.position) {
            return Ok(block.entries.get(at).cloned());
        }
        let block = self.read(mark)?;
        let entry = block.entries.get(at).cloned();
        self.blocks.truncate(BLOCKS.saturating_sub(1));
        self.blocks.push_front(block);
        Ok(entry)
    }

    fn read(&self, mark: Mark) -> io::Result<Block> {
        let mut file = BufReader::new(segment::read(&self.folder, mark.file)?);
        let _offset = file.seek(SeekFrom::Start(mark.offset))?;
        let mut entries = Vec::new();
        let mut line = Vec::new();
        for _ in 0..mark.lines {
            match lines::next(&mut file, &mut line)? {
                Read::Whole => entries.push(Entry {
                    digest: Digest::of(Domain::Line, &line),
                    allowed: allowed(&line),
                }),
                // The file changed under us: what is no longer there is not found.
                Read::End | Read::Torn | Read::TooLong => break,
            }
        }
        Ok(Block {
            position: mark.position,
            entries,
        })
    }
}

/// What a line allows. The line was verified when it was noted, and its digest is compared with
/// the one that a receipt names.
fn allowed(line: &[u8]) -> Option<Allowed> {
    /// The part of a line that is looked at.
    #[derive(Deserialize)]
    struct Line {
        body: Decision,
    }

    let line: Line = json::from_canonical(line, &Limits::LINE).ok()?;
    match line.body {
        Decision::Allowed {
            call,
            credential,
            digest,
            policy,
            session,
            ..
        } => Some(Allowed {
            call: digest,
            credential,
            policy,
            session,
            tool: tool(&call),
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
        | Decision::TurnEnded { .. } => None,
    }
}

fn tool(call: &Value) -> Option<ToolName> {
    let Value::Object(members) = call else {
        return None;
    };
    let Some(Value::Text(name)) = members.get("tool") else {
        return None;
    };
    ToolName::parse(name).ok()
}

//! What a store does, and why it may refuse.
//!
//! SQLite keeps the approvals of one host. A database that several hosts share can stand behind the same
//! trait: nothing here says where the rows are.

use std::path::PathBuf;

use gate::{
    digest::Digest,
    id::{PolicyName, SessionId, ToolName},
};

use crate::{Answered, Approval, Asked, Key, State};

/// Keeps approvals. Each method that changes something is one durable transaction: when it returns, what
/// it did is on disk, and nobody else did it.
pub trait Store: std::fmt::Debug + Send + Sync {
    /// A call begins to wait.
    ///
    /// # Errors
    /// When it cannot be kept, or is there already.
    fn keep(&self, asked: &Asked, now: u64) -> Result<(), StoreError>;

    /// The gate says more of a call that waits: it replaces what it said before.
    ///
    /// # Errors
    /// When it does not wait, or it is another call.
    fn renew(&self, asked: &Asked, now: u64) -> Result<Approval, StoreError>;

    /// The row of this key.
    ///
    /// # Errors
    /// When there is none, or it is not as it was signed.
    fn find(&self, key: Key) -> Result<Approval, StoreError>;

    /// The rows of this position, newest first: one for each daemon that shares the store, at most
    /// [`AT_MOST`].
    ///
    /// # Errors
    /// When one is not as it was signed.
    fn at(&self, position: u64) -> Result<Vec<Approval>, StoreError>;

    /// A page of rows, oldest first.
    ///
    /// # Errors
    /// When one is not as it was signed.
    fn list(
        &self,
        which: Which,
        after: Option<Cursor>,
        most: usize,
        wanted: &dyn Fn(&Heading) -> bool,
    ) -> Result<Page, StoreError>;

    /// A reviewer answers: waiting becomes approved or refused, once.
    ///
    /// # Errors
    /// When the call does not wait any longer, or is another than he was shown.
    fn answer(&self, key: Key, answered: &Answered, now: u64) -> Result<Approval, StoreError>;

    /// The approval is used: approved becomes taken, once.
    ///
    /// # Errors
    /// When it is not approved, was taken before, or is too old.
    fn take(&self, key: Key, now: u64) -> Result<Approval, StoreError>;

    /// The approval was not used after all, and nothing of it was: taken becomes waiting, and the call may
    /// be answered again.
    ///
    /// # Errors
    /// When it is not taken.
    fn give_back(&self, key: Key, now: u64) -> Result<Approval, StoreError>;

    /// It is over. What ended the same way already stays as it is.
    ///
    /// # Errors
    /// When it ended in another way, or `end` cannot follow its state.
    fn finish(&self, key: Key, end: State, why: &str, now: u64) -> Result<Approval, StoreError>;

    /// A session is over, and what is open of it: what was not taken lapses, what was is in doubt.
    ///
    /// # Errors
    /// When it cannot be written.
    fn close(&self, session: SessionId, why: &str, now: u64) -> Result<u64, StoreError>;

    /// Forgets up to `most` rows that are over and began to wait before `before`; how many.
    ///
    /// # Errors
    /// When it cannot be written.
    fn prune(&self, before: u64, most: usize) -> Result<u64, StoreError>;

    /// A daemon starts: so ends what is open of its earlier life.
    ///
    /// # Errors
    /// When it cannot be written.
    fn restart(&self, instance: &str, why: &str, now: u64) -> Result<u64, StoreError>;
}

/// The most rows of one position that are looked at.
pub const AT_MOST: u32 = 16;

/// Which rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Which {
    /// All.
    All,
    /// Those that wait.
    Waiting,
}

/// Behind which row a page begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cursor {
    /// Since when that row waited.
    pub since: u64,
    /// Its key.
    pub key: Key,
}

/// What is known of a row before it is read whole: enough to say who may see it. It is not signed; the
/// rows of a page are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Heading {
    /// Its key.
    pub key: Key,
    /// Who runs the session.
    pub caller: u32,
    /// Which daemon holds it.
    pub instance: String,
    /// The policy.
    pub policy: PolicyName,
    /// The tool.
    pub tool: ToolName,
    /// What the call does to the world, by the names of the classes.
    pub classes: Vec<String>,
}

/// Some rows, and where to go on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Page {
    /// Them.
    pub rows: Vec<Approval>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// Why something was not done. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes for too long.
    #[error("the store of approvals `{path}` is busy: another process writes to it; try again")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It is another call than the reviewer was shown.
    #[error(
        "call {key} is not the one that you were shown: its digest is {found}, not {shown}; look at it again"
    )]
    Changed {
        /// Which.
        key: Key,
        /// What the reviewer was shown.
        shown: Digest,
        /// What is there.
        found: Digest,
    },
    /// The clock is before what the store has seen.
    #[error(
        "the clock was set back by {seconds} s: an approval could outlive its time, so none is kept, given \
         or used until the clock is past what the store of approvals has seen; set the clock right"
    )]
    ClockBack {
        /// By how much.
        seconds: u64,
    },
    /// The file is damaged.
    #[error(
        "the store of approvals `{path}` is damaged: {why}; stop the service, move the file away and start \
         it again: what waits lapses, the ledger says what was done"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
    /// It is there already.
    #[error("call {key} is in the store of approvals already")]
    Exists {
        /// Which.
        key: Key,
    },
    /// A file that another program made.
    #[error("`{path}` is not a store of approvals; move it away")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// No room.
    #[error("no room on the disk of `{path}`: nothing is kept, given or used until there is")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be had.
    #[error("no key for the store of approvals")]
    Key(#[source] custody_ledger::key::KeyError),
    /// Too late.
    #[error("call {key} lapsed; ask the agent to try again")]
    Lapsed {
        /// Which.
        key: Key,
    },
    /// The lock cannot be had.
    #[error("cannot lock `{path}`")]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No such row.
    #[error("no call {key} waits; `custody pending` lists those that do")]
    NotFound {
        /// Which.
        key: Key,
    },
    /// A row is not as we wrote it.
    #[error(
        "the row of call {key} in the store of approvals is not as it was signed ({why}): it is not used; \
         somebody edited the file, or its key was replaced"
    )]
    Signature {
        /// Which.
        key: Key,
        /// What differs.
        why: &'static str,
    },
    /// SQLite failed otherwise.
    #[error("the store of approvals `{path}`")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// It is not where that can be done.
    #[error("call {key} is {state}{by}: it cannot become {wanted}")]
    State {
        /// Which.
        key: Key,
        /// Where it is.
        state: State,
        /// By whom, in words; empty if nobody answered.
        by: String,
        /// Where it should have gone.
        wanted: State,
    },
    /// Of another version.
    #[error("the store of approvals `{path}` has format {found}; this version reads {known}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
    },
}

//! Approvals: what a person was asked, what he answered, and that his answer is used once.
//!
//! A held call waits here until a reviewer answers. Each step is one durable transaction that only one of
//! all who try it makes: threads, processes, several daemons of one host.
//!
//! ```text
//! waiting ──▶ approved ──▶ taken ──▶ done | failed | in_doubt | lapsed
//!    │           └──────▶ lapsed
//!    ├──▶ refused
//!    └──▶ lapsed
//! ```
//!
//! An approval is *taken* before the gate is told of it. One that was not taken was never used; one that
//! was taken and has no outcome may have been: after a crash the first lapses, the second is in doubt.
//!
//! | module | what |
//! |---|---|
//! | [`approval`] | what is asked, answered and kept |
//! | [`fingerprint`] | the key of a signature, by its name |
//! | [`signed`] | rows are signed; an edited one is refused by name |
//! | [`sqlite`] | the store of one host: a file |
//! | [`store`] | what a store does, and why it may refuse |
//!
//! **Invariant:** no decision on who may answer, and no word to the gate; that is custody-control's. A row
//! whose signature is wrong is never returned.
#![forbid(unsafe_code)]

pub mod approval;
pub mod fingerprint;
pub mod signed;
pub mod sqlite;
pub mod store;

pub use gate::approval::{Reach, Scope};

pub use approval::{Answered, Approval, Asked, Key, Over, Reviewer, State, Word};
pub use sqlite::Sqlite;
pub use store::{Cursor, Heading, Page, Store, StoreError, Which};

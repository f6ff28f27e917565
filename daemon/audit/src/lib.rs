//! What a ledger's own traffic says of the policies that it was decided by.
//!
//! | module | what |
//! |---|---|
//! | [`source`] | the decision records of a ledger or of an export, verified first |
//! | [`declared`] | what the operators' policies say now |
//! | `event` | what a record says, as far as it is counted |
//! | [`tally`] | everything that is counted, record by record, in bounded memory |
//! | [`traffic`] | what was seen of one tool |
//! | [`spread`] | how long something took: median and p95 without keeping each |
//! | [`classes`] | tools: declared, undeclared, not covered by the write gate |
//! | [`labels`] | fields of results that untrusted text repeats, results that nobody labelled |
//! | [`load`] | what reviewers are asked, and what became of it |
//! | [`advice`] | what could be looked at, of a closed set of kinds |
//! | [`report`] | the report, as JSON, Markdown or text |
//!
//! **Invariant:** nothing here weakens a gate or says how: every [`advice::Kind`] only tightens, or asks a
//! person and says so. What is counted was verified with public keys first, and what was not is said.
//! No socket is opened, no process started, nothing written.
#![forbid(unsafe_code)]

pub mod advice;
pub mod classes;
pub mod declared;
mod event;
pub mod labels;
pub mod load;
pub mod report;
pub mod source;
pub mod spread;
pub mod tally;
pub mod traffic;

pub use declared::Declared;
pub use report::Report;
pub use source::{Source, SourceError};
pub use tally::Tally;

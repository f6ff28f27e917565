//! A chain on disk: append, sync, scan, verify.
//!
//! A chain is a folder of files `000001.jsonl`, `000002.jsonl`, … whose lines are those of
//! [`gate::chain`]. One [`writer::Writer`] appends; anyone with the public key may
//! [`verify`](verify::verify) at any time, offline, without a database.
//!
//! Promises: a line that [`writer::Writer::append`] returned survives the death of the process; one that
//! [`sync::Durability::durable`] returned survives the power; and what did not come about leaves
//! nothing behind that could be taken for a line.
//!
//! **Invariant:** nothing here decides, and nothing here knows what a line says, but for the
//! check of receipts against decisions.
#![forbid(unsafe_code)]

mod books;
mod certificates;
pub mod chain;
pub mod export;
mod index;
pub mod key;
pub mod keys;
mod lines;
pub mod lookup;
mod pen;
pub mod reader;
pub mod segment;
pub mod sync;
pub mod tail;
pub mod verify;
pub mod writer;

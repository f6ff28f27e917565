//! The suite: every attempt in its arms, judged by the witness.
//!
//! **Invariant:** an attempt's own words decide nothing. What it came to is read from the
//! witness's record and from the bytes that the agent could read.

pub mod arms;
pub mod control;
pub mod detour;
pub mod earlier;
pub mod guard;
pub mod hooks;
mod host_facts;
pub mod interfere;
pub mod isolate;
pub mod judge;
pub(crate) mod launcher;
pub mod lsm;
pub mod message;
mod observation;
mod policy;
pub mod run;
pub mod scene;
pub mod trial;

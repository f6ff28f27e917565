//! Which arguments of a tool carry authority, read off its schema: offline, and without running anything.
//!
//! | module | what |
//! |---|---|
//! | [`input`] | bytes become tools: strict JSON, one dialect, within the limits |
//! | [`schema`] | what each argument is, and what a person has to look at |
//! | [`controls`] | what somebody states of the tools, shown beside and never verified |
//! | [`infer`] | which arguments are locked, and how sure that is; risk, annotations, hints |
//! | [`report`] | all of it, for people and for machines |
//! | [`draft`] | a policy to begin with |
//! | [`diff`] | what changed between two exports |
//!
//! **Invariant:** no network, no process, nothing written. Inference only ever locks: what is not known is
//! locked, and no word of a tool about itself (a description, an annotation) frees an argument.
#![forbid(unsafe_code)]

pub mod controls;
pub mod diff;
pub mod draft;
pub mod infer;
pub mod input;
mod pointer;
pub mod report;
pub mod schema;

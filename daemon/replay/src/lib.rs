//! Recorded calls through the gate, without effects.
//!
//! | module | what |
//! |---|---|
//! | [`format`] | recorded tasks and attacks (`agentdojo-replay/1`), read strictly |
//! | [`generate`] | from the labels of recorded tools to a policy |
//! | [`marker`] | where a recorded result says what an attacker may have written |
//! | [`decider`] | who decides: the seam between a replay and what it measures |
//! | [`run`] | one task, alone or with a fully obedient agent and one attack |
//! | [`score`] | what a policy does on a whole suite |
//! | [`custody`] | our gate, as such a decider |
//! | [`trace`] | an operator's own recorded calls |
//!
//! Which rules the gate decides by, and what each is for: `docs/rules.md` beside this crate.
//!
//! **Invariant:** nothing is performed. A recorded result stands for the effect.
#![forbid(unsafe_code)]

pub mod custody;
pub mod decider;
pub mod format;
pub mod generate;
pub mod marker;
pub mod run;
pub mod score;
pub mod trace;

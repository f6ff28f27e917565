//! What our services do alike: begin, read their folders and policies, tell the time, pass descriptors
//! beside their frames, count what is under way, run a program of the operator's.
//!
//! **Invariant:** no key, no credential, no decision; what is here is the same in each of them.
#![forbid(unsafe_code)]

pub mod begin;
pub mod beside;
pub mod clock;
pub mod folders;
pub mod places;
pub mod policies;
pub mod program;
pub mod reason;

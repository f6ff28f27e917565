//! What is allowed: the authority gate as a pure function, and the forms of what it says.
//!
//! **Invariant:** no I/O, no clock, no randomness, no panic, no global state. Time, keys and
//! session facts come in as arguments; the same arguments give the same bytes out, everywhere.
//! The normal build is `no_std`; `cargo xtask tidy` links it without `std` to prove it.
//!
//! One call's way through it:
//!
//! | step | module | in which program |
//! |---|---|---|
//! | the bytes are read, with one meaning | [`json`] | front, gate, vault |
//! | the call is decided on, by the policy and the session's facts | [`policy`], [`session`], [`decide`] | gate |
//! | the decision is recorded | [`record`], [`chain`] | gate |
//! | a person approves what is held | [`approval`] | the reviewer's program, gate, vault |
//! | what was allowed becomes a permit | [`permit`] | gate |
//! | the permit is verified, and its call read again | [`permit`], [`call`] | vault |
//! | the call becomes a request, held against the floor | [`request`], [`floor`], [`address`] | vault |
//! | what was done is read back | [`readback`] | vault |
//! | what came of it is recorded | [`record`], [`chain`] | vault, gate |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, custody_mutants))]
extern crate std;

pub mod address;
pub mod approval;
pub mod call;
pub mod chain;
pub mod decide;
pub mod digest;
pub mod excerpt;
pub mod floor;
pub mod freshness;
pub mod id;
pub mod json;
pub mod lease;
pub mod lineage;
pub mod meaning;
pub mod mutant;
pub mod nanos;
pub mod nonce;
pub mod origin;
pub mod permit;
pub mod policy;
pub mod readback;
pub mod record;
pub mod request;
pub mod selection;
pub mod session;
pub mod task_words;
pub mod template;

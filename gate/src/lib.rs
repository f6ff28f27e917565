//! What is allowed: the authority gate as a pure function, and the forms of what it says.
//!
//! **Invariant:** no I/O, no clock, no randomness, no panic, no global state. Time, keys and
//! session facts come in as arguments; the same arguments give the same bytes out, everywhere.
//! The normal build is `no_std`; `cargo xtask tidy` links it without `std` to prove it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod digest;
pub mod id;

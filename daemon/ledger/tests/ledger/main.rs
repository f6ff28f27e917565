//! Ledgers on a real disk: written, cut, changed, verified.
#![cfg(test)]

mod powercut;
mod support;
mod verify;
mod writer;

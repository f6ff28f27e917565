//! Ledgers on a real disk: written, cut, changed, verified.
#![cfg(test)]

mod support;
mod verify;
mod writer;

//! Ledgers on a real disk: written, cut, changed, verified.
#![cfg(test)]

mod leases;
mod powercut;
mod support;
mod verify;
mod writer;

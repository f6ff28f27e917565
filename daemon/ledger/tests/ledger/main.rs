//! Ledgers on a real disk: written, cut, changed, verified.
#![cfg(test)]

mod forgeries;
mod leases;
mod powercut;
mod support;
mod verify;
mod writer;

//! The store of approvals: what it keeps, what it gives once, and what it refuses.
#![cfg(test)]

mod hostile;
mod kills;
mod races;
mod steps;
mod support;

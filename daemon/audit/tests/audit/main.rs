//! Audits of ledgers that the gate itself decided and the ledger's writer wrote.
#![cfg(test)] // a helper may unwrap like the tests that it helps

mod advice;
mod classes;
mod inert;
mod labels;
mod load;
mod scene;
mod source;

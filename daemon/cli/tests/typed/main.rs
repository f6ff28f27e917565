//! The program as it is typed, against a service that is a real socket peer.
#![cfg(test)] // a helper may unwrap like the tests that it helps

mod action;
mod alone;
mod diff;
mod import_live;
mod init;
mod ledger;
mod offline;
mod pipes;
mod quickstart;
mod reviews;
mod scan;
mod service;
mod terminal;

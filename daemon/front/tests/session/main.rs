//! One session's front against a gate that is a real socket peer, with raw lines of both eras.

#![cfg(test)] // a helper may unwrap like the tests that it helps

mod bounds;
mod eras;
mod peer;
mod refusals;

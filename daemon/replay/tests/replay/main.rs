//! Recorded calls, replayed.
#![cfg(test)]

mod engine;
mod form;
mod recorded;
mod scene;
mod traces;

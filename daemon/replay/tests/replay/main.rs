//! Recorded calls, replayed.
#![cfg(test)]

mod adaptive;
mod engine;
mod form;
mod recorded;
mod scene;
mod traces;

//! Recorded calls, replayed.

mod engine;
mod form;
mod recorded;
mod scene;

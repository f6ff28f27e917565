//! Recorded calls through the gate, without effects.
//!
//! Which rules decide, and what each is for: [`docs/rules.md`](../docs/rules.md).
#![forbid(unsafe_code)]

//! What we claim: integration tests, the bypass suite, its runner.
//!
//! | module | what |
//! |---|---|
//! | [`evidence`] | rows, and the status of property E computed from them |
//! | [`probe`] | one attack, as it runs inside a session |
//! | [`standin`] | targets for the controls: where a layer or the gate is missing |
//! | [`witness`] | the real service whose record says what happened |
//!
//! **Invariant:** nothing here is part of the service; nothing of the service depends on it.

pub mod evidence;
pub mod probe;
pub mod standin;
pub mod witness;

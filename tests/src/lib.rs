//! What we claim: integration tests, the bypass suite, its runner.
//!
//! | module | what |
//! |---|---|
//! | [`agent`] | an agent that a test speaks for |
//! | [`attempts`] | the attempts, as data |
//! | [`evidence`] | rows, and the status of property E computed from them |
//! | [`ground`] | what integration tests stand on: an installation and a witness |
//! | [`host`] | a private installation of the real programs |
//! | [`nspawn`] | a machine with systemd as its pid 1 |
//! | [`probe`] | one attack, as it runs inside a session |
//! | [`refused`] | refused configurations: provoked, and reached where they are permitted |
//! | [`register`] | every credential and key, held against the source |
//! | [`standin`] | targets for the controls: where a layer or the gate is missing |
//! | [`suite`] | every attempt in its arms, judged by the witness |
//! | [`witness`] | the real service whose record says what happened |
//!
//! **Invariant:** nothing here is part of the service; nothing of the service depends on it.

pub mod agent;
pub mod attempts;
pub mod evidence;
pub mod ground;
pub mod host;
pub mod nspawn;
pub mod probe;
pub mod refused;
pub mod register;
pub mod standin;
pub mod suite;
pub mod witness;

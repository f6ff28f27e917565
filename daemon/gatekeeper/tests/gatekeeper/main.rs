//! A whole gate with everything around it under the test's control: custodyd's end, control's,
//! the vault's and each front's, all of them real channels with real frames.
#![cfg(test)]

mod answers;
mod approvals;
mod audited;
mod bounds;
mod calls;
mod channels;
mod crash;
mod delegation;
mod harness;
mod leases;
#[cfg(feature = "cedar")]
mod rules;
mod start;
mod waiting;

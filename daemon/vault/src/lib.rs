//! custody-vault: credentials, their floor, spent permits, receipts.
//!
//! It acts on permits alone: each is verified, spent, held against what custodyd said of the
//! session and against the credential's floor, rendered here, and handed to a worker that holds
//! that one credential. An intent is on disk before an effect that is not idempotent, a receipt in
//! the chain before its answer.
//!
//! **Invariant:** no network and no hostile input: it reads permits, its own workers' answers and
//! root's policies. A credential leaves it as one sealed descriptor for one worker, never in a
//! log, an error, an answer or a receipt.
#![forbid(unsafe_code)]

mod accept;
mod approvals;
mod check;
pub mod credential;
mod custodyd;
mod doubts;
mod egress;
mod gate_link;
mod lease;
mod locks;
mod perform;
mod policies;
mod precondition;
mod receipts;
mod recover;
mod resolver;
mod reviewers;
mod session;
mod spent;
mod stream;
mod vault;
mod verify;
mod versions;
mod worker;
mod workers;

pub use custodyd::NoticeError;
pub use vault::{Config, VaultError, serve};

/// The most calls of one session on their way.
const SESSION_CALLS: usize = 16;

/// The same, as it is counted.
const SESSION_CALLS_MAX: usize = 16;

/// The most calls on their way over all sessions. Each holds its request and its answer, some
/// 2 MiB at worst.
const ALL_CALLS: usize = 256;

/// The most streams of one session at once: each is one of its calls for as long as it lasts.
const SESSION_STREAMS_MAX: usize = 4;

/// The same over all sessions: a quarter of all calls, so that who streams keeps nobody else from calling.
const ALL_STREAMS_MAX: usize = 64;

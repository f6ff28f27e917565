//! custody-control: the operator's face of the service.
//!
//! Each connection to the operators' socket is a task; the kernel says who is at its other end
//! (SO_PEERCRED, SO_PEERGROUPS), the configuration what he may do. A session belongs to the
//! connection that asked for it: when that is gone, the session is stopped.
//!
//! | module | what |
//! |---|---|
//! | [`caller`] | who is at the other end, and what the rules let him do |
//! | [`client`] | frames and descriptors of one connection, bounded in size and time |
//! | `closing` | connections that were not let in, on their way to be closed |
//! | [`command`] | the command's memory file: sealed, small enough, well formed |
//! | [`custodyd`] | orders to custodyd, and its notices to whoever waits |
//! | [`opening`] | the gate: opening and closing a session |
//! | [`places`] | how many connections each user may have |
//! | [`policies`] | which policies there are |
//! | [`reviews`] | calls that wait for a person: kept, shown, answered |
//! | [`run`] | one session from the request to its end |
//! | [`serve`] | the listener, who is let in, the small requests |
//! | [`sessions`] | which sessions there are, and whose |
//! | [`workspace`] | a folder that a caller may give away, and its path |
//!
//! **Invariant:** no credential, no decision on a call: of an agent's data it keeps what a reviewer is to
//! be shown, and hands it on. What is launched is launched confined by custodyd, whatever is asked here.
#![forbid(unsafe_code)]

pub mod caller;
pub mod client;
mod closing;
pub mod command;
pub mod custodyd;
pub mod opening;
pub mod places;
pub mod policies;
pub mod reviews;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod workspace;

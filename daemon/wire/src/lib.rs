//! The framed protocol between the programs: types, limits, nothing else.
//!
//! A file is a border: who speaks to whom. What crosses it is an enum of requests and one of
//! answers, each a [`Message`] with a cap of its own. A stream carries [frames](frame); a
//! `SOCK_SEQPACKET` pair carries one message a datagram, with file descriptors beside it.
//!
//! | module | between | carried by |
//! |---|---|---|
//! | [`agent`] | front and gate | stream |
//! | [`launch`] | custodyd and custody-launch | seqpacket |
//! | [`operator`] | CLI and control | stream |
//! | [`perform`] | vault and effect | stream |
//! | [`permit`] | gate and vault | stream |
//! | [`revoke`] | (a word on several of these) | – |
//! | [`session`] | control and gate | stream |
//! | [`supervise`] | custodyd and each of control, gate and vault | seqpacket |
//!
//! **Invariant:** no policy, no I/O of its own beyond moving whole frames, no file descriptor.
#![forbid(unsafe_code)]

pub mod agent;
pub mod doctor;
pub mod frame;
pub mod launch;
pub mod layer;
pub mod operator;
pub mod perform;
pub mod permit;
pub mod profile;
pub mod refused;
pub mod revoke;
pub mod session;
pub mod supervise;

pub use frame::Message;

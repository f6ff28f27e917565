//! custody-front: everything that one session's agent sends is parsed here, and nowhere nearer to
//! a key.
//!
//! | module | what |
//! |---|---|
//! | [`listen`] | accepts the agent's connections, so many at once |
//! | [`line`] | one line at a time, none longer than its cap |
//! | [`strict`] | a line is one JSON-RPC message with one meaning, or an error that says why not |
//! | [`transport`] | puts the two in front of the protocol's library |
//! | [`mcp`] | the Model Context Protocol, both eras, by rmcp |
//! | [`ask`] | one typed call to the gate, one answer |
//! | [`say`] | the gate's answer in the protocol's words |
//! | [`stream`] | answers that are read while they come, each by a connection of its own |
//!
//! **Invariant:** no credential, no policy, no decision. Who asks is the listener that the
//! connection came in by: nothing in a message counts.
#![forbid(unsafe_code)]

pub mod ask;
pub mod line;
pub mod listen;
pub mod mcp;
pub mod say;
pub mod stream;
pub mod strict;
pub mod transport;
pub mod used;

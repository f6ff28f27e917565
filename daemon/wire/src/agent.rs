//! front ↔ gate: one typed call at a time from one session.
//!
//! The channel is the session's identity: no message names a session. Beside a frame from the gate there may
//! be a descriptor (`custody_service::beside`).

use gate::{
    digest::Digest,
    id::ToolName,
    record::{Ended, Freshness, Verification},
};
use serde::{Deserialize, Serialize};

use crate::Message;

/// The descriptor of this channel in a front; its listener is the next one.
pub const CHANNEL_FD: i32 = 3;

/// The descriptor of the session's listener in a front.
pub const LISTENER_FD: i32 = 4;

/// The most bytes of one call's arguments in RFC 8785 form.
pub const ARGUMENTS_CAP: usize = 256 << 10;

/// The most bytes of one result that reach an agent.
pub const RESULT_CAP: usize = 1 << 20;

/// front → gate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// A call, as the agent wrote it: the name is not yet known to be one.
    Call {
        /// Numbered by the front; the answer carries it.
        number: u64,
        /// The tool's name, as sent.
        tool: String,
        /// The arguments, in RFC 8785 form.
        arguments: Vec<u8>,
    },
    /// Which tools are there?
    Tools {
        /// Numbered by the front.
        number: u64,
    },
}

impl Message for Request {
    const CAP: usize = ARGUMENTS_CAP + (8 << 10);
    const KIND: u8 = 30;
}

/// gate → front.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Answer {
    /// The call was allowed and performed. The result is recorded already.
    Done {
        /// Of which call.
        number: u64,
        /// The call's digest.
        call: Digest,
        /// What the effect answered, scrubbed of the credential.
        result: Vec<u8>,
        /// Whether `result` is JSON that parses.
        json: bool,
        /// The status of the effect (HTTP: the status code), so that the agent sees that a server
        /// refused what the gate allowed.
        status: u16,
        /// What reading it back came to.
        verification: Verification,
        /// What was looked at before it was done.
        freshness: Freshness,
    },
    /// The call was allowed, and the effect did not happen or may not have.
    Failed {
        /// Of which call.
        number: u64,
        /// Why, and what the agent may do.
        why: String,
        /// The effect may have happened: unless the tool is idempotent, find out before repeating it.
        in_doubt: bool,
        /// What reading it back came to: where that is verified, it happened.
        verification: Verification,
    },
    /// The call waits, for a person or for the end of its turn; nothing was performed. Asking the same
    /// again says the same until it no longer waits.
    Held {
        /// Of which call.
        number: u64,
        /// The call's digest: what an approval binds.
        call: Digest,
        /// Until when it waits, in milliseconds since 1970.
        expires: u64,
        /// What it is called while it waits: the position of its decision record.
        pending: u64,
        /// The rule, by its stable name; the first, if it is more than one.
        rule: String,
        /// Which argument, if one.
        argument: Option<String>,
        /// Why, and what would change it.
        why: String,
    },
    /// The call was allowed, and its answer streams: its lease and whose words it brings are recorded, and
    /// [`Answer::Stream`] came before.
    Leased {
        /// Of which call.
        number: u64,
        /// The call's digest.
        call: Digest,
        /// What the stream is called.
        stream: u64,
        /// The status of the effect (HTTP: the status code).
        status: u16,
        /// How long it may be read, in milliseconds.
        ms: u32,
    },
    /// Unasked: a stream is over.
    Over {
        /// What it is called.
        stream: u64,
        /// How it ended. Where something of ours cut it, nothing more of it reaches the agent.
        ended: Ended,
    },
    /// The call was refused; nothing was performed.
    Refused {
        /// Of which call.
        number: u64,
        /// The rule, by its stable name.
        rule: String,
        /// Which argument, if one.
        argument: Option<String>,
        /// Why, and what the agent may do.
        why: String,
    },
    /// Unasked: a stream of this session. Beside it: the descriptor over which its bytes come.
    Stream {
        /// What it is called: the position of the record that opened it.
        stream: u64,
    },
    /// The tools of this session, in the order of their names.
    Tools {
        /// Of which request.
        number: u64,
        /// Each tool with only the arguments that the agent may author.
        tools: Vec<ToolView>,
    },
}

/// A tool as the agent sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ToolView {
    /// Its name.
    pub name: ToolName,
    /// What it does, in the operator's words.
    pub description: String,
    /// The JSON Schema of its arguments (an object), in RFC 8785 form.
    pub input_schema: Vec<u8>,
    /// Hints of MCP, from the policy.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// It may be repeated without another effect.
    pub idempotent: bool,
}

impl Message for Answer {
    const CAP: usize = RESULT_CAP + (64 << 10);
    const KIND: u8 = 31;
}

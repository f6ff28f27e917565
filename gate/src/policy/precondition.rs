//! What must still be so when an effect is sent.

use serde::{Deserialize, Serialize};

use super::{Pointer, Read};
use crate::{id::ToolName, template::Text};

/// What must still be so when an effect is sent. Of a conditional request the target itself looks,
/// in the moment in which it acts; of a read before it, only the time between is short.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Precondition {
    /// `If-Match` with this version: an argument of the call, as the policy says.
    IfMatch(Text),
    /// `If-Match` with the version that this session last read of the same thing: the vault keeps it,
    /// and the agent has no say in it.
    LastRead {
        /// Where in the answer the version stands; where nobody says, it is the field `ETag`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<Pointer>,
        /// The tool that reads it.
        tool: ToolName,
    },
    /// Read right before, and only then sent.
    ReadAgain(Read),
}

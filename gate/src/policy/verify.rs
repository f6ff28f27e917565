//! How an effect is read back: where to look, and what must stand there.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Kind, Pointer};
use crate::{id::ArgumentName, request::Template, template::Body};

/// How the effect of a tool is read back.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Values that only the effect's answer has: an id that the server gave.
    pub captures: BTreeMap<ArgumentName, Capture>,
    /// How long to wait between two reads, in milliseconds.
    pub delay_ms: u32,
    /// Whether a tool whose effect is not there is performed no more.
    pub lock_on_mismatch: bool,
    /// What shows whether it is there.
    pub look: Look,
    /// After how long whatever was sent shows or never will, in milliseconds. Where nobody says,
    /// an effect in doubt that is not there stays in doubt: it may still be on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settles_ms: Option<u32>,
    /// The most reads.
    pub tries: u32,
}

impl Verify {
    /// Whether it can be read back without the effect's answer, which a crash loses.
    pub fn needs_no_answer(&self) -> bool {
        self.captures.is_empty()
    }
}

/// What shows whether an effect is there.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// A program of the operator's on this host, without a credential and without a network.
    Command(Command),
    /// A read with the tool's credential.
    Read(Read),
}

/// A program that says by its exit status whether an effect is there
/// ([`shown_by_command`](crate::readback::shown_by_command)). It is told the call on standard input.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program's absolute path, and its arguments: the operator's own words, nothing of a call.
    pub argv: Vec<String>,
    /// Files and folders that it may read besides the system's programs, by absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// How long one run may take, in milliseconds.
    pub timeout_ms: u32,
}

/// A value of the effect's answer, of one type.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Its type and bounds.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Where it stands.
    pub pointer: Pointer,
}

/// A read with the tool's credential, on its floor, and what must come of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// What must stand where: an argument of the call, a captured value, or what the policy says.
    pub expect: BTreeMap<Pointer, Body>,
    /// The request: a GET.
    pub request: Template,
    /// The status that it must have.
    pub status: u16,
}

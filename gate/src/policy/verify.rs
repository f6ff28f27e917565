//! How an effect is read back: where to look, and what must stand there.

use alloc::collections::BTreeMap;

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
    /// What is read, and what it must show.
    pub read: Read,
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

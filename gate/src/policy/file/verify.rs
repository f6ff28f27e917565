//! The shape of a read-back.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::Deserialize;

use super::{KindName, RequestTable, Typed};
use crate::{
    id::{ArgumentName, ToolName},
    json::Value,
    policy::{Pattern, Pointer},
    request::Method,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct VerifyTable {
    #[serde(default)]
    pub(in crate::policy) capture: BTreeMap<ArgumentName, CaptureTable>,
    #[serde(default = "delay_ms")]
    pub(in crate::policy) delay_ms: u32,
    #[serde(default)]
    pub(in crate::policy) lock_on_mismatch: bool,
    pub(in crate::policy) settles_ms: Option<u32>,
    #[serde(default = "tries")]
    pub(in crate::policy) tries: u32,

    #[serde(default = "timeout_ms")]
    pub(in crate::policy) timeout_ms: u32,

    // By a read.
    pub(in crate::policy) answer_max_bytes: Option<u32>,
    pub(in crate::policy) expect: Option<BTreeMap<Pointer, Value>>,
    pub(in crate::policy) headers: Option<BTreeMap<String, String>>,
    pub(in crate::policy) status: Option<u16>,
    pub(in crate::policy) url: Option<String>,

    // By a program.
    pub(in crate::policy) command: Option<Vec<String>>,
    pub(in crate::policy) reads: Option<Vec<String>>,
}

impl VerifyTable {
    /// Whether it has a key that speaks of a request.
    pub(in crate::policy) fn has_request(&self) -> bool {
        self.url.is_some()
            || self.answer_max_bytes.is_some()
            || self.expect.is_some()
            || self.headers.is_some()
            || self.status.is_some()
    }
}

/// A read: the keys of [`VerifyTable`] that speak of the request alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ReadTable {
    #[serde(default = "answer_max_bytes")]
    pub(in crate::policy) answer_max_bytes: u32,
    #[serde(default)]
    pub(in crate::policy) expect: BTreeMap<Pointer, Value>,
    #[serde(default)]
    pub(in crate::policy) headers: BTreeMap<String, String>,
    #[serde(default = "status")]
    pub(in crate::policy) status: u16,
    #[serde(default = "timeout_ms")]
    pub(in crate::policy) timeout_ms: u32,
    pub(in crate::policy) url: String,
}

impl ReadTable {
    /// The request as that of a tool is written.
    pub(in crate::policy) fn request(self) -> (RequestTable, BTreeMap<Pointer, Value>, u16) {
        let request = RequestTable {
            method: Method::Get,
            url: self.url,
            headers: self.headers,
            body: None,
            timeout_ms: self.timeout_ms,
            answer_max_bytes: self.answer_max_bytes,
            stream: false,
        };
        (request, self.expect, self.status)
    }
}

/// One of three.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct PreconditionTable {
    pub(in crate::policy) if_match: Option<String>,
    pub(in crate::policy) last_read: Option<LastReadTable>,
    pub(in crate::policy) read_again: Option<ReadTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct LastReadTable {
    pub(in crate::policy) field: Option<Pointer>,
    pub(in crate::policy) tool: ToolName,
}

/// A value of the effect's answer: one that a path or a query takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct CaptureTable {
    pub(in crate::policy) pointer: Pointer,

    #[serde(rename = "type")]
    kind: KindName,
    max: Option<Value>,
    max_length: Option<u32>,
    min: Option<Value>,
    min_length: Option<u32>,
    one_of: Option<Vec<String>>,
    pattern: Option<Pattern>,
}

impl CaptureTable {
    pub(in crate::policy) fn into_parts(self) -> (Pointer, Typed) {
        let typed = Typed {
            kind: Some(self.kind),
            max: self.max,
            max_length: self.max_length,
            min: self.min,
            min_length: self.min_length,
            one_of: self.one_of,
            pattern: self.pattern,
            ..Typed::default()
        };
        (self.pointer, typed)
    }
}

/// A system that shows what it did within a second is usual.
const fn tries() -> u32 {
    3
}

const fn delay_ms() -> u32 {
    250
}

pub(in crate::policy) const fn status() -> u16 {
    200
}

/// Shorter than a tool's own: an agent waits for both.
const fn timeout_ms() -> u32 {
    5_000
}

pub(in crate::policy) const fn answer_max_bytes() -> u32 {
    64 << 10
}

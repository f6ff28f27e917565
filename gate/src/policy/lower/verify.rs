//! Read-backs.

use alloc::collections::BTreeMap;

use super::{argument, request};
use crate::{
    json::Value,
    policy::{
        Capture, Pointer, Precondition, Problem, Read, Verify,
        error::Fault,
        file::{PreconditionTable, ReadTable, VerifyTable},
    },
    template::{Body, Text},
};

pub(super) fn verify(table: VerifyTable) -> Result<Verify, Fault> {
    let captures = table
        .capture
        .into_iter()
        .map(|(name, table)| {
            let (pointer, typed) = table.into_parts();
            let kind = argument::kind(typed).map_err(|it| it.under(&["capture", name.as_str()]))?;
            Ok((name, Capture { kind, pointer }))
        })
        .collect::<Result<_, Fault>>()?;
    Ok(Verify {
        captures,
        delay_ms: table.delay_ms,
        lock_on_mismatch: table.lock_on_mismatch,
        read: read(ReadTable {
            answer_max_bytes: table.answer_max_bytes,
            expect: table.expect,
            headers: table.headers,
            status: table.status,
            timeout_ms: table.timeout_ms,
            url: table.url,
        })?,
        settles_ms: table.settles_ms,
        tries: table.tries,
    })
}

pub(super) fn precondition(table: PreconditionTable) -> Result<Precondition, Fault> {
    match (table.if_match, table.last_read, table.read_again) {
        (Some(text), None, None) => Text::parse(&text)
            .map(Precondition::IfMatch)
            .map_err(|why| Problem::Template(why).at(&["if_match"])),
        (None, Some(table), None) => Ok(Precondition::LastRead {
            field: table.field,
            tool: table.tool,
        }),
        (None, None, Some(table)) => read(table)
            .map(Precondition::ReadAgain)
            .map_err(|it| it.under(&["read_again"])),
        _ => Err(Problem::Verify {
            why: "write exactly one of `if_match`, `last_read` and `read_again`",
        }
        .at(&[])),
    }
}

pub(super) fn read(table: ReadTable) -> Result<Read, Fault> {
    let (request, expect, status) = table.request();
    Ok(Read {
        expect: expected(expect)?,
        request: request::request(request)?,
        status,
    })
}

fn expected(expect: BTreeMap<Pointer, Value>) -> Result<BTreeMap<Pointer, Body>, Fault> {
    expect
        .into_iter()
        .map(|(pointer, value)| {
            let at = alloc::string::String::from(pointer.clone());
            if request::has_date(&value) {
                return Err(Problem::Date.at(&["expect", &at]));
            }
            let body =
                Body::parse(value).map_err(|why| Problem::Template(why).at(&["expect", &at]))?;
            Ok((pointer, body))
        })
        .collect()
}

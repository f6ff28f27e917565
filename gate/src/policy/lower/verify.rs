//! Read-backs.

use alloc::collections::BTreeMap;
use core::mem;

use super::{argument, request};
use crate::{
    json::Value,
    policy::{
        Capture, Command, Look, Pointer, Precondition, Problem, Read, Verify,
        error::Fault,
        file::{PreconditionTable, ReadTable, VerifyTable, answer_max_bytes, status},
    },
    template::{Body, Text},
};

pub(super) fn verify(mut table: VerifyTable) -> Result<Verify, Fault> {
    let captures = mem::take(&mut table.capture)
        .into_iter()
        .map(|(name, table)| {
            let (pointer, typed) = table.into_parts();
            let kind = argument::kind(typed).map_err(|it| it.under(&["capture", name.as_str()]))?;
            Ok((name, Capture { kind, pointer }))
        })
        .collect::<Result<_, Fault>>()?;
    let (delay_ms, lock_on_mismatch) = (table.delay_ms, table.lock_on_mismatch);
    let (settles_ms, tries) = (table.settles_ms, table.tries);
    Ok(Verify {
        captures,
        delay_ms,
        lock_on_mismatch,
        look: look(table)?,
        settles_ms,
        tries,
    })
}

fn look(table: VerifyTable) -> Result<Look, Fault> {
    let has_request = table.has_request();
    match (table.command, table.url) {
        (Some(argv), None) if !has_request => Ok(Look::Command(Command {
            argv,
            reads: table.reads.unwrap_or_default(),
            timeout_ms: table.timeout_ms,
        })),
        (None, Some(url)) if table.reads.is_none() => read(ReadTable {
            answer_max_bytes: table.answer_max_bytes.unwrap_or_else(answer_max_bytes),
            expect: table.expect.unwrap_or_default(),
            headers: table.headers.unwrap_or_default(),
            status: table.status.unwrap_or_else(status),
            timeout_ms: table.timeout_ms,
            url,
        })
        .map(Look::Read),
        _ => Err(Problem::Verify {
            why: "write `url` with what must stand in its answer, or `command` with the files that it `reads`; \
                  the keys of one are not those of the other",
        }
        .at(&[])),
    }
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

//! The gate's answer in the protocol's words: text for a model, the same for a program.

use std::{collections::BTreeMap, sync::Arc};

use custody_wire::agent::{Answer, ToolView};
use gate::record::{Finding, Freshness, Verification, Why};
use rmcp::model::{
    CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ElicitationSchema,
    InputRequest, InputRequiredResult, JsonObject, MetaObject, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

use crate::ask::Gone;

/// The key of the call's digest in `_meta`: what the decision record and the receipt name.
const CALL_DIGEST: &str = "custody/call";

/// The key of the effect's status in `_meta`.
const STATUS: &str = "custody/status";

/// The key of what a call waits for, in `_meta`.
const HELD: &str = "custody/held";

/// The key of what reading the effect back came to, in `_meta`.
const VERIFICATION: &str = "custody/verification";

/// The key of what was looked at before the effect, in `_meta`.
const FRESHNESS: &str = "custody/freshness";

/// The key of a stream, in `_meta` and beside what a program reads.
const STREAM: &str = "custody/stream";

/// The least HTTP status that is an error (RFC 9110, section 15.5).
const ERROR_STATUS: u16 = 400;

/// What came of a call.
pub fn outcome(answer: Result<Answer, Gone>) -> CallToolResult {
    match answer {
        Ok(Answer::Done {
            number: _,
            call,
            result,
            json,
            status,
            verification,
            freshness,
        }) => {
            let mut meta = JsonObject::new();
            meta.insert(CALL_DIGEST.into(), call.to_string().into());
            meta.insert(STATUS.into(), status.into());
            if let Some(looked) = looked_at(freshness) {
                meta.insert(FRESHNESS.into(), looked);
            }
            if !verification.is_unsupported() {
                meta.insert(VERIFICATION.into(), read_back(&verification));
            }
            done(&result, json, status, &verification).with_meta(Some(MetaObject(meta)))
        }
        Ok(Answer::Failed {
            why,
            in_doubt,
            verification,
            ..
        }) => failed(&why, in_doubt, &verification),
        Ok(Answer::Held {
            number: _,
            call,
            expires,
            pending,
            rule,
            argument,
            why,
        }) => {
            let mut meta = JsonObject::new();
            meta.insert(CALL_DIGEST.into(), call.to_string().into());
            held(pending, expires, &rule, argument.as_deref(), &why)
                .with_meta(Some(MetaObject(meta)))
        }
        Ok(Answer::Leased {
            number: _,
            call,
            stream,
            status,
            ms,
        }) => {
            let mut meta = JsonObject::new();
            meta.insert(CALL_DIGEST.into(), call.to_string().into());
            meta.insert(STATUS.into(), status.into());
            meta.insert(STREAM.into(), stream.into());
            leased(stream, status, ms).with_meta(Some(MetaObject(meta)))
        }
        Ok(Answer::Refused {
            rule,
            argument,
            why,
            ..
        }) => refused(&rule, argument.as_deref(), &why),
        Ok(Answer::Over { .. } | Answer::Stream { .. } | Answer::Tools { .. }) => {
            failed(&Gone::Wrong.to_string(), true, &Verification::UNSUPPORTED)
        }
        Err(gone @ Gone::BeforeAsking) => {
            failed(&gone.to_string(), false, &Verification::UNSUPPORTED)
        }
        Err(gone @ (Gone::Unanswered | Gone::Wrong)) => {
            failed(&gone.to_string(), true, &Verification::UNSUPPORTED)
        }
    }
}

fn done(result: &[u8], json: bool, status: u16, verification: &Verification) -> CallToolResult {
    let text = String::from_utf8_lossy(result);
    let structured = json
        .then(|| serde_json::from_slice::<JsonObject>(result).ok())
        .flatten();
    let mut content = vec![ContentBlock::text(text.as_ref())];
    if text.as_bytes() != result {
        content.push(ContentBlock::text(
            "note: the result is not UTF-8; what is no text was replaced by U+FFFD",
        ));
    }
    let seen = seen(verification);
    content.extend(seen.map(ContentBlock::text));
    let lied = verification.finding == Finding::Mismatched;
    let mut said = if status < ERROR_STATUS && !lied {
        CallToolResult::success(content)
    } else if lied {
        CallToolResult::error(content)
    } else {
        content.push(ContentBlock::text(format!(
            "note: the call was allowed and performed; the server answered status {status}"
        )));
        CallToolResult::error(content)
    };
    // What a server says of an effect that is not there is not to be worked with.
    said.structured_content = if lied {
        Some(json!({
            "decision": "allow",
            "status": status,
            "verification": read_back(verification),
        }))
    } else {
        structured.map(Value::Object)
    };
    said
}

/// What reading back came to, for a program.
fn read_back(verification: &Verification) -> Value {
    json!({
        "finding": verification.finding.as_str(),
        "reads": verification.reads,
        "why": verification.why.as_ref().map(Why::as_str),
    })
}

/// What was looked at before the effect, for a program; nothing where nothing was.
fn looked_at(freshness: Freshness) -> Option<Value> {
    match freshness {
        Freshness::Closed => Some(json!({ "condition": "closed" })),
        Freshness::Narrowed { ms } => Some(json!({ "condition": "narrowed", "ms": ms })),
        Freshness::Unchecked => None,
    }
}

/// What a model should know of it; nothing where all is as it should be or nobody looks.
fn seen(verification: &Verification) -> Option<String> {
    let why = verification.why();
    match verification.finding {
        Finding::Unsupported | Finding::Verified => None,
        Finding::Mismatched => Some(format!(
            "note: mismatched: the server answered that it was done, and reading it back does not \
             show it: {why}. Do not take it for done; the operator has been told."
        )),
        Finding::Unobservable => Some(format!(
            "note: unobservable: it could not be read back: {why}. The server's answer is all that \
             is known."
        )),
        Finding::VerifierFailure => Some(format!(
            "note: verifier_failure: reading it back failed, which says nothing of the effect: \
             {why}."
        )),
    }
}

/// Where an answer is read that streams.
fn leased(stream: u64, status: u16, ms: u32) -> CallToolResult {
    let text = format!(
        "stream {stream}: the server answered status {status}, and its answer comes while it is read: \
         `custody-bridge --stream {stream}` writes it to standard output, once, for {} s from when it was \
         opened. Its text is not in this answer",
        ms / 1_000
    );
    let content = vec![ContentBlock::text(text)];
    let mut said = if status < ERROR_STATUS {
        CallToolResult::success(content)
    } else {
        CallToolResult::error(content)
    };
    said.structured_content = Some(json!({
        "decision": "allow",
        "status": status,
        STREAM: stream,
    }));
    said
}

fn refused(rule: &str, argument: Option<&str>, why: &str) -> CallToolResult {
    let about = argument.map_or_else(String::new, |name| format!(", argument `{name}`"));
    let mut said = CallToolResult::error(vec![ContentBlock::text(format!(
        "refused by rule `{rule}`{about}: {why}. Nothing was performed."
    ))]);
    said.structured_content = Some(json!({
        "decision": "refuse",
        "rule": rule,
        "argument": argument,
        "why": why,
    }));
    said
}

/// Not an approval's way: whatever comes back through the agent approves nothing.
fn held(
    pending: u64,
    expires: u64,
    rule: &str,
    argument: Option<&str>,
    why: &str,
) -> CallToolResult {
    let about = argument.map_or_else(String::new, |name| format!(", argument `{name}`"));
    let mut said = CallToolResult::error(vec![ContentBlock::text(format!(
        "held by rule `{rule}`{about}, as pending {pending}: {why}. Nothing was performed. Go on with \
         something else; the same call again says what became of it."
    ))]);
    said.structured_content = Some(waits(pending, expires, rule, argument, why));
    said
}

/// A call that waits, as a client of 2026-07-28 shows it to its user: `input_required`, with a message and
/// nothing to fill in. Whatever comes back through the agent approves nothing; the second round is
/// answered as in older revisions.
pub fn asked_of_people(answer: &Result<Answer, Gone>) -> Option<InputRequiredResult> {
    let Ok(Answer::Held {
        call,
        expires,
        pending,
        rule,
        argument,
        why,
        ..
    }) = answer
    else {
        return None;
    };
    let message = format!(
        "A call of the agent's waits as call {pending} (rule `{rule}`): {why}. Answering here approves \
         nothing: a reviewer answers with `custody show {pending}` in a terminal of his own."
    );
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    };
    let requests = BTreeMap::from([(
        String::from("approval"),
        InputRequest::Elicitation(ElicitRequest::new(form)),
    )]);
    let mut meta = JsonObject::new();
    meta.insert(CALL_DIGEST.into(), call.to_string().into());
    meta.insert(
        HELD.into(),
        waits(*pending, *expires, rule, argument.as_deref(), why),
    );
    // A handle for readers: nothing is taken from it when it comes back.
    let state = format!("custody/{pending}");
    Some(InputRequiredResult::new(Some(requests), Some(state)).with_meta(MetaObject(meta)))
}

fn waits(pending: u64, expires: u64, rule: &str, argument: Option<&str>, why: &str) -> Value {
    json!({
        "decision": "hold",
        "pending": pending,
        "expires_unix_ms": expires,
        "rule": rule,
        "argument": argument,
        "why": why,
    })
}

fn failed(why: &str, in_doubt: bool, verification: &Verification) -> CallToolResult {
    let then = if verification.finding == Finding::Verified {
        "It was performed: reading it back shows it. Do not repeat it."
    } else if in_doubt {
        "It may have been performed: unless the tool is idempotent, find out before you repeat it."
    } else {
        "It was not performed."
    };
    let mut said =
        CallToolResult::error(vec![ContentBlock::text(format!("failed: {why}. {then}"))]);
    said.structured_content = Some(json!({
        "decision": "fail",
        "why": why,
        "in_doubt": in_doubt,
        "verification": (!verification.is_unsupported()).then(|| read_back(verification)),
    }));
    said
}

/// Why a tool cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error("the schema of tool `{tool}` is not a JSON object")]
pub struct SchemaError {
    tool: String,
    #[source]
    source: serde_json::Error,
}

/// A tool as MCP shows it. The order of the gate, by name, is kept by whoever lists.
///
/// # Errors
/// When its schema is not a JSON object.
pub fn tool(view: ToolView) -> Result<Tool, SchemaError> {
    let name = view.name.to_string();
    let schema: JsonObject =
        serde_json::from_slice(&view.input_schema).map_err(|source| SchemaError {
            tool: name.clone(),
            source,
        })?;
    let mut tool = Tool::new(name, view.description, Arc::new(schema));
    tool.annotations = Some(
        ToolAnnotations::new()
            .read_only(view.read_only)
            .destructive(view.destructive)
            .idempotent(view.idempotent)
            // Each is an effect outside the session.
            .open_world(true),
    );
    Ok(tool)
}

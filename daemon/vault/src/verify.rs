//! Reading an effect back: with the credential that it was performed with, or by the policy's program.

use std::time::Duration;

use custody_service::reason;
use gate::{
    floor,
    id::{CredentialLabel, SessionId, ToolName},
    policy::{Command, Credential, Look, Read, Tool, Verify},
    readback::{self, Shown},
    record::{Finding, Verification},
    request::{Arguments, HttpRequest},
};
use tokio::time::sleep;

use crate::{
    accept, check, receipts::Cleared, session::Session, vault::Vault, worker::Performed,
    workers::Wanted,
};

/// What is read back: whose effect, and what is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) arguments: &'a Arguments,
    /// What the effect answered, if it did.
    pub(crate) answer: Option<&'a [u8]>,
    pub(crate) name: &'a ToolName,
    pub(crate) tool: &'a Tool,
}

/// With whose worker: a session's, or that of no session.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) session: SessionId,
    pub(crate) open: &'a Session,
    pub(crate) label: &'a CredentialLabel,
    pub(crate) rules: &'a Credential,
}

/// Reads an effect back as its tool says, as often as it says, until it is seen.
pub(crate) async fn read_back(
    vault: &Vault,
    reader: Reader<'_>,
    subject: Subject<'_>,
) -> Verification {
    let Some(verify) = &subject.tool.verify else {
        return Verification::UNSUPPORTED;
    };
    let (arguments, way) = match prepare(verify, reader.rules, subject) {
        Ok(prepared) => prepared,
        Err(why) => return failure(&why),
    };
    let mut last = Shown {
        finding: Finding::Unobservable,
        why: String::new(),
    };
    let mut reads = 0_u32;
    while reads < verify.tries {
        if reads > 0 {
            sleep(Duration::from_millis(verify.delay_ms.into())).await;
        }
        reads = reads.saturating_add(1);
        last = match &way {
            Way::Command(command) => {
                let told = readback::told(subject.name, &arguments);
                check::run(vault, reader, subject.name, command, told).await
            }
            Way::Read(expected, request) => match read(vault, reader, request).await {
                Ok(answer) => readback::shown(expected, &arguments, answer.status, &answer.body),
                Err(why) => {
                    // Its words may be a server's, and what a finding says reaches the agent.
                    tracing::info!(session = %reader.session, label = %reader.label, why, "not read back");
                    Shown {
                        finding: Finding::Unobservable,
                        why: "the read got no whole answer".into(),
                    }
                }
            },
        };
        match last.finding {
            Finding::Verified | Finding::VerifierFailure => break,
            Finding::Mismatched | Finding::Unobservable | Finding::Unsupported => {}
        }
    }
    Verification {
        finding: last.finding,
        reads,
        why: (!last.why.is_empty()).then(|| reason::plain(&last.why).into()),
    }
}

/// What a read brought.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// When it was whole, by the boot clock.
    pub(crate) at: u64,
}

/// One read.
pub(crate) async fn read(
    vault: &Vault,
    reader: Reader<'_>,
    request: &HttpRequest,
) -> Result<Brought, String> {
    let wanted = Wanted {
        session: reader.session,
        open: reader.open,
        label: reader.label,
        rules: reader.rules,
        origin: &request.origin,
    };
    let worker = vault.workers.find(wanted, vault.means()).await;
    let worker = worker.map_err(|error| error.to_string())?;
    let addresses = worker
        .addresses(&request.origin)
        .ok_or("the worker's egress does not have the origin")?;
    let http = accept::http(request, addresses);
    match worker.perform(http, Cleared::Idempotent).await {
        Performed::Done {
            status, body, span, ..
        } => Ok(Brought {
            status,
            body,
            at: span.1,
        }),
        Performed::NotSent { why } | Performed::InDoubt { why } => Err(why),
    }
}

/// How it is looked.
enum Way<'a> {
    Command(&'a Command),
    Read(&'a Read, Box<HttpRequest>),
}

fn prepare<'a>(
    verify: &'a Verify,
    rules: &Credential,
    subject: Subject<'_>,
) -> Result<(Arguments, Way<'a>), String> {
    let arguments = match subject.answer {
        Some(answer) => readback::capture(verify, subject.arguments, answer)
            .map_err(|error| error.to_string())?,
        None if verify.needs_no_answer() => subject.arguments.clone(),
        None => {
            return Err("it is read back by what the effect answered, which is not known".into());
        }
    };
    let read = match &verify.look {
        Look::Command(command) => return Ok((arguments, Way::Command(command))),
        Look::Read(read) => read,
    };
    let request = readback::request(read, &arguments).map_err(|error| error.to_string())?;
    // The policy was held to it when it was compiled: this is the second key.
    floor::check(&rules.floor, &request).map_err(|error| error.to_string())?;
    accept::fits(&request).map_err(|error| error.to_string())?;
    Ok((arguments, Way::Read(read, Box::new(request))))
}

fn failure(why: &str) -> Verification {
    Verification {
        finding: Finding::VerifierFailure,
        reads: 0,
        why: Some(reason::plain(why).into()),
    }
}

//! What must still be so when an effect is sent, and whether it is.

use gate::{
    floor, freshness,
    policy::{Credential, Precondition, Tool},
    readback,
    record::Finding,
};

use crate::{
    accept::{self, Accepted},
    vault::Vault,
    verify,
};

/// The status by which a target says that the condition does not hold (RFC 9110, section 15.5.13).
pub(crate) const PRECONDITION_FAILED: u16 = 412;

/// What came of looking.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Looked {
    /// Send it with this version.
    Conditional(String),
    /// It is as it must be, seen at this time of the boot clock.
    Seen { at: u64 },
    /// It is not, or nobody could see: nothing is sent.
    Stale { why: String },
    /// Nothing is asked for.
    Unasked,
}

/// Looks.
pub(crate) async fn look(
    vault: &Vault,
    accepted: &Accepted,
    rules: &Credential,
    tool: &Tool,
) -> Looked {
    let stale = |why: &str| Looked::Stale {
        why: format!("stale: {why}; nothing was done"),
    };
    let arguments = &accepted.call.arguments;
    match &tool.precondition {
        None => Looked::Unasked,
        Some(Precondition::IfMatch(text)) => match freshness::version_of(text, arguments) {
            Some(version) => Looked::Conditional(version),
            None => stale("the call's version is none: one line of visible ASCII without quotes"),
        },
        Some(Precondition::LastRead { tool: reads, .. }) => {
            let policy = &accepted.session.loaded.policy;
            let target = freshness::read_by(policy, reads, &accepted.call).ok();
            match target
                .and_then(|target| accepted.session.versions.of(&accepted.bound.tool, &target))
            {
                Some(version) => Looked::Conditional(version),
                None => stale(&format!(
                    "this session has not read its version; call `{reads}` first"
                )),
            }
        }
        Some(Precondition::ReadAgain(read)) => {
            let prepared = readback::request(read, arguments)
                .map_err(|error| error.to_string())
                .and_then(|request| {
                    floor::check(&rules.floor, &request).map_err(|error| error.to_string())?;
                    accept::fits(&request).map_err(|error| error.to_string())?;
                    Ok(request)
                });
            let request = match prepared {
                Ok(request) => request,
                Err(why) => return stale(&why),
            };
            match verify::read(vault, accepted.reader(rules), &request).await {
                Ok(brought) => {
                    let shown = readback::shown(read, arguments, brought.status, &brought.body);
                    if shown.finding == Finding::Verified {
                        Looked::Seen { at: brought.at }
                    } else {
                        stale(&format!("read again right before, {}", shown.why))
                    }
                }
                Err(why) => {
                    tracing::info!(tool = %accepted.bound.tool, why, "not read again");
                    stale("it could not be read again")
                }
            }
        }
    }
}

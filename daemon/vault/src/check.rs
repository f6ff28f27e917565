//! One run of a policy's verifying program: custodyd starts it, and this side tells it the call and hears how
//! it ended.

use std::time::Duration;

use custody_service::reason;
use custody_wire::{
    frame,
    perform::{Check, Checked},
    supervise::VaultOrder,
};
use gate::{
    id::ToolName,
    policy::Command,
    readback::{Shown, shown_by_command},
    record::Finding,
};
use tokio::time::timeout;

use crate::{vault::Vault, verify::Reader};

/// How much longer than the program's own time is waited: the verifier says itself that it was too long.
const GRACE: Duration = Duration::from_secs(2);

/// Runs it once.
pub(crate) async fn run(
    vault: &Vault,
    reader: Reader<'_>,
    tool: &ToolName,
    command: &Command,
    told: Vec<u8>,
) -> Shown {
    let check = Check {
        told,
        timeout_ms: command.timeout_ms,
    };
    let patience = Duration::from_millis(command.timeout_ms.into()).saturating_add(GRACE);
    let custodyd = &vault.custodyd;
    let order = custodyd.number();
    let asked = VaultOrder::Verify {
        order,
        session: reader.session,
        policy: reader.open.loaded.policy.name().clone(),
        tool: tool.clone(),
    };
    let checked = match vault.workers.ordered(order, &asked, custodyd).await {
        Ok((channel, _pid)) => timeout(patience, ask(channel, &check))
            .await
            .unwrap_or_else(|_late| Err("it did not answer in time".into())),
        Err(why) => Err(why),
    };
    custodyd.order_or_lose(&VaultOrder::Stop { order });
    match checked {
        Ok(Checked::Exited { status, words }) => {
            let words = reason::plain(&String::from_utf8_lossy(&words));
            tracing::info!(session = %reader.session, %tool, status, words, "verifying program ended");
            shown_by_command(status)
        }
        Ok(Checked::Failed { why }) | Err(why) => {
            let why = reason::plain(&why);
            tracing::warn!(session = %reader.session, %tool, why, "verifying program says nothing");
            Shown {
                finding: Finding::VerifierFailure,
                why: "the policy's verifying program could not be run to its end".into(),
            }
        }
    }
}

async fn ask(channel: std::os::fd::OwnedFd, check: &Check) -> Result<Checked, String> {
    let stream = crate::custodyd::stream(channel).map_err(|error| error.to_string())?;
    let (mut from, mut to) = stream.into_split();
    frame::write_async(&mut to, check)
        .await
        .map_err(|error| error.to_string())?;
    frame::read_async(&mut from)
        .await
        .map_err(|error| error.to_string())
}

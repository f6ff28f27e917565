//! What an earlier run left open: read back where the tool can be, so that it is done, not done, or
//! in doubt. Nothing is performed again.

use std::{rc::Rc, time::Duration};

use custody_wire::supervise::NO_SESSION;
use gate::{
    call::Call,
    json,
    policy::{Credential, Tool, Verify},
    record::{Finding, Outcome, Verification},
};
use tokio::time::sleep;

use crate::{
    doubts::{self, Doubt},
    policies::{Loaded, Policies},
    receipts::ChainFailed,
    session::Session,
    vault::Vault,
    verify::{self, Reader, Subject},
};

/// How often a target that cannot be asked is asked again: a start of the whole host takes as long.
const ROUNDS: u32 = 5;

/// How long between two of these.
const PAUSE: Duration = Duration::from_secs(1);

/// What is needed to read an open intent back.
struct Known<'a> {
    call: Call,
    loaded: &'a Rc<Loaded>,
    tool: &'a Tool,
    verify: &'a Verify,
    rules: &'a Credential,
}

/// Whether the effect can be read back by this run: the call is there and is the one that the
/// permit bound, its policy is loaded, and nothing of the lost answer is needed.
pub(crate) fn can_be(doubt: &Doubt, policies: &Policies) -> bool {
    known(doubt, policies).is_some()
}

fn known<'a>(doubt: &Doubt, policies: &'a Policies) -> Option<Known<'a>> {
    let effect = &doubt.effect;
    let bytes = json::canonical(doubt.call.as_ref()?);
    let call = Call::from_bytes(&bytes).ok()?;
    if Call::digest_of(&bytes) != effect.call {
        return None;
    }
    let loaded = policies.values().find(|it| it.hash == effect.policy)?;
    let tool = loaded.policy.tools().get(&effect.tool)?;
    Some(Known {
        call,
        loaded,
        verify: tool.verify.as_ref().filter(|it| it.needs_no_answer())?,
        rules: loaded.policy.credential(&effect.credential)?,
        tool,
    })
}

/// Reads back, one after the other, and gives each its receipt.
pub(crate) async fn recover(vault: &Vault, doubts: Vec<Doubt>) -> Result<(), ChainFailed> {
    for doubt in doubts {
        let Some(known) = known(&doubt, vault.policies()) else {
            doubt.stays(&vault.receipts, Verification::UNSUPPORTED)?;
            continue;
        };
        let verification = look(vault, &doubt, &known).await;
        let settled = known.verify.settles_ms.is_some();
        let (why, intent) = (doubts::LOST.into(), Some(doubt.intent));
        let outcome = match verification.finding {
            Finding::Verified => Outcome::Found { verification, why },
            Finding::Mismatched if settled => Outcome::NotFound { verification, why },
            Finding::Mismatched
            | Finding::Unobservable
            | Finding::Unsupported
            | Finding::VerifierFailure => {
                doubt.stays(&vault.receipts, verification)?;
                continue;
            }
        };
        tracing::warn!(
            call = %doubt.effect.call,
            tool = %doubt.effect.tool,
            session = %doubt.effect.session,
            intent = doubt.intent.position,
            done = matches!(outcome, Outcome::Found { .. }),
            "the vault had ended between the intent and its receipt; reading back decided"
        );
        let _place = vault.receipts.receipt(doubt.effect, intent, outcome)?;
    }
    Ok(())
}

async fn look(vault: &Vault, doubt: &Doubt, known: &Known<'_>) -> Verification {
    // Whatever performed it ended with the earlier run. What it had sent may still be on its way.
    if let Some(ms) = known.verify.settles_ms {
        sleep(Duration::from_millis(ms.into())).await;
    }
    let open = Session::new(known.loaded);
    let reader = Reader {
        session: NO_SESSION,
        open: &open,
        label: &doubt.effect.credential,
        rules: known.rules,
    };
    let subject = Subject {
        arguments: &known.call.arguments,
        answer: None,
        name: &known.call.tool,
        tool: known.tool,
    };
    let mut found = verify::read_back(vault, reader, subject).await;
    for _round in 1..ROUNDS {
        if found.finding != Finding::Unobservable {
            break;
        }
        sleep(PAUSE).await;
        found = verify::read_back(vault, reader, subject).await;
    }
    found
}

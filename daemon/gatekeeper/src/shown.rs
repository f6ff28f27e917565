//! What a reviewer is shown of a call that waits.

use custody_wire::session::{Reason, SaidBy, Valued, VaultRun, Waits};
use gate::{
    approval,
    chain::Place,
    decide::{Ground, Held, class_of},
    id::ArgumentName,
    nonce::Nonce,
    session::{Facts, Reviewed},
};

use crate::{session::Session, vault::Link};

/// The most reasons of one call that are shown, and the most places of one value.
const REASONS_MAX: usize = 64;

/// A call as it is shown, and what an approval of it rests on.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) reviewed: Reviewed,
    /// Without the task and the vault's run: they are put in when it is sent.
    waits: Waits,
}

/// When a call began to wait, and until when it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) since: u64,
    pub(crate) expires: u64,
}

impl Shown {
    pub(crate) fn new(session: &Session, held: &Held, decision: Place, span: Span) -> Self {
        let policy = &session.loaded.policy;
        let grounds = held.grounds();
        let facts = session.facts.borrow();
        let waits = Waits {
            session: session.id,
            from: session.from.clone(),
            decision,
            digest: held.digest(),
            call: held.bytes().into(),
            tool: held.call().tool.clone(),
            policy: policy.name().clone(),
            policy_hash: held.policy(),
            caller_uid: session.caller_uid,
            task: None,
            since: span.since,
            expires: span.expires,
            needs: approval::needs(policy, held.call()),
            vault: None,
            reasons: held
                .reasons()
                .iter()
                .take(REASONS_MAX)
                .map(reason)
                .collect(),
            values: grounds
                .arguments
                .iter()
                .map(|(name, ground)| value(session, &facts, held, name, ground))
                .collect(),
            classes: grounds.classes.iter().map(ToString::to_string).collect(),
            risk: grounds.risk.as_str().into(),
            taint: grounds.taint.iter().map(ToString::to_string).collect(),
        };
        Self {
            reviewed: Reviewed::of(held),
            waits,
        }
    }

    pub(crate) const fn needs(&self) -> approval::Needs {
        self.waits.needs
    }

    /// The complete call in RFC 8785 form.
    pub(crate) fn call(&self) -> &[u8] {
        &self.waits.call
    }

    /// The same, as it is sent.
    pub(crate) fn waits(&self, task: Option<&str>, vault: Option<&Link>) -> Waits {
        Waits {
            task: task.map(String::from),
            vault: vault.map(|link| VaultRun {
                audience: link.audience(),
                epoch: Nonce(link.epoch()),
            }),
            ..self.waits.clone()
        }
    }
}

fn reason(it: &gate::decide::Reason) -> Reason {
    Reason {
        rule: it.rule.as_str().into(),
        argument: it.argument.clone(),
        why: it.why.clone(),
        change: it.change.clone(),
    }
}

/// Where the value comes from is looked up for every value that the application did not supply, whatever
/// held the call: a reviewer is to see it also where no rule had to ask. The text around each place is read
/// from the session's index, which bounds it (`gate::session::Facts::said_of`): 6 places of an argument and 200
/// bytes of each. It stays as it was when the call began to wait.
fn value(
    session: &Session,
    facts: &Facts,
    held: &Held,
    name: &ArgumentName,
    ground: &Ground,
) -> Valued {
    let call = held.call();
    let argument = session
        .loaded
        .policy
        .tools()
        .get(&call.tool)
        .and_then(|tool| tool.arguments.get(name))
        .filter(|it| !it.authority.is_trusted_value());
    let looked = argument.zip(call.arguments.get(name));
    let origin = ground
        .origin
        .or_else(|| looked.map(|(argument, value)| class_of(facts, argument, value)));
    let said = looked.map(|(_, value)| facts.said_of(value));
    Valued {
        argument: name.clone(),
        role: ground.role.as_str().into(),
        authority: ground.authority.as_str().into(),
        origin: origin.map(|it| it.as_str().into()),
        said_by: said
            .into_iter()
            .flatten()
            .map(|it| SaidBy {
                place: it.place,
                excerpt: it.around,
            })
            .collect(),
    }
}

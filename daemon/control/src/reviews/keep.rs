//! What the gate says unasked: a call waits, a call waits no longer.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use custody_approvals::{Asked, Heading, Key, State, StoreError, Which};
use custody_wire::session::{Answered, Outcome, Over, Reviewer, Unasked, Verdict, Waits};
use gate::call::Call;
use nix::unistd::geteuid;
use tokio::sync::mpsc;

use super::{Desk, DeskError, notify::Note};
use crate::serve::Service;

/// How many are ended in a row before the store is asked for more.
const PAGE: usize = 100;

/// Hears the gate, for ever.
pub async fn carry(service: Arc<Service>, mut unasked: mpsc::UnboundedReceiver<Unasked>) {
    // What it says of its own accord before it has said everything that waits.
    let mut said = Some(BTreeSet::new());
    while let Some(unasked) = unasked.recv().await {
        match unasked {
            Unasked::Current => {
                if let Some(said) = said.take() {
                    service.desk.settle(said).await;
                }
            }
            Unasked::Over(over) => service.desk.over(over).await,
            Unasked::Waits(waits) => {
                if let Some(said) = &mut said {
                    let _new = said.insert(key(&waits));
                }
                waits_for(&service, *waits).await;
            }
        }
    }
}

const fn key(waits: &Waits) -> Key {
    Key {
        session: waits.session,
        position: waits.decision.position,
    }
}

/// Keeps it; where it cannot be kept, the gate is told to let it lapse.
async fn waits_for(service: &Service, waits: Waits) {
    let (session, pending, digest) = (waits.session, waits.decision.position, waits.digest);
    let why = match service.desk.keep(waits).await {
        Ok(()) => return,
        Err(why) => why,
    };
    tracing::warn!(%session, pending, why, "a call cannot wait");
    let refusal = Answered {
        session,
        pending,
        digest,
        // Nobody was asked: it is this service that answers.
        reviewer: Reviewer {
            uid: geteuid().as_raw(),
            key: None,
        },
        verdict: Verdict::Lapse { why },
    };
    if let Err(error) = service.gate.answer(refusal).await {
        tracing::error!(%session, pending, %error, "a call that cannot wait does not lapse");
    }
}

impl Desk {
    /// Keeps a call that waits, or what is new of it.
    async fn keep(&self, waits: Waits) -> Result<(), String> {
        if Call::digest_of(&waits.call) != waits.digest {
            return Err("its digest is not that of its bytes".into());
        }
        let key = key(&waits);
        let there = self.ask(move |store, _now| store.find(key)).await;
        let is_new = match there {
            Ok(_row) => false,
            Err(DeskError::Store(StoreError::NotFound { .. })) => true,
            Err(error) => return Err(error.to_string()),
        };
        let most = self.limits.questions_per_minute;
        if is_new && !self.questions.admit(&key.session, most, Instant::now()) {
            return Err(format!(
                "this session asked a person {most} times within a minute; no more are shown to him: \
                 wait a minute, and ask for what matters"
            ));
        }
        let note = Note::of(&waits);
        let asked = self.asked(waits)?;
        let kept = self.ask(move |store, now| {
            if is_new {
                store.keep(&asked, now)
            } else {
                store.renew(&asked, now).map(drop)
            }
        });
        kept.await.map_err(|error| error.to_string())?;
        if is_new && self.notes.try_send(note).is_err() {
            tracing::warn!("too many calls wait to be told of; `custody pending` lists them");
        }
        Ok(())
    }

    /// What waits here of this daemon's and not there, where `said` is all that does, waits no longer.
    async fn settle(&self, said: BTreeSet<Key>) {
        let instance = self.instance.clone();
        let settled = self.ask(move |store, now| {
            let wanted = |it: &Heading| it.instance == instance && !said.contains(&it.key);
            let mut ended = 0_u64;
            loop {
                let page = store.list(Which::Waiting, None, PAGE, &wanted)?;
                for row in &page.rows {
                    let why = "the gate does not know of it";
                    let _row = store.finish(row.asked.key(), State::Lapsed, why, now)?;
                    ended = ended.saturating_add(1);
                }
                if page.next.is_none() {
                    return Ok(ended);
                }
            }
        });
        match settled.await {
            Ok(0) => {}
            Ok(ended) => tracing::warn!(ended, "calls waited that the gate does not know of"),
            Err(error) => tracing::error!(%error, "calls that nothing holds are not closed"),
        }
    }

    /// It waits no longer.
    async fn over(&self, over: Over) {
        let (end, why) = ended(&over.outcome);
        let (session, pending) = (over.session, over.pending);
        let key = Key {
            session,
            position: pending,
        };
        let ended = self.ask(move |store, now| store.finish(key, end, &why, now));
        match ended.await {
            Ok(_row) => tracing::info!(%session, pending, state = %end, "a call waits no longer"),
            // It was over before the gate said so: its session ended, or it was refused.
            Err(DeskError::Store(StoreError::State { state, .. })) => {
                tracing::debug!(%session, pending, %state, said = %end, "it was over already");
            }
            // It was over before this service heard that it waits.
            Err(DeskError::Store(StoreError::NotFound { .. })) => {
                tracing::debug!(%session, pending, said = %end, "a call was over at once");
            }
            Err(error) => tracing::error!(%session, pending, %error, "its end is not kept"),
        }
    }

    fn asked(&self, waits: Waits) -> Result<Asked, String> {
        Ok(Asked {
            call: waits.digest,
            caller: waits.caller_uid,
            classes: waits.classes.clone(),
            decision: waits.decision,
            expires: waits.expires,
            instance: self.instance.clone(),
            policy: waits.policy.clone(),
            session: waits.session,
            since: waits.since,
            tool: waits.tool.clone(),
            waits: to_json(&waits)?,
        })
    }
}

/// The state that an outcome is, and it in words.
pub(super) fn ended(outcome: &Outcome) -> (State, String) {
    match outcome {
        Outcome::Done { status } => (State::Done, format!("performed; the status is {status}")),
        Outcome::Failed { why } => (State::Failed, why.clone()),
        Outcome::InDoubt { why } => (State::InDoubt, why.clone()),
        Outcome::Lapsed { why } => (State::Lapsed, why.clone()),
        Outcome::Refused { why } => (State::Refused, why.clone()),
    }
}

/// As JSON, the call as the text that it is.
fn to_json(waits: &Waits) -> Result<String, String> {
    let text = std::str::from_utf8(&waits.call).map_err(|_utf8| "its bytes are no text")?;
    let mut value = serde_json::to_value(waits).map_err(|error| error.to_string())?;
    if let Some(call) = value.get_mut("call") {
        *call = text.into();
    }
    Ok(value.to_string())
}

/// What [`to_json`] wrote.
pub(super) fn from_json(text: &str) -> Option<Waits> {
    let mut value: serde_json::Value = serde_json::from_str(text).ok()?;
    let call = value.get_mut("call")?;
    let bytes = call.as_str()?.as_bytes().to_vec();
    *call = bytes.into();
    serde_json::from_value(value).ok()
}

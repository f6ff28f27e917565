//! What reviewers are shown: lists in pages, and a call whole.

use custody_approvals::{Approval, Cursor, Key, State as Kept, StoreError, Which, Word};
use custody_config::Caller;
use custody_wire::operator::{Answer, Behind, Ended, PendingView, Said, Shown, State};
use gate::id::SessionId;

use super::{Desk, DeskError, keep::from_json, rights};
use crate::serve::Service;

/// Rows of a page.
const PAGE: usize = 100;

/// A page of what `caller` may see.
pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    after: Option<Behind>,
    all: bool,
) -> Answer {
    let which = if all { Which::All } else { Which::Waiting };
    let after = after.map(|it| Cursor {
        since: it.since,
        key: Key {
            session: it.session,
            position: it.pending,
        },
    });
    let (rules, caller) = (service.desk.rules.clone(), caller.clone());
    let page = service.desk.ask(move |store, _now| {
        store.list(which, after, PAGE, &|it| Desk::may_see(&rules, &caller, it))
    });
    match page.await {
        Ok(page) => Answer::Pending {
            calls: page.rows.iter().filter_map(view).collect(),
            next: page.next.map(|it| Behind {
                since: it.since,
                session: it.key.session,
                pending: it.key.position,
            }),
        },
        Err(error) => refused(&error),
    }
}

/// The call, if `caller` may see it. One that he may not see and none at all are the same answer.
pub(crate) async fn show(
    service: &Service,
    caller: &Caller,
    pending: u64,
    session: Option<SessionId>,
) -> Answer {
    let desk = &service.desk;
    let row = match desk.find(caller, pending, session).await {
        Ok(row) => row,
        Err(why) => return Answer::Refused { why },
    };
    let Some(waits) = from_json(&row.asked.waits) else {
        let why = format!("call {} cannot be read", row.asked.key());
        return Answer::Refused { why };
    };
    let profile = service.sessions.profile(row.asked.session);
    let not_yours = match state(row.state) {
        State::Waiting => desk
            .may_answer(caller, &row.asked, waits.needs, profile)
            .err()
            .map(|it| it.to_string()),
        over @ (State::Approved
        | State::Done
        | State::Failed
        | State::InDoubt
        | State::Lapsed
        | State::Refused) => Some(format!("it is {}", over.as_str())),
    };
    Answer::Shown(Box::new(Shown {
        state: state(row.state),
        answered: row.answered.map(|it| Said {
            at: it.at,
            uid: it.by.uid,
            key: it.by.key,
            scope: match it.word {
                Word::Approve { scope } => Some(scope),
                Word::Refuse { .. } => None,
            },
        }),
        over: row.over.map(|it| Ended {
            at: it.at,
            why: it.why,
        }),
        not_yours,
        waits,
    }))
}

impl Desk {
    /// The newest row of that number that `caller` may see; where he names the session, that one's.
    pub(super) async fn find(
        &self,
        caller: &Caller,
        pending: u64,
        session: Option<SessionId>,
    ) -> Result<Approval, String> {
        let rows = self.ask(move |store, _now| match session {
            Some(session) => {
                let key = Key {
                    session,
                    position: pending,
                };
                match store.find(key) {
                    Ok(row) => Ok(vec![row]),
                    Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
            None => store.at(pending),
        });
        let rows = rows.await.map_err(|error| error.to_string())?;
        let mut seen: Vec<Approval> = rows
            .into_iter()
            .filter(|row| Self::may_see(&self.rules, caller, &rights::heading(&row.asked)))
            .collect();
        // Of several daemons' that share the store, this one's.
        seen.sort_by_key(|row| row.asked.instance != self.instance);
        let none = || format!("there is no call {pending} that you may see; see `custody pending`");
        seen.into_iter().next().ok_or_else(none)
    }
}

fn refused(error: &DeskError) -> Answer {
    Answer::Refused {
        why: error.to_string(),
    }
}

fn view(row: &Approval) -> Option<PendingView> {
    let waits = from_json(&row.asked.waits)?;
    let first = waits.reasons.into_iter().next();
    Some(PendingView {
        pending: row.asked.decision.position,
        session: row.asked.session,
        tool: waits.tool,
        policy: waits.policy,
        caller_uid: row.asked.caller,
        since: row.asked.since,
        expires: row.asked.expires,
        needs: waits.needs,
        rule: first.map(|it| it.rule).unwrap_or_default(),
        state: state(row.state),
    })
}

/// Whether it is taken matters to nobody outside.
const fn state(kept: Kept) -> State {
    match kept {
        Kept::Approved | Kept::Taken => State::Approved,
        Kept::Done => State::Done,
        Kept::Failed => State::Failed,
        Kept::InDoubt => State::InDoubt,
        Kept::Lapsed => State::Lapsed,
        Kept::Refused => State::Refused,
        Kept::Waiting => State::Waiting,
    }
}

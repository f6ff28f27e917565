//! Which sessions there are, and whose.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use custody_config::Caller;
use custody_wire::{
    operator::SessionView,
    profile::Profile,
    supervise::{Counts, NO_SESSION},
};
use gate::id::{PolicyName, SessionId};
use tokio::sync::watch;

/// A session, from the order to start it until everything of it is gone.
#[derive(Debug)]
struct Session {
    policy: PolicyName,
    caller_uid: u32,
    from: Option<SessionId>,
    workspace: Option<String>,
    started: Option<Started>,
    counts: Option<Counts>,
    over: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug)]
struct Started {
    uid: u32,
    profile: Profile,
    at: Instant,
}

/// Every session that lives.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<BTreeMap<SessionId, Session>>>);

/// A session in the list; it leaves the list with this.
#[derive(Debug)]
pub struct Listed {
    sessions: Sessions,
    id: SessionId,
}

impl Sessions {
    /// Lists a new session under an id that no other has.
    ///
    /// # Errors
    /// When the kernel gives no random number.
    pub fn list_new(
        &self,
        policy: &PolicyName,
        caller_uid: u32,
        from: Option<SessionId>,
        workspace: Option<String>,
    ) -> Result<Listed, getrandom::Error> {
        let mut all = self.all();
        let id = loop {
            let id = SessionId(getrandom::u64()?);
            if !all.contains_key(&id) && id != NO_SESSION {
                break id;
            }
        };
        all.insert(
            id,
            Session {
                policy: policy.clone(),
                caller_uid,
                from,
                workspace,
                started: None,
                counts: None,
                over: watch::Sender::new(()),
            },
        );
        Ok(Listed {
            sessions: self.clone(),
            id,
        })
    }

    /// The sessions that `caller` may see: his own; root all.
    pub fn seen_by(&self, caller: &Caller) -> Vec<SessionView> {
        self.all()
            .iter()
            .filter(|(_, session)| is_his(session, caller))
            .filter_map(|(id, session)| {
                let started = session.started?;
                Some(SessionView {
                    session: *id,
                    policy: session.policy.clone(),
                    profile: started.profile,
                    uid: started.uid,
                    caller_uid: session.caller_uid,
                    from: session.from,
                    seconds: started.at.elapsed().as_secs(),
                    counts: session.counts,
                    workspace: session.workspace.clone(),
                })
            })
            .collect()
    }

    /// Whether the user has one under `policy`, started or not.
    pub fn has(&self, caller_uid: u32, policy: &PolicyName) -> bool {
        self.all()
            .values()
            .any(|session| session.caller_uid == caller_uid && session.policy == *policy)
    }

    /// The policy of a session that runs and from which `caller` may delegate: his own; root's are all. Another's
    /// session and none at all are the same answer.
    pub fn to_delegate(&self, session: SessionId, caller: &Caller) -> Option<PolicyName> {
        let all = self.all();
        let session = all.get(&session).filter(|it| is_his(it, caller))?;
        session.started.map(|_| session.policy.clone())
    }

    /// Its profile, once it runs.
    pub fn profile(&self, session: SessionId) -> Option<Profile> {
        let all = self.all();
        Some(all.get(&session)?.started?.profile)
    }

    /// What closes when `session` is over, if it lives and `caller` may stop it. Another's session
    /// and none at all are the same answer.
    pub fn to_stop(&self, session: SessionId, caller: &Caller) -> Option<watch::Receiver<()>> {
        self.all()
            .get(&session)
            .filter(|session| is_his(session, caller))
            .map(|session| session.over.subscribe())
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, Session>> {
        // Each change is one insert or remove: the map is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn is_his(session: &Session, caller: &Caller) -> bool {
    caller.uid == 0 || caller.uid == session.caller_uid
}

impl Listed {
    /// Its id.
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// It runs, under this uid and profile.
    pub fn started(&self, uid: u32, profile: Profile) {
        if let Some(session) = self.sessions.all().get_mut(&self.id) {
            session.started = Some(Started {
                uid,
                profile,
                at: Instant::now(),
            });
        }
    }

    /// What its hooks did up to now.
    pub fn counted(&self, counts: Counts) {
        if let Some(session) = self.sessions.all().get_mut(&self.id) {
            session.counts = Some(counts);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        drop(self.sessions.all().remove(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32) -> Caller {
        Caller {
            uid,
            gids: Vec::new(),
        }
    }

    #[test]
    fn a_caller_sees_and_stops_his_own_and_root_all() {
        let sessions = Sessions::default();
        let policy = PolicyName::parse("mail").unwrap();
        let his = sessions.list_new(&policy, 1000, None, None).unwrap();
        let other = sessions.list_new(&policy, 1001, None, None).unwrap();
        his.started(5, Profile::Dev);
        other.started(6, Profile::Standard);
        let seen = sessions.seen_by(&caller(1000));
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].profile, seen[0].counts), (Profile::Dev, None));
        let counts = Counts {
            allowed: 1,
            refused: 2,
        };
        his.counted(counts);
        assert_eq!(sessions.seen_by(&caller(1000))[0].counts, Some(counts));
        assert_eq!(sessions.seen_by(&caller(0)).len(), 2);
        assert!(sessions.to_delegate(his.id(), &caller(1000)).is_some());
        assert!(sessions.to_delegate(his.id(), &caller(1001)).is_none());
        assert!(sessions.to_delegate(other.id(), &caller(0)).is_some());
        let unborn = sessions.list_new(&policy, 1000, None, None).unwrap();
        assert!(sessions.to_delegate(unborn.id(), &caller(1000)).is_none());
        drop(unborn);
        assert!(sessions.to_stop(his.id(), &caller(1000)).is_some());
        assert!(sessions.to_stop(other.id(), &caller(1000)).is_none());
        assert!(sessions.to_stop(other.id(), &caller(0)).is_some());
        drop(other);
        assert_eq!(sessions.seen_by(&caller(0)).len(), 1);
    }
}

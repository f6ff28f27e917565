//! A session's front: started when somebody in the session connects for the first time, and again
//! when it ends, within reason.
//!
//! Until then custodyd alone has the listener, and only waits for it to become readable: what
//! connects is in its queue (listen(2)) and is accepted by the front, never here. A session that
//! calls nothing has no front, no uid of the fronts' and no second network namespace.

use std::{
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use custody_sys::channel;
use custody_wire::supervise::GateNotice;
use gate::id::SessionId;

use super::{Custodyd, Part, say::chain, services::Service};
use crate::{hooks::Group, process::Process};

/// How often a front may end before its session does, and in what time.
const FRONT_ENDS_MAX: usize = 5;
const FRONT_WINDOW: Duration = Duration::from_secs(60);

impl Custodyd {
    /// The first connection to a session waits to be accepted.
    pub(super) fn front_called(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        // It may have ended since this thread waited.
        if session.without_front().is_none() {
            return;
        }
        session.is_called = true;
        self.front_or_end(id);
    }

    fn front_or_end(&mut self, id: SessionId) {
        if let Err(why) = self.start_front(id) {
            tracing::error!(session = %id, why, "the front does not start");
            self.stop_session(id, &format!("its front does not start: {why}"));
        }
    }

    fn start_front(&mut self, id: SessionId) -> Result<(), String> {
        let said = |error: &dyn std::error::Error| chain(error);
        let session = self.sessions.get(&id).ok_or("the session is gone")?;
        let listener = session.listener.as_ref().ok_or("it has no listener")?;
        let listener = listener.try_clone().map_err(|error| said(&error))?;
        let policy = session.policy.clone();
        let uid = self
            .fronts
            .take()
            .ok_or("every uid of the fronts' range is in use")?;
        let (to_gate, to_front) = channel::pair_stream().map_err(|error| said(&error))?;
        let made = self.cgroups.fresh(Group::Services, "front");
        let cgroup = made.map_err(|error| {
            self.fronts.give_back(uid);
            said(&error)
        })?;
        self.know(cgroup.id(), format!("front of session {id}"));
        let plan = self.front_plan(uid);
        let fds = [to_gate.as_fd(), listener.as_fd()];
        let part = Part::Front(id);
        let name = format!("front of session {id}");
        match Process::start(&self.checked.programs, cgroup, &name, plan, &fds, None) {
            Ok(process) => {
                self.register(part, process);
            }
            Err((cgroup, error)) => {
                self.bury(part, cgroup, uid);
                return Err(said(&error));
            }
        }
        let notice = GateNotice::Front {
            session: id,
            policy,
        };
        self.give(Service::Gate, &notice, &[to_front]);
        Ok(())
    }

    /// A front ended, or was not started.
    pub(super) fn front_ended(&mut self, id: SessionId) {
        let now = Instant::now();
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !session.is_running() {
            return;
        }
        session.front_ends.push_back(now);
        session
            .front_ends
            .retain(|end| now.duration_since(*end) < FRONT_WINDOW);
        if session.front_ends.len() > FRONT_ENDS_MAX {
            let last = session.front_why.take();
            let last = last.map_or_else(String::new, |why| format!("; the last time: {why}"));
            self.stop_session(id, &format!("its front ended too often{last}"));
            return;
        }
        tracing::warn!(session = %id, "the front ended; it is started again");
        self.front_or_end(id);
    }
}

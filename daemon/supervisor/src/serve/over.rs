//! The end of a session is said when nothing of it is left: no process, no cgroup.

use custody_wire::supervise::{ControlNotice, GateNotice, VaultNotice};
use gate::id::SessionId;

use super::{
    Custodyd, Part,
    services::Service,
    sessions::{Last, Phase, Session},
};
use crate::workspace;

impl Custodyd {
    /// Says the end of the sessions of which nothing is left.
    pub(super) fn finish_sessions(&mut self) {
        let over: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| matches!(session.phase, Phase::Ending(_)))
            .map(|(id, _)| *id)
            .filter(|id| !self.has_rest(*id))
            .collect();
        for id in over {
            if let Some(session) = self.sessions.remove(&id) {
                self.finish(id, session);
            }
        }
    }

    fn has_rest(&self, id: SessionId) -> bool {
        let mine = |part: Part| part.session() == Some(id);
        self.processes.values().any(|(part, _)| mine(*part))
            || self.dying.iter().any(|dying| mine(dying.part))
    }

    fn finish(&mut self, id: SessionId, session: Session) {
        self.tidy(&session);
        self.tell(Service::Gate, &GateNotice::Ended { session: id }, &[]);
        self.tell(Service::Vault, &VaultNotice::Ended { session: id }, &[]);
        // The operator waits for the word, nobody for the log.
        match session.phase {
            Phase::Ending(Last::Refused(refusal)) => {
                let why = refusal.to_string();
                let notice = ControlNotice::Refused {
                    session: id,
                    refusal,
                };
                self.tell(Service::Control, &notice, &[]);
                tracing::warn!(session = %id, ?why, "session refused");
            }
            Phase::Ending(Last::Ended(end)) => {
                let notice = ControlNotice::Ended {
                    session: id,
                    end: end.clone(),
                };
                self.tell(Service::Control, &notice, &[]);
                tracing::info!(session = %id, ?end, hooks = %session.tally, "session ended");
            }
            Phase::Launching | Phase::Running => {}
        }
    }

    /// Removes what the launch made in the workspace, unless another session has the folder: it
    /// rests on the same names, so it is left to remove them.
    fn tidy(&mut self, session: &Session) {
        let Some(workspace) = &session.workspace else {
            return;
        };
        let heir = self.sessions.values_mut().find(|other| {
            let theirs = other.workspace.as_ref();
            theirs.is_some_and(|theirs| workspace::is_same(&theirs.folder, &workspace.folder))
        });
        match heir {
            Some(heir) => heir.placeholders.extend(session.placeholders.clone()),
            None => workspace::remove_placeholders(&workspace.folder, &session.placeholders),
        }
    }
}

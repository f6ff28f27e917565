//! From control's order to a launcher that has the plan: what is ordered is looked at, first of all
//! where nothing of it may keep the loop (its workspace, [`looking`](super::looking)).

use std::{
    collections::VecDeque,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use custody_sys::memfd;
use custody_wire::{
    doctor,
    launch::{COMMAND_CAP, Kind, LISTENER, Limits, Plan, Role, Session as Confined, Workspace},
    profile::Profile,
    refused::Refused,
    supervise::{ControlNotice, Start, StartRefusal},
};
use gate::id::SessionId;

use super::{
    Custodyd, Mode, Part,
    channels::borrow,
    say::{chain, listed},
    services::Service,
    sessions::{Kept, Last, Phase, Session, failed},
};
use crate::{
    hooks::{Group, Tally},
    process::Process,
    refused::{self, Finding, refusal},
    workspace::{self, WorkspaceError},
};

/// An order, with the command and the workspace.
#[derive(Debug)]
pub(super) struct Ordered {
    start: Start,
    /// Whose it is.
    caller: u32,
    fds: Vec<OwnedFd>,
}

/// What an order comes to.
#[derive(Debug)]
struct Terms {
    limits: Limits,
    profile: Profile,
    read_only: Vec<PathBuf>,
    workspace: Option<Workspace>,
}

impl Ordered {
    /// The workspace, once more.
    fn folder(&self) -> Result<OwnedFd, StartRefusal> {
        let folder = self.fds.get(1).ok_or_else(|| StartRefusal::Order {
            why: "the workspace did not come".into(),
        })?;
        folder
            .try_clone()
            .map_err(|error| failed("fcntl(2) of the workspace", &error))
    }
}

impl Custodyd {
    pub(super) fn start_session(&mut self, start: Start, fds: Vec<OwnedFd>) {
        let session = start.session;
        let taken = self.take_start(start, fds);
        self.or_refuse(session, taken);
    }

    /// The look through a workspace is over.
    pub(super) fn workspace_looked(&mut self) {
        if let Some((order, found)) = self.looking.next() {
            let session = order.start.session;
            let launched = self.launch_session(order, found);
            self.or_refuse(session, launched);
        }
    }

    fn or_refuse(&mut self, session: SessionId, begun: Result<(), StartRefusal>) {
        if let Err(refusal) = begun {
            self.refuse(session, refusal);
        }
    }

    pub(super) fn refuse(&mut self, session: SessionId, refusal: StartRefusal) {
        tracing::warn!(%session, why = ?refusal.to_string(), "session refused");
        self.tell(
            Service::Control,
            &ControlNotice::Refused { session, refusal },
            &[],
        );
    }

    /// Takes an order whose workspace is to be looked through first, or launches its session at once.
    fn take_start(&mut self, start: Start, fds: Vec<OwnedFd>) -> Result<(), StartRefusal> {
        let mut fds = fds.into_iter();
        let caller = self.caller_of(fds.next(), start.caller_uid)?;
        let order = Ordered {
            start,
            caller,
            fds: fds.collect(),
        };
        let terms = self.terms(&order)?;
        if terms.workspace.is_none() {
            return self.launch_session(order, Vec::new());
        }
        let folder = order.folder()?;
        let session = order.start.session;
        let look = move || refused::workspace::look(folder);
        self.looking
            .begin(caller, session, order, look)
            .map_err(|error| failed("its workspace", &error))
    }

    /// Whether the order may be, and what follows from it. What is looked at here takes no time.
    fn terms(&self, ordered: &Ordered) -> Result<Terms, StartRefusal> {
        let order = |why: String| Err(StartRefusal::Order { why });
        let Ordered { start, caller, fds } = ordered;
        if self.mode != Mode::Serving {
            return order("custodyd is starting or ending; try again".into());
        }
        if !self.slots.is_serving(Service::Gate) {
            return order("the gate is being started again; try again".into());
        }
        if self.sessions.contains_key(&start.session) || self.looking.has(start.session) {
            return order(format!("session {} lives already", start.session));
        }
        if let Some(from) = start.from {
            let above = self.sessions.get(&from);
            if !above.is_some_and(|it| it.is_running() && it.policy == start.policy) {
                return order(format!("session {from}, which it is of, does not run"));
            }
        }
        let Some(policy) = self.checked.policies.get(&start.policy) else {
            let there = listed(self.checked.policies.keys());
            return order(format!(
                "there is no policy `{}`; there are: {there}; a new one needs a restart of custodyd",
                start.policy
            ));
        };
        if self.revocations.has_policy(&start.policy) {
            return order(format!("policy `{}` was revoked", start.policy));
        }
        let rules = policy.session();
        let profile = match start.profile {
            Some(asked) if asked < rules.profile => {
                return order(format!(
                    "policy `{}` has profile `{}`; a session may be stricter, not `{}`",
                    start.policy,
                    rules.profile.as_str(),
                    asked.as_str()
                ));
            }
            Some(asked) => asked,
            None => rules.profile,
        };
        let limits = Limits {
            memory: u64::from(rules.limits.memory_mb) << 20,
            processes: rules.limits.processes.into(),
            open_files: rules.limits.open_files.into(),
        };
        let read_only = rules.read_only.iter().map(PathBuf::from).collect();
        let wanted = 1 + usize::from(start.workspace.is_some());
        if fds.len() != wanted {
            return order(format!(
                "{} descriptors came; {wanted} were named",
                fds.len()
            ));
        }
        if start.policy.as_str() == doctor::POLICY {
            let plain = fds.len() == 1 && start.tty.is_none();
            if !plain || !fds.first().is_some_and(is_doctors) {
                return order(format!(
                    "policy `{}` is for `custody doctor` alone",
                    doctor::POLICY
                ));
            }
        }
        let workspace = match (&start.workspace, fds.get(1)) {
            (Some(path), Some(fd)) => Some(self.check_workspace(fd, path, *caller, profile)?),
            (None | Some(_), _) => None,
        };
        Ok(Terms {
            limits,
            profile,
            read_only,
            workspace,
        })
    }

    /// Launches what is ordered. `found` is what lies in its workspace.
    fn launch_session(
        &mut self,
        ordered: Ordered,
        found: Vec<Finding>,
    ) -> Result<(), StartRefusal> {
        // Again: much may have changed while the workspace was looked through.
        let terms = self.terms(&ordered)?;
        let Terms {
            limits,
            profile,
            read_only,
            workspace,
        } = terms;
        let kept = match &ordered.start.workspace {
            Some(path) => Some(Kept {
                folder: ordered.folder()?,
                path: path.clone(),
            }),
            None => None,
        };
        let Ordered { start, fds, .. } = ordered;
        let command = fds.first().ok_or_else(|| StartRefusal::Order {
            why: "the command did not come".into(),
        })?;
        let mut roles = vec![Role::Command];
        roles.extend(workspace.iter().map(|_| Role::Workspace));
        let mut plan = Plan {
            kind: Kind::Session(Confined {
                id: start.session,
                read_only,
                workspace,
                programs: self.checked.programs.session(),
                profile,
                tty: start.tty,
                listener: LISTENER.into(),
                limits,
            }),
            uid: 0,
            gid: 0,
            without: Vec::new(),
            fds: roles,
        };
        let given = borrow(&fds);
        // What a launcher does ends with it, but for the names that it makes in a workspace: there
        // everything is looked at first.
        let meanwhile = if kept.is_none() {
            self.launch_and_look(start.session, profile, &mut plan, &given, command)?
        } else {
            None
        };
        let looked = match meanwhile {
            Some(looked) => looked,
            None => {
                let findings = self.look_at_order(profile, command, found)?;
                plan.uid = self.unshared_uid(profile)?;
                plan.gid = plan.uid;
                if self
                    .serve_by_spare(start.session, profile, &plan, &given)?
                    .is_none()
                {
                    self.launch_afresh(start.session, profile, plan.clone(), &given)?;
                }
                Ok(findings)
            }
        };
        let (findings, refusal) = match looked {
            Ok(findings) => (findings, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        let session = Session {
            from: start.from,
            policy: start.policy,
            uid: plan.uid,
            profile,
            phase: Phase::Launching,
            workspace: kept,
            placeholders: Vec::new(),
            listener: None,
            is_called: false,
            front_ends: VecDeque::new(),
            tally: Tally::default(),
            counted: None,
            findings,
            front_why: None,
            said: None,
        };
        self.sessions.insert(start.session, session);
        if let Some(refusal) = refusal {
            self.end_session(start.session, Last::Refused(refusal));
        }
        Ok(())
    }

    /// Starts custody-launch in a cgroup of the session's own. The uid is given back where that
    /// fails.
    fn launch_afresh(
        &mut self,
        id: SessionId,
        profile: Profile,
        plan: Plan,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), StartRefusal> {
        let (part, uid) = (Part::Session(id), plan.uid);
        let made = self.cgroups.fresh(Group::Agents, &id.to_string());
        let cgroup = made.map_err(|error| {
            self.agents.give_back(uid);
            failed("a cgroup of the session's own", &error)
        })?;
        self.know(cgroup.id(), format!("session {id}"));
        if let Err(refusal) = self.open_session_hooks(cgroup.id(), profile) {
            self.bury(part, cgroup, uid);
            return Err(refusal);
        }
        let mark = self.hooks.mark();
        let programs = &self.checked.programs;
        match Process::start(programs, cgroup, "session", plan, fds, mark) {
            Ok(process) => {
                self.register(part, process);
                Ok(())
            }
            Err((cgroup, error)) => {
                self.bury(part, cgroup, uid);
                Err(failed("custody-launch", &error))
            }
        }
    }

    fn check_workspace(
        &self,
        fd: &OwnedFd,
        path: &str,
        caller: u32,
        profile: Profile,
    ) -> Result<Workspace, StartRefusal> {
        let paths = &self.checked.config.paths;
        let ours = [
            paths.policies.clone(),
            paths.runtime.clone(),
            paths.state.clone(),
            "/etc/custody".into(),
            "/run/custody".into(),
            self.checked.programs.folder().into(),
        ];
        workspace::check(fd, Path::new(path), caller, &ours).map_err(|error| {
            let WorkspaceError::Custody { place } = &error else {
                return StartRefusal::Workspace {
                    path: path.into(),
                    why: chain(&error),
                };
            };
            let found = format!("`{path}` holds or lies in `{}`", place.display());
            holds_state(profile, found)
        })
    }
}

/// Whether it is the command of `custody doctor`: whoever may have no other session may have that.
fn is_doctors(command: &OwnedFd) -> bool {
    memfd::read(command, COMMAND_CAP).is_ok_and(|bytes| bytes == doctor::command())
}

/// The workspace is Custody's own place, or holds it. Every profile refuses that.
fn holds_state(profile: Profile, found: String) -> StartRefusal {
    let finding = Finding::new(Refused::WorkspaceHoldsState, found);
    refusal(profile, std::slice::from_ref(&finding))
        .unwrap_or(StartRefusal::Order { why: finding.found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_command_is_the_doctors() {
        let sealed = |bytes: &[u8]| memfd::sealed(c"command", bytes).unwrap();
        let his = doctor::command();
        assert!(is_doctors(&sealed(&his)));
        let mut more = his;
        more.extend_from_slice(b"LD_PRELOAD=/x.so\0");
        assert!(!is_doctors(&sealed(&more)));
    }
}

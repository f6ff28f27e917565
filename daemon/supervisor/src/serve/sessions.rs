//! A session: from control's order through the launch to its end, and the front beside it.
//!
//! ```text
//! Start ─▶ Launching ─ sealed, layers suffice ─▶ Running ─▶ Ending ─▶ (gone)
//!              └──────────── anything else ──────────────────▲
//! ```
//!
//! **Invariant:** nothing of the command is executed before the layers were found to suffice;
//! control hears of an end only when nothing of the session is left.

use std::{
    collections::VecDeque,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agent_ebpf::Hook;
use custody_sys::channel;
use custody_wire::{
    launch::{Kind, LISTENER, Limits, Outcome, Plan, Report, Role, Session as Confined, Workspace},
    layer::{self, Layer, Status},
    supervise::{ControlNotice, End, GateNotice, Start, StartRefusal, VaultNotice},
};
use gate::id::{PolicyName, SessionId};
use nix::sys::signal::Signal;

use super::{
    Custodyd, Mode, Part, chain, errno_of, listed,
    services::Service,
    standing::{in_words, suffices},
};
use crate::{
    hooks::Group,
    process::{Process, ProcessError},
    workspace,
};

/// The signals that the CLI forwards (signal(7)); SIGKILL is `Stop`.
const FORWARDED: [Signal; 9] = [
    Signal::SIGCONT,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// How often a front may end before its session does, and in what time.
const FRONT_ENDS_MAX: usize = 5;
const FRONT_WINDOW: Duration = Duration::from_secs(60);

/// How long pid 1 may live on after it said how the command ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A session that lives.
#[derive(Debug)]
pub(super) struct Session {
    policy: PolicyName,
    uid: u32,
    phase: Phase,
    workspace: Option<OwnedFd>,
    placeholders: Vec<PathBuf>,
    listener: Option<OwnedFd>,
    front_ends: VecDeque<Instant>,
    outcome: Option<Outcome>,
}

#[derive(Debug)]
enum Phase {
    Ending(Last),
    Launching,
    Running,
}

/// What control is told at the end.
#[derive(Debug)]
enum Last {
    Ended(End),
    Refused(StartRefusal),
}

impl Session {
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    pub(super) const fn policy(&self) -> &PolicyName {
        &self.policy
    }
}

impl Custodyd {
    pub(super) fn start_session(&mut self, start: Start, fds: Vec<OwnedFd>) {
        let session = start.session;
        if let Err(refusal) = self.try_start_session(start, fds) {
            tracing::warn!(%session, why = %refusal, "session refused");
            self.tell(
                Service::Control,
                &ControlNotice::Refused { session, refusal },
                &[],
            );
        }
    }

    fn try_start_session(&mut self, start: Start, fds: Vec<OwnedFd>) -> Result<(), StartRefusal> {
        let order = |why: String| Err(StartRefusal::Order { why });
        if self.mode != Mode::Serving {
            return order("custodyd is starting or ending; try again".into());
        }
        if !self.slots.is_running(Service::Gate) {
            return order("the gate is being started again; try again".into());
        }
        if self.sessions.contains_key(&start.session) {
            return order(format!("session {} lives already", start.session));
        }
        let Some(policy) = self.checked.policies.get(&start.policy) else {
            let there = listed(self.checked.policies.keys());
            return order(format!(
                "there is no policy `{}`; there are: {there}; a new one needs a restart of custodyd",
                start.policy
            ));
        };
        let rules = policy.session();
        let limits = Limits {
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
        let workspace = match (&start.workspace, fds.get(1)) {
            (Some(path), Some(fd)) => Some(self.check_workspace(fd, path, start.caller_uid)?),
            (None | Some(_), _) => None,
        };
        let kept = fds.get(1).map(OwnedFd::try_clone).transpose();
        let kept = kept.map_err(|error| failed("fcntl(2) of the workspace", &error))?;

        let uid = self.agents.take().ok_or(StartRefusal::NoUid)?;
        let made = self
            .cgroups
            .fresh(Group::Agents, &start.session.to_string());
        let cgroup = made.map_err(|error| {
            self.agents.give_back(uid);
            failed("a cgroup of the session's own", &error)
        })?;
        self.denials
            .know(cgroup.id(), format!("session {}", start.session));
        let mut roles = vec![Role::Command];
        roles.extend(workspace.iter().map(|_| Role::Workspace));
        let plan = Plan {
            kind: Kind::Session(Confined {
                id: start.session,
                read_only,
                workspace,
                programs: self.checked.programs.session(),
                tty: start.tty,
                listener: LISTENER.into(),
                limits,
            }),
            uid,
            gid: uid,
            without: Vec::new(),
            fds: roles,
        };
        let part = Part::Session(start.session);
        let fds = super::borrow(&fds);
        let started = Process::start(&self.checked.programs, cgroup, "session", plan, &fds);
        match started {
            Ok(process) => self.register(part, process),
            Err((cgroup, error)) => {
                self.bury(part, cgroup, uid);
                return Err(failed("custody-launch", &error));
            }
        };
        let session = Session {
            policy: start.policy,
            uid,
            phase: Phase::Launching,
            workspace: kept,
            placeholders: Vec::new(),
            listener: None,
            front_ends: VecDeque::new(),
            outcome: None,
        };
        self.sessions.insert(start.session, session);
        Ok(())
    }

    fn check_workspace(
        &self,
        fd: &OwnedFd,
        path: &str,
        caller: u32,
    ) -> Result<Workspace, StartRefusal> {
        let paths = &self.checked.config.paths;
        let mut ours = vec![
            paths.policies.clone(),
            paths.runtime.clone(),
            paths.state.clone(),
            "/etc/custody".into(),
            "/run/custody".into(),
        ];
        ours.extend(paths.programs.clone());
        workspace::check(fd, Path::new(path), caller, &ours).map_err(|error| {
            StartRefusal::Workspace {
                path: path.into(),
                why: chain(&error),
            }
        })
    }

    /// custody-launch reported.
    pub(super) fn session_reported(
        &mut self,
        number: u64,
        id: SessionId,
        report: Report,
        fds: Vec<OwnedFd>,
    ) {
        let started = match report {
            Report::Failed { layer, step, errno } => Err(self.refusal_of(id, layer, step, errno)),
            Report::Sealed {
                layers,
                fds: roles,
                placeholders,
            } => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.placeholders = placeholders;
                }
                self.launch(number, id, layers, &roles, fds)
            }
        };
        if let Err(refusal) = started {
            self.end_session(id, Last::Refused(refusal));
        }
    }

    fn refusal_of(
        &self,
        id: SessionId,
        layer: Option<Layer>,
        step: String,
        errno: i32,
    ) -> StartRefusal {
        match layer {
            None => StartRefusal::Failed { step, errno },
            Some(Layer::IdMap)
                if self
                    .sessions
                    .get(&id)
                    .is_some_and(|s| s.workspace.is_some()) =>
            {
                StartRefusal::Workspace {
                    path: "of the session".into(),
                    why: format!("it cannot be id-mapped: {step}{}", in_words(errno)),
                }
            }
            Some(layer) => StartRefusal::Layer {
                layer,
                profile: "standard".into(),
                detail: format!("{step}{}", in_words(errno)),
            },
        }
    }

    /// The layers are there: are they enough? Then the front is started and the command executed.
    fn launch(
        &mut self,
        number: u64,
        id: SessionId,
        mut layers: Vec<layer::Report>,
        roles: &[Role],
        fds: Vec<OwnedFd>,
    ) -> Result<(), StartRefusal> {
        let hooks = [
            (Layer::CgroupInet, Hook::SockCreate),
            (Layer::CgroupInet, Hook::Connect4),
            (Layer::CgroupUnix, Hook::ConnectUnix),
        ];
        // custody-launch cannot see the hooks of its cgroup; we attached them and look again.
        layers.retain(|report| hooks.iter().all(|(layer, _)| *layer != report.layer));
        for layer in [Layer::CgroupInet, Layer::CgroupUnix] {
            layers.push(layer::Report {
                layer,
                status: self.hook_status(layer),
            });
        }
        layers.sort_by_key(|report| report.layer);
        let session = self.sessions.get_mut(&id).ok_or_else(gone)?;
        if !matches!(session.phase, Phase::Launching) {
            return Ok(()); // stopped meanwhile
        }
        suffices(&layers, session.workspace.is_some())?;
        if roles.len() != fds.len() {
            return Err(StartRefusal::Failed {
                step: format!("{} descriptors came; {} were named", fds.len(), roles.len()),
                errno: 0,
            });
        }
        let mut terminal = Vec::new();
        for (role, fd) in roles.iter().zip(fds) {
            match role {
                Role::Listener => session.listener = Some(fd),
                Role::Master | Role::Stderr | Role::Stdin | Role::Stdout => {
                    terminal.push((*role, fd));
                }
                Role::Command | Role::Inherit | Role::Workspace => {}
            }
        }
        let terminal = in_order(terminal).ok_or_else(|| StartRefusal::Failed {
            step: "the report has neither a pty nor three pipes".into(),
            errno: 0,
        })?;
        let (uid, policy) = (session.uid, session.policy.clone());
        if session.listener.is_none() {
            return Err(StartRefusal::Failed {
                step: "the report has no listener".into(),
                errno: 0,
            });
        }
        self.tell(
            Service::Vault,
            &VaultNotice::Opened {
                session: id,
                policy: policy.clone(),
            },
            &[],
        );
        // At the same time as the command: its first connection waits in the listener's queue.
        self.start_front(id).map_err(|why| StartRefusal::Failed {
            step: format!("custody-front: {why}"),
            errno: 0,
        })?;
        let process = self.processes.get(&number).ok_or_else(gone)?;
        process
            .1
            .go()
            .map_err(|error| failed("custody-launch", &error))?;
        if let Some(session) = self.sessions.get_mut(&id) {
            session.phase = Phase::Running;
        }
        tracing::info!(session = %id, uid, %policy, "session runs");
        self.give(
            Service::Control,
            &ControlNotice::Started {
                session: id,
                uid,
                layers,
            },
            &terminal,
        );
        Ok(())
    }

    fn hook_status(&self, layer: Layer) -> Status {
        match self.pins.missing(Group::Agents, layer == Layer::CgroupUnix) {
            None => Status::Full,
            Some(pin) => Status::None {
                step: format!("pin `{}`", pin.display()),
                errno: nix::errno::Errno::ENOENT as i32,
            },
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
        self.denials
            .know(cgroup.id(), format!("front of session {id}"));
        let plan = self.front_plan(uid);
        let fds = [to_gate.as_fd(), listener.as_fd()];
        let part = Part::Front(id);
        let name = format!("front of session {id}");
        match Process::start(&self.checked.programs, cgroup, &name, plan, &fds) {
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
            self.stop_session(id, "its front ended too often");
            return;
        }
        tracing::warn!(session = %id, "the front ended; it is started again");
        if let Err(why) = self.start_front(id) {
            tracing::error!(session = %id, why, "the front does not start");
            self.stop_session(id, "its front does not start");
        }
    }

    /// The session's pid 1 said something, or closed the channel.
    pub(super) fn session_said(&mut self, number: u64, id: SessionId) {
        let Some((_, process)) = self.processes.get_mut(&number) else {
            return;
        };
        match process.outcome() {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                process.hang_up();
                process.deadline = Some(Instant::now() + LAST_WORDS);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.outcome = Some(outcome);
                }
            }
            // Its end says how.
            Err(ProcessError::Closed) => {}
            Err(error) => {
                tracing::warn!(session = %id, error = chain(&error), "the session's channel");
                process.hang_up();
            }
        }
    }

    /// The session's pid 1 ended, and with it its pid namespace.
    pub(super) fn session_ended(&mut self, id: SessionId, signal: Option<i32>, code: Option<i32>) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let exited = |code: i32| End::Exited {
            code: u8::try_from(code).unwrap_or(u8::MAX),
        };
        let last = match (&session.phase, session.outcome) {
            (Phase::Launching, _) => Last::Refused(StartRefusal::Failed {
                step: "custody-launch ended before it reported, or took longer than 10 s".into(),
                errno: 0,
            }),
            (_, Some(Outcome::Exited { code })) => Last::Ended(exited(code)),
            (_, Some(Outcome::Killed { signal })) => Last::Ended(End::Killed { signal }),
            (_, Some(Outcome::NotExecuted { errno })) => Last::Ended(End::NotExecuted { errno }),
            (_, None) => Last::Ended(match (signal, code) {
                (Some(signal), _) => End::Killed { signal },
                (None, code) => exited(code.unwrap_or(1)),
            }),
        };
        self.end_session(id, last);
    }

    pub(super) fn signal_session(&mut self, id: SessionId, number: i32) {
        let signal = Signal::try_from(number)
            .ok()
            .filter(|signal| FORWARDED.contains(signal));
        let Some(signal) = signal else {
            tracing::warn!(session = %id, number, "a signal that is not forwarded");
            return;
        };
        if !self.sessions.get(&id).is_some_and(Session::is_running) {
            return;
        }
        for number in self.numbers_of(|part| part == Part::Session(id)) {
            if let Some((_, process)) = self.processes.get(&number)
                && let Err(error) = process.signal(signal)
            {
                tracing::debug!(session = %id, %error, "the signal came too late");
            }
        }
    }

    pub(super) fn stop_session(&mut self, id: SessionId, why: &str) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let last = match session.phase {
            Phase::Launching => Last::Refused(StartRefusal::Order {
                why: format!("the session was ended before it started: {why}"),
            }),
            Phase::Running => Last::Ended(End::Stopped { why: why.into() }),
            Phase::Ending(_) => return,
        };
        self.end_session(id, last);
    }

    pub(super) fn end_all_sessions(&mut self, why: &str) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.stop_session(id, why);
        }
    }

    /// Kills everything of the session. The first reason counts.
    fn end_session(&mut self, id: SessionId, last: Last) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if matches!(session.phase, Phase::Ending(_)) {
            return;
        }
        session.phase = Phase::Ending(last);
        session.listener = None;
        for number in self.numbers_of(|part| part.session() == Some(id)) {
            self.kill_number(number);
        }
    }

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
        if let Some(workspace) = &session.workspace {
            workspace::remove_placeholders(workspace, &session.placeholders);
        }
        self.tell(Service::Gate, &GateNotice::Ended { session: id }, &[]);
        self.tell(Service::Vault, &VaultNotice::Ended { session: id }, &[]);
        let notice = match session.phase {
            Phase::Ending(Last::Refused(refusal)) => {
                tracing::warn!(session = %id, why = %refusal, "session refused");
                ControlNotice::Refused {
                    session: id,
                    refusal,
                }
            }
            Phase::Ending(Last::Ended(end)) => {
                tracing::info!(session = %id, ?end, "session ended");
                ControlNotice::Ended { session: id, end }
            }
            Phase::Launching | Phase::Running => return,
        };
        self.tell(Service::Control, &notice, &[]);
    }

    /// The sessions that a new vault must know.
    pub(super) fn open_sessions(&self) -> Vec<(SessionId, PolicyName)> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.is_running())
            .map(|(id, session)| (*id, session.policy.clone()))
            .collect()
    }
}

/// The pty's master, or stdin, stdout and stderr; nothing else is a terminal.
fn in_order(mut terminal: Vec<(Role, OwnedFd)>) -> Option<Vec<OwnedFd>> {
    let rank = |role: Role| match role {
        Role::Master | Role::Stdin => 0,
        Role::Stdout => 1,
        Role::Stderr => 2,
        Role::Command | Role::Inherit | Role::Listener | Role::Workspace => 3,
    };
    terminal.sort_by_key(|(role, _)| rank(*role));
    let roles: Vec<Role> = terminal.iter().map(|(role, _)| *role).collect();
    let whole = matches!(
        roles.as_slice(),
        [Role::Master] | [Role::Stdin, Role::Stdout, Role::Stderr]
    );
    whole.then(|| terminal.into_iter().map(|(_, fd)| fd).collect())
}

fn gone() -> StartRefusal {
    StartRefusal::Failed {
        step: "the session is gone".into(),
        errno: 0,
    }
}

fn failed(step: &str, error: &(dyn std::error::Error + 'static)) -> StartRefusal {
    StartRefusal::Failed {
        step: format!("{step}: {}", chain(error)),
        errno: errno_of(error),
    }
}

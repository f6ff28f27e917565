//! What custody-launch reported of a session: are its layers enough? Then the command is
//! executed.

use std::{os::fd::OwnedFd, time::Duration};

use custody_wire::{
    launch::{Report, Role},
    layer::{self, Layer, Status},
    supervise::{ControlNotice, StartRefusal, VaultNotice},
};
use gate::id::SessionId;

use super::{
    Custodyd,
    services::Service,
    sessions::{Last, Phase, failed},
    standing::{in_words, suffices},
};
use crate::{
    limits::{self, Limits},
    refused,
};

/// How long a process that is ending may still look alive: its mounts go before it does.
const DYING: Duration = Duration::from_millis(30);

impl Custodyd {
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
                    session.placeholders.extend(placeholders);
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
            Some(Layer::IdMap) => StartRefusal::Workspace {
                path: self
                    .sessions
                    .get(&id)
                    .and_then(|session| session.workspace.as_ref())
                    .map_or_else(String::new, |workspace| workspace.path.clone()),
                why: format!("{step}{}", in_words(errno)),
            },
            Some(layer) => StartRefusal::Layer {
                layer,
                profile: self
                    .sessions
                    .get(&id)
                    .map_or("", |session| session.profile.as_str())
                    .into(),
                detail: format!("{step}{}", in_words(errno)),
            },
        }
    }

    /// Bounds what the session's cgroup may use, before anything of the command is executed.
    fn limit(&self, number: u64, id: SessionId) -> Status {
        let session = self.sessions.get(&id);
        let policy = session.and_then(|session| self.checked.policies.get(&session.policy));
        match (self.processes.get(&number), policy) {
            (Some((_, process)), Some(policy)) => {
                let rules = policy.session().limits;
                let limits = Limits {
                    memory: u64::from(rules.memory_mb) << 20,
                    processes: rules.processes.into(),
                };
                limits::set(process.cgroup.path(), limits)
            }
            (None, _) | (_, None) => Status::None {
                step: "the session is gone".into(),
                errno: 0,
            },
        }
    }

    /// The layers are there: are they enough? Then the command is executed.
    fn launch(
        &mut self,
        number: u64,
        id: SessionId,
        mut layers: Vec<layer::Report>,
        roles: &[Role],
        fds: Vec<OwnedFd>,
    ) -> Result<(), StartRefusal> {
        // custody-launch cannot see the hooks of its cgroup; we attached them and look again.
        layers.retain(|report| !report.layer.is_on_cgroup());
        for layer in Layer::ALL.into_iter().filter(|it| it.is_on_cgroup()) {
            let status = if layer == Layer::CgroupLimits {
                self.limit(number, id)
            } else {
                self.hook_status(layer)
            };
            layers.push(layer::Report { layer, status });
        }
        layers.sort_by_key(|report| report.layer);
        let session = self.sessions.get_mut(&id).ok_or_else(gone)?;
        if !matches!(session.phase, Phase::Launching) {
            return Ok(()); // stopped meanwhile
        }
        let found = self.look_at_sealed(number, id).map_err(|refusal| {
            // What is gone, or on its way, looks like many things, and none of them is the reason.
            let process = self.processes.get(&number);
            if process.is_some_and(|(_, process)| process.ends_within(DYING)) {
                StartRefusal::Failed {
                    step: "custody-launch ended before the command was executed".into(),
                    errno: 0,
                }
            } else {
                refusal
            }
        })?;
        let session = self.sessions.get_mut(&id).ok_or_else(gone)?;
        session.findings.extend(found);
        suffices(session.profile, &layers, session.workspace.is_some())?;
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
        let (uid, policy, profile) = (session.uid, session.policy.clone(), session.profile);
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
        self.seal_session_hooks(number, profile)?;
        let process = self.processes.get(&number).ok_or_else(gone)?;
        process
            .1
            .go()
            .map_err(|error| failed("custody-launch", &error))?;
        let mut weaknesses = Vec::new();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.phase = Phase::Running;
            let of_profile = custody_wire::profile::weaknesses(profile)
                .iter()
                .map(|weakness| (*weakness).into());
            weaknesses = of_profile
                .chain(refused::weaknesses(profile, &session.findings))
                .collect();
        }
        self.spares.rest();
        self.give(
            Service::Control,
            &ControlNotice::Started {
                session: id,
                uid,
                profile,
                layers,
                weaknesses: weaknesses.clone(),
            },
            &terminal,
        );
        tracing::info!(session = %id, uid, %policy, profile = profile.as_str(), "session runs");
        for weakness in &weaknesses {
            tracing::warn!(session = %id, profile = profile.as_str(), weakness, "permitted");
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fds(roles: &[Role]) -> Vec<(Role, OwnedFd)> {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        roles.iter().map(|role| (*role, null())).collect()
    }

    #[test]
    fn a_terminal_is_a_master_or_three_pipes_and_nothing_else() {
        let count = |roles: &[Role]| in_order(fds(roles)).map(|fds| fds.len());
        assert_eq!(count(&[Role::Master]), Some(1));
        assert_eq!(count(&[Role::Stderr, Role::Stdin, Role::Stdout]), Some(3));
        for wrong in [
            &[][..],
            &[Role::Master, Role::Stdin],
            &[Role::Stdin, Role::Stdout],
            &[Role::Stdin, Role::Stdout, Role::Stderr, Role::Stderr],
            &[Role::Master, Role::Master],
        ] {
            assert_eq!(count(wrong), None, "{wrong:?}");
        }
    }
}

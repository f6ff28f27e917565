//! What the eBPF hooks are worth for a program that starts, and what they counted of one that
//! ended.

use std::path::PathBuf;

use custody_config::CredentialSource;
use custody_wire::{
    layer::{Layer, Status},
    profile::Profile,
    supervise::StartRefusal,
};
use nix::errno::Errno;

use super::{Custodyd, Dying, Part, say::chain};
use crate::{
    checks::Checked,
    hooks::{Group, HookError, layers},
};

/// What no session may touch: credentials, and the places of Custody's own.
pub(super) fn objects(checked: &Checked, config_path: Option<&PathBuf>) -> Vec<PathBuf> {
    let config = &checked.config;
    let mut objects: Vec<PathBuf> = vec![
        "/etc/custody".into(),
        config.paths.policies.clone(),
        config.paths.reviewers.clone(),
        config.paths.runtime.clone(),
        config.paths.state.clone(),
    ];
    objects.extend(config_path.cloned());
    let mut systemd = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    for source in config.secrets() {
        match source {
            CredentialSource::File(path) => objects.push(path.clone()),
            CredentialSource::Systemd(_) => objects.extend(systemd.take()),
        }
    }
    // What lies in another of them is protected by it.
    let all = objects.clone();
    let is_in = |path: &PathBuf| {
        all.iter()
            .any(|other| other != path && path.starts_with(other))
    };
    objects.retain(|path| !is_in(path));
    objects.sort();
    objects.dedup();
    objects
}

impl Custodyd {
    /// What a layer of hooks is worth for a session, now.
    pub(super) fn hook_status(&self, layer: Layer) -> Status {
        if layer == Layer::BpfLsm {
            return self.hooks.lsm_status(&self.pins);
        }
        let Some((_, hooks)) = layers().into_iter().find(|(of, _)| *of == layer) else {
            return Status::None {
                step: "not attached in this version".into(),
                errno: 0,
            };
        };
        match self.pins.missing(Group::Agents, hooks.into_iter()) {
            None => Status::Full,
            Some(pin) => Status::None {
                step: format!("pin `{}`", pin.display()),
                errno: Errno::ENOENT as i32,
            },
        }
    }

    /// Whether every hook of a group stands: nothing of it is executed otherwise.
    pub(super) fn hooks_stand(&self, group: Group) -> Result<(), String> {
        let hooks = layers().into_iter().flat_map(|(_, hooks)| hooks);
        match self.pins.missing(group, hooks) {
            None => Ok(()),
            Some(pin) => Err(format!(
                "the pin `{}` is gone; restart custodyd",
                pin.display()
            )),
        }
    }

    /// What no session may touch may have been replaced since custodyd looked.
    pub(super) fn protect_again(&mut self) -> Result<(), HookError> {
        let objects = objects(&self.checked, self.config_path.as_ref());
        self.hooks.protect_again(&objects)
    }

    /// `cgroup_id` is `who` from now on, in the journal and in the counts.
    pub(super) fn know(&mut self, cgroup_id: u64, who: String) {
        if let Err(error) = self.hooks.count(cgroup_id) {
            tracing::warn!(who, error = chain(&error), "what it does is not counted");
        }
        self.denials.know(cgroup_id, who);
    }

    /// Before custody-launch is born in a session's cgroup.
    pub(super) fn open_session_hooks(
        &mut self,
        cgroup_id: u64,
        profile: Profile,
    ) -> Result<(), StartRefusal> {
        self.hooks
            .open(cgroup_id, profile)
            .map_err(|error| super::sessions::failed("the session's state for the hooks", &error))
    }

    /// Before anything of the agent's is executed.
    pub(super) fn seal_session_hooks(
        &mut self,
        number: u64,
        profile: Profile,
    ) -> Result<(), StartRefusal> {
        self.protect_again()
            .map_err(|error| super::sessions::failed("what no session may touch", &error))?;
        let cgroup_id = self.processes.get(&number).map(|(_, it)| it.cgroup.id());
        let sealed = cgroup_id.map(|id| self.hooks.seal(id, profile));
        match sealed {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(super::sessions::failed(
                "sealing the session's state for the hooks",
                &error,
            )),
            None => Err(StartRefusal::Failed {
                step: "the session is gone".into(),
                errno: 0,
            }),
        }
    }

    /// A cgroup is gone: what was counted of it goes to its session's account.
    pub(super) fn settle(&mut self, dying: &Dying) {
        let id = dying.cgroup.id();
        match self.hooks.tally(id) {
            Ok(tally) => {
                if let Some(session) = dying.part.session()
                    && let Some(session) = self.sessions.get_mut(&session)
                {
                    session.tally.add(&tally);
                }
            }
            Err(error) => tracing::warn!(error = chain(&error), "counts of a cgroup"),
        }
        let closed = match dying.part {
            Part::Session(_) | Part::Spare => self.hooks.close(id),
            Part::Front(_) | Part::Service(_) | Part::Worker { .. } => Ok(()),
        };
        if let Err(error) = closed.and_then(|()| self.hooks.forget(id)) {
            tracing::warn!(
                error = chain(&error),
                "an entry stays in a map of the hooks"
            );
        }
    }
}

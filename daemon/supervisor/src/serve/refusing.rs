//! Refused configurations of a session: at the order, before its command is executed, and of the
//! vault from time to time. What is looked for is in [`refused`](crate::refused).

use std::{
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    thread,
    time::Duration,
};

use custody_wire::{launch::Plan, profile::Profile, refused::Refused, supervise::StartRefusal};
use gate::id::SessionId;

use super::{Custodyd, Part, services::Service, sessions::Phase};
use crate::refused::{
    Finding, environment, host,
    process::{self, Expected},
    refusal,
    shown::{self, Looked},
    vault,
};

/// A vault that was started a moment ago is dumpable until its first instructions have run.
const VAULT_LOOKS: u32 = 10;
const VAULT_PAUSE: Duration = Duration::from_millis(5);

/// Uids that are tried for one session: each costs a look at every process.
const UIDS_TRIED: usize = 8;

impl Custodyd {
    /// What is found of an order; `found` is what lies in its workspace.
    ///
    /// # Errors
    /// The first that `profile` refuses.
    pub(super) fn look_at_order(
        &self,
        profile: Profile,
        command: impl AsFd,
        found: Vec<Finding>,
    ) -> Result<Vec<Finding>, StartRefusal> {
        let mut findings = host::look(&self.checked.config);
        findings.extend(self.look_at_vault());
        findings.extend(environment::look(command));
        findings.extend(found);
        passed(profile, findings)
    }

    /// Gives the plan to a launcher that is ready, and looks at the order while that builds: nothing of
    /// the command is executed before this thread takes its report. None where no launcher is ready, or
    /// another process has the uid: then it is begun anew.
    ///
    /// # Errors
    /// The outer one where nothing was begun; the inner one is the first finding that `profile`
    /// refuses.
    pub(super) fn launch_and_look(
        &mut self,
        id: SessionId,
        profile: Profile,
        plan: &mut Plan,
        fds: &[BorrowedFd<'_>],
        command: impl AsFd,
    ) -> Result<Option<Result<Vec<Finding>, StartRefusal>>, StartRefusal> {
        let Some(uid) = self.agents.take() else {
            return Ok(None);
        };
        (plan.uid, plan.gid) = (uid, uid);
        let Some(number) = self.serve_by_spare(id, profile, plan, fds)? else {
            self.agents.give_back(uid);
            return Ok(None);
        };
        let pid = self.processes.get(&number).map(|(_, it)| it.pid());
        if passed(profile, host::uid_in_use(uid, pid).into_iter().collect()).is_err() {
            self.disown(number);
            return Ok(None);
        }
        Ok(Some(self.look_at_order(profile, command, Vec::new())))
    }

    /// What is found of the session's process when it is sealed.
    ///
    /// # Errors
    /// The first that the session's profile refuses.
    pub(super) fn look_at_sealed(
        &self,
        number: u64,
        id: SessionId,
    ) -> Result<Vec<Finding>, StartRefusal> {
        let (Some((_, process)), Some(session)) =
            (self.processes.get(&number), self.sessions.get(&id))
        else {
            return Ok(Vec::new()); // stopped meanwhile
        };
        let pid = process.pid();
        let expected = Expected {
            uid: session.uid,
            cgroup: process.cgroup.path(),
        };
        let mut findings = process::look(pid, expected);
        let paths = &self.checked.config.paths;
        let mut secret = host::credential_files(&self.checked.config);
        secret.extend([
            paths.policies.clone(),
            paths.runtime.clone(),
            paths.state.clone(),
        ]);
        let mut places: Vec<PathBuf> = self
            .checked
            .policies
            .get(&session.policy)
            .map(|policy| {
                policy
                    .session()
                    .read_only
                    .iter()
                    .map(PathBuf::from)
                    .collect()
            })
            .unwrap_or_default();
        // What lies in the workspace was looked at already, and by name.
        places.retain(|place| {
            session
                .workspace
                .as_ref()
                .is_none_or(|it| !place.starts_with(&it.path))
        });
        let looked = Looked {
            places: &places,
            secret: &secret,
        };
        findings.extend(shown::look(pid, looked));
        passed(session.profile, findings)
    }

    /// An agent's uid that is nobody else's. What others have is passed over: a user who made a
    /// process of one of them cannot keep the next session from starting.
    ///
    /// # Errors
    /// Who has the last that was tried, or one of those that were left out; else that there is none.
    pub(super) fn unshared_uid(&mut self, profile: Profile) -> Result<u32, StartRefusal> {
        let look = |uid| passed(profile, host::uid_in_use(uid, None).into_iter().collect());
        let mut shared = Vec::new();
        let mut last = None;
        let found = loop {
            let Some(uid) = self.agents.take() else {
                let mut left_out = self.agents.foreign().take(UIDS_TRIED);
                let whose = last.or_else(|| left_out.find_map(|uid| look(uid).err()));
                break Err(whose.unwrap_or(StartRefusal::NoUid));
            };
            match look(uid) {
                Ok(_) => break Ok(uid),
                Err(refusal) => {
                    shared.push(uid);
                    if shared.len() >= UIDS_TRIED {
                        break Err(refusal);
                    }
                    last = Some(refusal);
                }
            }
        };
        for uid in shared {
            self.agents.give_back(uid);
        }
        found
    }

    fn look_at_vault(&self) -> Vec<Finding> {
        let Some(number) = self
            .numbers_of(|part| part == Part::Service(Service::Vault))
            .pop()
            .filter(|_| self.slots.is_serving(Service::Vault))
        else {
            return Vec::new(); // it is started again, and has nothing yet
        };
        let Some((_, process)) = self.processes.get(&number) else {
            return Vec::new();
        };
        let uid = self.checked.users.vault.uid;
        let mut findings = vault::look(process.pid(), uid);
        for _ in 1..VAULT_LOOKS {
            if !findings.iter().any(|it| it.which == Refused::VaultDumpable) {
                break;
            }
            thread::sleep(VAULT_PAUSE);
            findings = vault::look(process.pid(), uid);
        }
        findings
    }

    /// Ends every session whose profile refuses what was found of vault and custodyd meanwhile.
    pub(super) fn look_again(&mut self) {
        if self.sessions.is_empty() {
            return;
        }
        let mut findings = self.look_at_vault();
        findings.extend(host::custodyd_traced());
        let refused: Vec<(SessionId, StartRefusal)> = self
            .sessions
            .iter()
            .filter(|(_, session)| !matches!(session.phase, Phase::Ending(_)))
            .filter_map(|(id, session)| Some((*id, refusal(session.profile, &findings)?)))
            .collect();
        for (id, why) in refused {
            let why = why.to_string();
            tracing::error!(session = %id, why, "a session is ended");
            self.stop_session(id, &why);
        }
    }
}

fn passed(profile: Profile, findings: Vec<Finding>) -> Result<Vec<Finding>, StartRefusal> {
    match refusal(profile, &findings) {
        Some(refusal) => Err(refusal),
        None => Ok(findings),
    }
}

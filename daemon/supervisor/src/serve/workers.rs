//! Effect workers: one for each credential in use of a session, each with an egress of its own; and one for
//! each run of a policy's verifying program.

use std::{
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
};

use custody_sys::channel;
use custody_wire::{
    launch::Report,
    revoke::Revoked,
    supervise::{EGRESS_MAX, NO_SESSION, VaultNotice},
};
use gate::{
    floor::Floor,
    id::{CredentialLabel, PolicyName, SessionId, ToolName},
    policy::{Command, Look},
};

use super::{Custodyd, Part, say::chain, services::Service, standing};
use crate::{hooks::Group, process::Process};

/// A worker that the present vault ordered, by the order's number.
#[derive(Debug)]
pub(super) struct Worker {
    session: SessionId,
    policy: PolicyName,
    label: CredentialLabel,
    network: bool,
    process: u64,
    /// The vault's end, until it is handed over.
    for_vault: Option<OwnedFd>,
}

/// What a worker is for.
#[derive(Clone, Copy, Debug)]
enum Job<'a> {
    /// The effects of one credential, at these addresses.
    Perform(&'a [SocketAddr]),
    /// To run a policy's verifying program.
    Verify(&'a Command),
}

impl Worker {
    /// Whether it ends when that is taken back.
    pub(super) fn is_of(&self, what: &Revoked) -> bool {
        match what {
            Revoked::Credential(label) => self.label == *label,
            Revoked::Policy(name) => self.policy == *name,
            Revoked::Session(id) => self.session == *id,
        }
    }
}

impl Custodyd {
    pub(super) fn start_worker(
        &mut self,
        order: u64,
        session: SessionId,
        label: &CredentialLabel,
        egress: &[SocketAddr],
    ) {
        let open = self
            .sessions
            .get(&session)
            .filter(|session| session.is_running())
            .map(|session| session.policy.clone());
        let started = open
            .ok_or_else(|| "the session does not run".into())
            .and_then(|policy| {
                self.try_start_worker(order, session, &policy, label, Job::Perform(egress))
            });
        self.or_no_worker(order, session, label, started);
    }

    /// A worker for what an earlier run of the vault left open: the same checks, and no session.
    pub(super) fn start_recovery(
        &mut self,
        order: u64,
        policy: &PolicyName,
        label: &CredentialLabel,
        egress: &[SocketAddr],
    ) {
        let job = Job::Perform(egress);
        let started = self.try_start_worker(order, NO_SESSION, policy, label, job);
        self.or_no_worker(order, NO_SESSION, label, started);
    }

    /// The program that verifies a tool's effects: a worker that holds nothing and goes nowhere.
    pub(super) fn start_verifier(
        &mut self,
        order: u64,
        session: SessionId,
        policy: &PolicyName,
        tool: &ToolName,
    ) {
        let found = self.checked.policies.get(policy).and_then(|policy| {
            let tool = policy.tools().get(tool)?;
            match &tool.verify.as_ref()?.look {
                Look::Command(command) => Some((tool.credential.clone(), command.clone())),
                Look::Read(_) => None,
            }
        });
        let Some((label, command)) = found else {
            let why = format!("policy `{policy}` has no program that verifies `{tool}`");
            self.no_worker(order, why);
            return;
        };
        let runs = session == NO_SESSION
            || self
                .sessions
                .get(&session)
                .is_some_and(|it| it.is_running() && it.policy == *policy);
        let started = if runs {
            let job = Job::Verify(&command);
            self.try_start_worker(order, session, policy, &label, job)
        } else {
            Err("the session does not run".into())
        };
        self.or_no_worker(order, session, &label, started);
    }

    fn no_worker(&mut self, order: u64, why: String) {
        self.tell(
            Service::Vault,
            &VaultNotice::WorkerRefused { order, why },
            &[],
        );
    }

    fn or_no_worker(
        &mut self,
        order: u64,
        session: SessionId,
        label: &CredentialLabel,
        started: Result<(), String>,
    ) {
        if let Err(why) = started {
            tracing::warn!(%session, %label, why, "no worker");
            self.no_worker(order, why);
        }
    }

    fn try_start_worker(
        &mut self,
        order: u64,
        session: SessionId,
        policy: &PolicyName,
        label: &CredentialLabel,
        job: Job<'_>,
    ) -> Result<(), String> {
        let said = |error: &dyn std::error::Error| chain(error);
        if let Some(what) = self.revocations.hinders(session, policy, label) {
            return Err(format!("{what} was revoked"));
        }
        let floor = self
            .checked
            .policies
            .get(policy)
            .and_then(|policy| policy.credential(label))
            .map(|credential| &credential.floor);
        let floor =
            floor.ok_or_else(|| format!("policy `{policy}` has no credential `{label}`"))?;
        let egress = match job {
            Job::Perform(egress) => {
                within(floor, egress)?;
                egress
            }
            Job::Verify(_) => &[],
        };
        if self.workers.contains_key(&order) {
            return Err(format!("order {order} was given before"));
        }
        let uid = self
            .workers_uids
            .take()
            .ok_or("every uid of the workers' range is in use")?;
        let made = self.cgroups.fresh(Group::Workers, "effect");
        let cgroup = made.map_err(|error| {
            self.workers_uids.give_back(uid);
            said(&error)
        })?;
        let part = Part::Worker {
            session,
            order,
            run: self.vault_run,
        };
        let what = match job {
            Job::Perform(_) => "worker",
            Job::Verify(_) => "verifier",
        };
        let name = format!("{what} {label} of session {session}");
        self.know(cgroup.id(), name.clone());
        // Before it is born: there is no moment with more, and none with less.
        let admitted = self.hooks.admit(cgroup.id(), egress, &[]);
        let pair = channel::pair_stream();
        let (for_vault, theirs) = match (admitted, pair) {
            (Ok(()), Ok(pair)) => pair,
            (Err(error), _) => {
                self.bury(part, cgroup, uid);
                return Err(said(&error));
            }
            (Ok(()), Err(error)) => {
                self.bury(part, cgroup, uid);
                return Err(said(&error));
            }
        };
        let plan = match job {
            Job::Perform(_) => self.worker_plan(uid),
            Job::Verify(command) => self.verifier_plan(uid, command),
        };
        match Process::start(
            &self.checked.programs,
            cgroup,
            &name,
            plan,
            &[theirs.as_fd()],
            None,
        ) {
            Ok(process) => {
                let process = self.register(part, process);
                let worker = Worker {
                    session,
                    policy: policy.clone(),
                    label: label.clone(),
                    network: matches!(job, Job::Perform(_)),
                    process,
                    for_vault: Some(for_vault),
                };
                self.workers.insert(order, worker);
                Ok(())
            }
            Err((cgroup, error)) => {
                self.bury(part, cgroup, uid);
                Err(said(&error))
            }
        }
    }

    /// custody-launch reported: the worker is executed and handed to the vault.
    pub(super) fn worker_reported(&mut self, number: u64, order: u64, run: u32, report: &Report) {
        if run != self.vault_run {
            self.kill_number(number);
            return;
        }
        if let Err(why) = self.hand_over(number, order, report) {
            tracing::warn!(order, why, "no worker");
            self.workers.remove(&order);
            self.kill_number(number);
            self.no_worker(order, why);
        }
    }

    fn hand_over(&mut self, number: u64, order: u64, report: &Report) -> Result<(), String> {
        let network = self.workers.get(&order).is_none_or(|it| it.network);
        sealed(report, network)?;
        self.hooks_stand(Group::Workers)?;
        let (_, process) = self.processes.get_mut(&number).ok_or("it is gone")?;
        process.go().map_err(|error| chain(&error))?;
        let pidfd = process
            .pidfd()
            .try_clone_to_owned()
            .map_err(|error| chain(&error))?;
        let worker = self.workers.get_mut(&order).ok_or("it was stopped")?;
        let channel = worker.for_vault.take().ok_or("it was handed over before")?;
        self.give(
            Service::Vault,
            &VaultNotice::Worker { order },
            &[channel, pidfd],
        );
        Ok(())
    }

    pub(super) fn worker_ended(&mut self, order: u64, run: u32) {
        if run == self.vault_run && self.workers.remove(&order).is_some() {
            self.no_worker(order, "the worker ended".into());
        }
    }

    pub(super) fn stop_worker(&mut self, order: u64) {
        if let Some(worker) = self.workers.remove(&order) {
            self.kill_number(worker.process);
        }
    }

    /// The vault that ordered them is gone.
    pub(super) fn end_all_workers(&mut self) {
        self.workers.clear();
        for number in self.numbers_of(|part| matches!(part, Part::Worker { .. })) {
            self.kill_number(number);
        }
    }
}

/// Whether every address of `egress` stands on the policy's floor. The vault has checked that too;
/// should it be lost, it does not choose where its credentials go.
fn within(floor: &Floor, egress: &[SocketAddr]) -> Result<(), String> {
    if egress.is_empty() || egress.len() > EGRESS_MAX {
        return Err(format!(
            "{} addresses; 1 to {EGRESS_MAX} are allowed",
            egress.len()
        ));
    }
    let stands = |to: &&SocketAddr| {
        // An address in place of a name is that address alone.
        let on_origin = floor.origins.iter().any(|origin| {
            origin.port() == to.port() && origin.address().is_none_or(|ip| ip == to.ip())
        });
        on_origin && floor.admits_address(to.ip())
    };
    match egress.iter().find(|to| !stands(to)) {
        None => Ok(()),
        Some(to) => Err(format!("{to} is not on the credential's floor")),
    }
}

/// Whether a program of ours is confined as it must be; in words if not.
pub(super) fn sealed(report: &Report, network: bool) -> Result<(), String> {
    match report {
        Report::Failed { layer, step, errno } => Err(format!(
            "{}{step}{}",
            layer.map_or_else(String::new, |layer| format!("layer `{}`: ", layer.name())),
            standing::in_words(*errno)
        )),
        Report::Sealed { layers, .. } => standing::service_suffices(layers, network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::{id::PolicyName, policy::Policy};

    const POLICY: &str = r#"
        format = 1
        [credentials.mail]
        connector = "http"
        placement = { header = "authorization", prefix = "Bearer " }
        [credentials.mail.floor]
        origins = ["http://127.0.0.1:8080", "https://api.example.test"]
        methods = ["GET"]
        paths = ["/v1"]
        addresses = ["127.0.0.0/8", "192.0.2.0/24"]
    "#;

    fn tried(egress: &[&str]) -> Result<(), String> {
        let name = PolicyName::parse("mail").unwrap();
        let policy = Policy::compile(&name, POLICY).unwrap();
        let label = CredentialLabel::parse("mail").unwrap();
        let egress: Vec<SocketAddr> = egress.iter().map(|to| to.parse().unwrap()).collect();
        within(&policy.credential(&label).unwrap().floor, &egress)
    }

    #[test]
    fn a_worker_goes_where_the_floor_says_and_the_vault_cannot_say_otherwise() {
        tried(&["127.0.0.1:8080"]).unwrap();
        tried(&["192.0.2.7:443", "127.0.0.1:8080"]).unwrap();
        for outside in [
            "198.51.100.1:443", // no address of the floor
            "192.0.2.7:8443",   // no port of the floor
            "127.0.0.2:8080",   // the origin is one address
            "[::ffff:198.51.100.1]:443",
            "0.0.0.0:443",
        ] {
            assert!(tried(&["127.0.0.1:8080", outside]).is_err(), "{outside}");
        }
    }

    #[test]
    fn an_egress_has_bounds() {
        assert!(tried(&[]).is_err());
        assert!(tried(&["127.0.0.1:8080"; EGRESS_MAX]).is_ok());
        assert!(tried(&["127.0.0.1:8080"; EGRESS_MAX + 1]).is_err());
    }
}

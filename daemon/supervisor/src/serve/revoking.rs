//! What an operator takes back, and tools that go on: heeded here first, then by everybody who could
//! still use it.

use custody_wire::{
    revoke::Revoked,
    supervise::{ControlNotice, VaultNotice},
};
use gate::id::{PolicyName, SessionId, ToolName};

use super::{Custodyd, services::Service};

impl Custodyd {
    /// Cuts what is in use before anything is written: the workers' processes end, and with them
    /// their connections.
    pub(super) fn revoke(&mut self, number: u64, what: &Revoked) {
        tracing::warn!(%what, "revoked by an operator");
        // What was delegated from a session goes with it.
        let below = match what {
            Revoked::Credential(_) | Revoked::Policy(_) => Vec::new(),
            Revoked::Session(id) => self.below(*id),
        };
        let below = below.into_iter().map(Revoked::Session);
        let all: Vec<Revoked> = std::iter::once(what.clone()).chain(below).collect();
        let numbers: Vec<u64> = self
            .workers
            .iter()
            .filter(|(_order, worker)| all.iter().any(|it| worker.is_of(it)))
            .map(|(order, _worker)| *order)
            .collect();
        for order in numbers {
            self.stop_worker(order);
        }
        for it in &all {
            self.tell(Service::Vault, &VaultNotice::Revoked(it.clone()), &[]);
        }
        let ended: Vec<SessionId> = match what {
            Revoked::Credential(_) => Vec::new(),
            Revoked::Policy(name) => self
                .sessions
                .iter()
                .filter(|(_id, session)| session.policy == *name)
                .map(|(id, _session)| *id)
                .collect(),
            Revoked::Session(id) => vec![*id],
        };
        for id in ended {
            self.stop_session(id, "revoked by an operator");
        }
        // The first that fails is said; that it is revoked in this run, each is.
        let written: Vec<std::io::Result<()>> =
            all.iter().map(|it| self.revocations.add(it)).collect();
        let written: std::io::Result<()> = written.into_iter().collect();
        let outcome = written.map_err(|error| {
            tracing::error!(%what, %error, "a revocation is not on disk");
            format!(
                "it is revoked, and that could not be written down: {error}; a restart of custodyd \
                 would not know it"
            )
        });
        self.tell(
            Service::Control,
            &ControlNotice::Heeded { number, outcome },
            &[],
        );
    }

    /// A tool whose effect was not there: the next run of the vault is told.
    pub(super) fn locked(&mut self, policy: PolicyName, tool: ToolName) {
        tracing::error!(%policy, %tool, "mismatched: the tool is locked until an operator unlocks it");
        self.locks.insert((policy, tool));
    }

    pub(super) fn unlock(&mut self, number: u64, tool: &ToolName) {
        let before = self.locks.len();
        self.locks.retain(|(_policy, it)| it != tool);
        let outcome = if self.locks.len() == before {
            Err(format!("no tool `{tool}` is locked"))
        } else {
            tracing::warn!(%tool, "unlocked by an operator");
            let tool = tool.clone();
            self.tell(Service::Vault, &VaultNotice::Unlocked { tool }, &[]);
            Ok(())
        };
        self.tell(
            Service::Control,
            &ControlNotice::Heeded { number, outcome },
            &[],
        );
    }

    /// What a new run of the vault must know before it acts.
    pub(super) fn tell_what_is_not_used(&mut self) {
        let revoked: Vec<Revoked> = self.revocations.all().cloned().collect();
        for what in revoked {
            self.tell(Service::Vault, &VaultNotice::Revoked(what), &[]);
        }
        for (policy, tool) in self.locks.clone() {
            self.tell(Service::Vault, &VaultNotice::Locked { policy, tool }, &[]);
        }
    }
}

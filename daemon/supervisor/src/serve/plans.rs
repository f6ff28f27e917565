//! What each of our programs may see. Arguments are places and switches, never a secret.

use std::{
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use custody_wire::launch::{Kind, Network, Plan, Role, Service as Program};
use gate::policy::Command;
use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

use super::{Custodyd, services::Service};
use crate::checks::users::Ids;

/// What a worker needs for TLS and names that are in files; those that are there.
const WORKER_READ: [&str; 5] = [
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/etc/hosts",
    "/etc/gai.conf",
    "/etc/services",
];

/// And the resolver, for names that are not.
const RESOLVER_READ: [&str; 3] = ["/etc/host.conf", "/etc/nsswitch.conf", "/etc/resolv.conf"];

impl Custodyd {
    /// As whom it runs; none where there is no page and no user for it.
    pub(super) fn ids(&self, service: Service) -> Option<Ids> {
        let users = &self.checked.users;
        match service {
            Service::Control => Some(users.control),
            Service::Gate => Some(users.gate),
            Service::Page => users.review,
            Service::Resolver => Some(users.resolver),
            Service::Vault => Some(users.vault),
        }
    }

    pub(super) fn service_plan(&self, service: Service, ids: Ids, fds: usize) -> Plan {
        let policies = self.places.policies();
        let state = |name: &str| self.places.state.join(name);
        let program = match service {
            Service::Control => {
                let approvals = state("approvals");
                let places = [("--approvals", &*approvals), ("--policies", &*policies)];
                let config = self.config_path.iter().map(|path| ("--config", &**path));
                let mut arguments = arguments(&config.chain(places).collect::<Vec<_>>());
                if let Some(page) = self.checked.config.page {
                    arguments.extend(["--page".into(), page.listen.to_string()]);
                }
                Program {
                    program: self.program("custody-control"),
                    arguments,
                    // The file alone: credentials may lie beside it.
                    read: self.config_path.iter().cloned().chain([policies]).collect(),
                    write: vec![approvals],
                    execute: runs(self.checked.config.notify.command.first()),
                    network: Network::None,
                }
            }
            Service::Gate => Program {
                program: self.program("custody-gate"),
                arguments: arguments(&[
                    ("--policies", &policies),
                    ("--state", &state("gate")),
                    ("--chain", &state("decisions")),
                    ("--public", &state("public/decisions")),
                ]),
                read: vec![policies],
                write: vec![state("gate"), state("decisions"), state("public/decisions")],
                execute: Vec::new(),
                network: Network::None,
            },
            // Everything that it reads comes from browsers and control.
            Service::Page => Program {
                program: self.program("custody-review"),
                arguments: Vec::new(),
                read: Vec::new(),
                write: Vec::new(),
                execute: Vec::new(),
                network: Network::None,
            },
            Service::Vault => Program {
                program: self.program("custody-vault"),
                arguments: arguments(&[
                    ("--policies", &policies),
                    ("--state", &state("vault")),
                    ("--chain", &state("receipts")),
                    ("--public", &state("public/receipts")),
                ]),
                read: vec![policies],
                write: vec![state("vault"), state("receipts"), state("public/receipts")],
                execute: Vec::new(),
                network: Network::None,
            },
            Service::Resolver => Program {
                program: self.program("custody-effect"),
                arguments: vec!["--resolve".into()],
                read: existing(WORKER_READ.into_iter().chain(RESOLVER_READ)),
                write: Vec::new(),
                execute: Vec::new(),
                network: Network::Host,
            },
        };
        plan(ids, program, fds)
    }

    pub(super) fn front_plan(&self, uid: u32) -> Plan {
        let program = Program {
            program: self.program("custody-front"),
            arguments: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            execute: Vec::new(),
            network: Network::None,
        };
        plan(Ids::same(uid), program, 2)
    }

    pub(super) fn worker_plan(&self, uid: u32) -> Plan {
        let program = Program {
            program: self.program("custody-effect"),
            arguments: Vec::new(),
            read: existing(WORKER_READ.into_iter()),
            write: Vec::new(),
            execute: Vec::new(),
            network: Network::Host,
        };
        plan(Ids::same(uid), program, 1)
    }

    /// What runs a policy's verifying program: that, the system's own programs, and what the policy lets it
    /// read. It holds nothing and reaches nothing.
    pub(super) fn verifier_plan(&self, uid: u32, command: &Command) -> Plan {
        let program = Program {
            program: self.program("custody-effect"),
            arguments: ["--check".into()]
                .into_iter()
                .chain(command.argv.iter().cloned())
                .collect(),
            read: command.reads.iter().map(PathBuf::from).collect(),
            write: Vec::new(),
            execute: runs(command.argv.first()),
            network: Network::None,
        };
        plan(Ids::same(uid), program, 1)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.checked.programs.path(name)
    }
}

fn plan(ids: Ids, program: Program, fds: usize) -> Plan {
    Plan {
        kind: Kind::Service(program),
        uid: ids.uid,
        gid: ids.gid,
        without: Vec::new(),
        fds: vec![Role::Inherit; fds],
    }
}

fn arguments(pairs: &[(&str, &Path)]) -> Vec<String> {
    pairs
        .iter()
        .flat_map(|(option, value)| [(*option).into(), value.display().to_string()])
        .collect()
}

/// What a program of the operator's needs, if there is one: itself, and the system's own.
fn runs(program: Option<&String>) -> Vec<PathBuf> {
    match program {
        Some(program) => vec![program.into(), "/usr".into()],
        None => Vec::new(),
    }
}

/// Those that are there, and where they lead: a rule of Landlock is for what is opened, and
/// `/etc/resolv.conf` leads into `/run` where a local resolver runs.
fn existing(paths: impl Iterator<Item = &'static str>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths.map(Path::new) {
        if let Ok(target) = target(path) {
            if target != path {
                found.push(path.into());
            }
            found.push(target);
        }
    }
    found
}

/// What `path` names now, every link followed.
fn target(path: &Path) -> std::io::Result<PathBuf> {
    let opened = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_left_out_and_links_are_followed() {
        assert_eq!(
            existing(["/no/such/file"].into_iter()),
            Vec::<PathBuf>::new()
        );
        assert_eq!(
            existing(["/etc/passwd"].into_iter()),
            [PathBuf::from("/etc/passwd")]
        );
        let found = existing(["/proc/self/root/etc"].into_iter());
        assert_eq!(found, [PathBuf::from("/proc/self/root/etc"), "/etc".into()]);
    }
}

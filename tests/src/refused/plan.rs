//! A session under a plan that no shipped profile makes: handed to custody-launch as custodyd does it.

use std::{
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use custody_sys::channel;
use custody_wire::{
    launch::{self, Kind, Plan, Role, Session},
    layer::Layer,
    profile::Profile,
};
use gate::id::SessionId;

use crate::suite::launcher::{self, Ended, Streams};

/// A uid that owns nothing: the agent's, where the plan has the layer.
pub(super) const UID: u32 = 1_900_999_010;

/// What is run, and under what.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    /// Where the programs are.
    pub(super) programs: &'a Path,
    /// The layers that are left out. The hooks of the cgroup are left out always.
    pub(super) without: &'a [Layer],
    /// The agent's uid.
    pub(super) uid: u32,
    /// Folders that are shown besides the programs.
    pub(super) shown: &'a [PathBuf],
    /// The workspace.
    pub(super) workspace: Option<&'a Path>,
    /// The command.
    pub(super) command: &'a [&'a str],
    /// What it reads.
    pub(super) input: &'a [u8],
}

impl<'a> Planned<'a> {
    /// A script of bash with these layers left out.
    pub(super) const fn new(
        programs: &'a Path,
        without: &'a [Layer],
        command: &'a [&'a str],
    ) -> Self {
        Self {
            programs,
            without,
            uid: UID,
            shown: &[],
            workspace: None,
            command,
            input: &[],
        }
    }

    /// Runs it to its end: standard output, then standard error.
    ///
    /// # Errors
    /// When custody-launch does not build it.
    pub(super) fn run(&self) -> anyhow::Result<String> {
        let (ours, theirs) = channel::pair_seqpacket().context("socketpair")?;
        let mut command =
            launcher::command(self.programs, None, |layer| self.keeps(layer), theirs)?;
        let mut launcher = Ended(command.spawn().context("start custody-isolate")?);
        // Our copy of its end of the channel: with it open, its end would not be seen.
        drop(command);
        let streams = self
            .converse(&ours)
            .map_err(|error| error.context(format!("custody-launch: {}", launcher.said())))?;
        let (mut said, errors) = launcher::exchange(streams, self.input)?;
        said.extend_from_slice(&errors);
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn keeps(&self, layer: Layer) -> bool {
        !self.without.contains(&layer)
    }

    fn converse(&self, ours: &OwnedFd) -> anyhow::Result<Streams> {
        let mut command = format!("{}\0", self.command.len()).into_bytes();
        for argument in self.command {
            command.extend_from_slice(argument.as_bytes());
            command.push(0);
        }
        let command = custody_sys::memfd::sealed(c"command", &command)?;
        let folder = self.workspace.map(custody_sys::path::folder).transpose()?;
        let workspace = match self.workspace {
            Some(path) => {
                let found = path.metadata()?;
                Some(launch::Workspace {
                    path: path.into(),
                    owner_uid: found.uid(),
                    owner_gid: found.gid(),
                })
            }
            None => None,
        };
        let mut without = self.without.to_vec();
        without.extend(Layer::ALL.into_iter().filter(|it| it.is_on_cgroup()));
        let plan = Plan {
            kind: Kind::Session(Session {
                id: SessionId(2),
                read_only: [self.programs.to_owned()]
                    .into_iter()
                    .chain(self.shown.iter().cloned())
                    .collect(),
                workspace,
                programs: self.programs.join("session"),
                tty: None,
                listener: launch::LISTENER.into(),
                profile: Profile::Standard,
                limits: launcher::LIMITS,
            }),
            uid: self.uid,
            gid: self.uid,
            without,
            fds: [Role::Command]
                .into_iter()
                .chain(folder.is_some().then_some(Role::Workspace))
                .collect(),
        };
        let fds: Vec<_> = [command.as_fd()]
            .into_iter()
            .chain(folder.as_ref().map(|folder| folder.as_fd()))
            .collect();
        let (streams, ()) = launcher::converse(ours, &plan, &fds, || Ok(()))?;
        Ok(streams)
    }
}

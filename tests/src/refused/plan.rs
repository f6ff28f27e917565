//! A session under a plan that no shipped profile makes: handed to custody-launch as custodyd does it.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context as _, bail};
use custody_sys::channel;
use custody_wire::{
    Message as _, frame,
    launch::{self, Go, Kind, Limits, Plan, Role, Session},
    layer::Layer,
    profile::Profile,
};
use gate::id::SessionId;

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
        let mut launcher = Ended(self.start(&theirs)?);
        drop(theirs);
        let streams = self
            .converse(&ours)
            .map_err(|error| error.context(format!("custody-launch: {}", launcher.said())))?;
        exchange(streams, self.input)
    }

    fn keeps(&self, layer: Layer) -> bool {
        !self.without.contains(&layer)
    }

    /// custody-isolate makes the namespaces and becomes custody-launch.
    fn start(&self, channel: &OwnedFd) -> anyhow::Result<Child> {
        let listener = Path::new(launch::LISTENER);
        fs::create_dir_all(listener.parent().unwrap_or(listener))?;
        let namespaces: Vec<&str> = [
            (Layer::CgroupNamespace, "cgroup"),
            (Layer::IpcNamespace, "ipc"),
            (Layer::NetworkNamespace, "net"),
            (Layer::PidNamespace, "pid"),
            (Layer::UtsNamespace, "uts"),
        ]
        .into_iter()
        .filter(|(layer, _)| self.keeps(*layer))
        .map(|(_, name)| name)
        .chain(["mnt"])
        .collect();
        Command::new(self.programs.join("custody-isolate"))
            .arg("-")
            .arg(namespaces.join(","))
            .arg(self.programs.join("custody-launch"))
            .stdin(channel.try_clone()?)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start custody-isolate")
    }

    fn converse(&self, ours: &OwnedFd) -> anyhow::Result<[fs::File; 3]> {
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
                limits: Limits {
                    processes: 256,
                    open_files: 1024,
                },
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
        channel::send(ours.as_fd(), &frame::datagram(&plan)?, &fds)?;
        let mut bytes = vec![0; launch::Report::CAP];
        let (len, fds) = channel::recv(ours.as_fd(), &mut bytes, channel::MAX_FDS)?;
        let roles = match frame::parse::<launch::Report>(bytes.get(..len).unwrap_or_default())? {
            launch::Report::Failed { layer, step, errno } => {
                bail!(
                    "{}: {step} (errno {errno})",
                    layer.map_or("no layer", Layer::name)
                )
            }
            launch::Report::Sealed { fds, .. } => fds,
        };
        let mut by_role: Vec<(Role, OwnedFd)> = roles.into_iter().zip(fds).collect();
        let mut take = |role| {
            let at = by_role.iter().position(|(it, _)| *it == role)?;
            Some(fs::File::from(by_role.swap_remove(at).1))
        };
        let streams = [Role::Stdin, Role::Stdout, Role::Stderr].map(&mut take);
        channel::send(ours.as_fd(), &frame::datagram(&Go)?, &[])?;
        let [Some(stdin), Some(stdout), Some(stderr)] = streams else {
            bail!("custody-launch brought no three pipes");
        };
        Ok([stdin, stdout, stderr])
    }
}

fn exchange(
    [mut stdin, mut stdout, mut stderr]: [fs::File; 3],
    input: &[u8],
) -> anyhow::Result<String> {
    let errors = thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    // A command that is gone already reads nothing: its output says why.
    drop(stdin.write_all(input));
    drop(stdin);
    let mut bytes = Vec::new();
    stdout.read_to_end(&mut bytes)?;
    let errors = errors
        .join()
        .map_err(|_panic| anyhow::anyhow!("the reader panicked"))??;
    bytes.extend_from_slice(&errors);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The run's first process; its end takes the rest along.
struct Ended(Child);

impl Ended {
    fn said(&mut self) -> String {
        drop(self.0.kill());
        let mut text = String::new();
        if let Some(stderr) = self.0.stderr.as_mut() {
            drop(stderr.read_to_string(&mut text));
        }
        text.trim().to_owned()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

//! custody-launch under a plan that custodyd never makes: what a run of the suite's own does as
//! custodyd does it.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context as _, bail};
use custody_sys::channel;
use custody_wire::{
    Message as _, frame,
    launch::{Go, LISTENER, Limits, Plan, Report, Role},
    layer::Layer,
};

/// What every run has.
pub(crate) const LIMITS: Limits = Limits {
    memory: 1 << 30,
    processes: 256,
    open_files: 1024,
};

/// custody-isolate, which makes the namespaces that are kept, in `cgroup` if there is one, and
/// becomes the custody-launch beside it with `channel`.
///
/// # Errors
/// When the folder of the listener cannot be made.
pub(crate) fn command(
    programs: &Path,
    cgroup: Option<&Path>,
    keeps: impl Fn(Layer) -> bool,
    channel: OwnedFd,
) -> anyhow::Result<Command> {
    // Where the host's root stays, the listener's folder is a mount point of the host's; where no
    // service ever ran, there is none yet.
    let listener = Path::new(LISTENER);
    fs::create_dir_all(listener.parent().unwrap_or(listener))
        .with_context(|| format!("the folder of {}", listener.display()))?;
    let mut command = Command::new(programs.join("custody-isolate"));
    command
        .arg(cgroup.unwrap_or(Path::new("-")))
        .arg(namespaces(keeps).join(","))
        .arg(programs.join("custody-launch"))
        // Whatever its number is here: with LSM programs the suite holds more than a hundred.
        .stdin(channel)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Ok(command)
}

/// The namespaces, by name, that custodyd makes at clone3(2). The mount namespace is always made,
/// as a vessel: the layer is the pivoted root in it.
fn namespaces(keeps: impl Fn(Layer) -> bool) -> Vec<&'static str> {
    [
        (Layer::CgroupNamespace, "cgroup"),
        (Layer::IpcNamespace, "ipc"),
        (Layer::NetworkNamespace, "net"),
        (Layer::PidNamespace, "pid"),
        (Layer::UtsNamespace, "uts"),
    ]
    .into_iter()
    .filter(|(layer, _)| keeps(*layer))
    .map(|(_, name)| name)
    .chain(["mnt"])
    .collect()
}

/// Our ends of a session's streams.
pub(crate) struct Streams {
    stdin: fs::File,
    stdout: fs::File,
    stderr: fs::File,
    /// Open as long as the session: a front would have it.
    _listener: Option<OwnedFd>,
}

/// Plan, report, last word. Between the report and the last word `sealed` is done.
///
/// # Errors
/// When custody-launch does not build what is planned, or `sealed` fails.
pub(crate) fn converse<T>(
    ours: &OwnedFd,
    plan: &Plan,
    fds: &[BorrowedFd<'_>],
    sealed: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(Streams, T)> {
    channel::send(ours.as_fd(), &frame::datagram(plan)?, fds)?;
    let mut bytes = vec![0; Report::CAP];
    let (len, fds) = channel::recv(ours.as_fd(), &mut bytes, channel::MAX_FDS)?;
    let report = frame::parse::<Report>(bytes.get(..len).unwrap_or_default())?;
    let roles = match report {
        Report::Failed { layer, step, errno } => {
            let layer = layer.map_or("no layer", Layer::name);
            bail!("{layer}: {step} (errno {errno})");
        }
        Report::Sealed { fds, .. } => fds,
    };
    let mut by_role: Vec<(Role, OwnedFd)> = roles.into_iter().zip(fds).collect();
    let mut take = |role| {
        let at = by_role.iter().position(|(it, _)| *it == role)?;
        Some(by_role.swap_remove(at).1)
    };
    let streams = Streams {
        stdin: take(Role::Stdin).context("no standard input")?.into(),
        stdout: take(Role::Stdout).context("no standard output")?.into(),
        stderr: take(Role::Stderr).context("no standard error")?.into(),
        _listener: take(Role::Listener),
    };
    let sealed = sealed()?;
    channel::send(ours.as_fd(), &frame::datagram(&Go)?, &[])?;
    Ok((streams, sealed))
}

/// Gives `input`, reads what comes, until both ends are closed: standard output, standard error.
///
/// # Errors
/// When a pipe cannot be read.
pub(crate) fn exchange(streams: Streams, input: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let Streams {
        mut stdin,
        mut stdout,
        mut stderr,
        _listener,
    } = streams;
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
    Ok((bytes, errors))
}

/// The run's first process; its end takes the rest along.
pub(crate) struct Ended(pub(crate) Child);

impl Ended {
    /// What it said, when it is of no more use.
    pub(crate) fn said(&mut self) -> String {
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

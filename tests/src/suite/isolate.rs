//! The isolating runs: custody-launch with a plan of the suite's own, which leaves layers out.
//!
//! The suite is root here and does what custodyd does: namespaces, cgroup, plan, the last word.
//! It changes no program: the same custody-launch, custody-init and probe run in every arm.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
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
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::socket::{setsockopt, sockopt},
};

use super::{
    arms::{self, Carried},
    hooks::Hooks,
    judge::{Left, Seen},
    lsm::Lsm,
    scene::Scene,
};
use crate::{attempts::Workspace, probe::Attack};

/// A uid that owns nothing: the agent's, where the layer is in.
const APART_UID: u32 = 1_900_999_002;

/// What an isolating run has besides the attack.
#[derive(Debug)]
pub struct With<'a> {
    /// What the caller carries.
    pub carried: &'a Carried,
    /// The folder of the runs' cgroups, under no hook.
    pub cgroups: &'a Path,
    /// custodyd's hooks of a cgroup.
    pub hooks: &'a Hooks,
    /// BPF LSM, where sessions have it.
    pub lsm: Option<&'a Lsm>,
    /// The profile of the sessions.
    pub profile: Profile,
    /// Whether the session has the shared workspace.
    pub workspace: Workspace,
}

/// Runs the probe with the layers that are left.
///
/// # Errors
/// When the run cannot be made; nothing was refused then.
pub fn run(
    scene: &Scene,
    left: &Left,
    attack: &Attack,
    nonce: &str,
    with: &With<'_>,
) -> anyhow::Result<Seen> {
    let lsm = with.lsm.filter(|_| left.keeps(Layer::BpfLsm));
    let folder = lsm.map_or(with.cgroups, Lsm::folder);
    let cgroup = Cgroup::below(folder, left.keeps(Layer::Cgroup))?;
    let (ours, theirs) = channel::pair_seqpacket().context("socketpair")?;
    if let Some(lsm) = lsm {
        lsm.open(&cgroup.0, with.profile)?;
        if let Some(mark) = lsm.mark() {
            setsockopt(&theirs, sockopt::Mark, &mark).context("SO_MARK")?;
        }
    }
    let child = start(scene, left, theirs, &cgroup, with.carried)?;
    let mut ended = Ended(child);
    // While a session is launched its /dev is made: the hooks come then, as custodyd's let it.
    let hook = || {
        let attached = with.hooks.attach(&cgroup.0, |layer| left.keeps(layer))?;
        if let Some(lsm) = lsm {
            lsm.seal(&cgroup.0, with.profile)?;
        }
        Ok(attached)
    };
    let (streams, attached) = converse(scene, left, with, &ours, hook).map_err(|error| {
        let said = ended.said();
        error.context(format!("custody-launch: {said}"))
    })?;
    let (stdout, stderr) = cgroup.patient(|| exchange(streams, attack))?;
    // Attached until the run is over.
    drop(attached);
    arms::see(scene, &stdout, &stderr, nonce, arms::on_its_way())
}

/// Starts custody-isolate, which makes the namespaces and executes custody-launch.
fn start(
    scene: &Scene,
    left: &Left,
    channel: OwnedFd,
    cgroup: &Cgroup,
    carried: &Carried,
) -> anyhow::Result<Child> {
    // Where the host's root stays, the listener's folder is a mount point of the host's; where no
    // service ever ran, there is none yet.
    let listener = Path::new(launch::LISTENER);
    fs::create_dir_all(listener.parent().unwrap_or(listener))
        .with_context(|| format!("the folder of {}", listener.display()))?;
    let mut command = Command::new(scene.program("custody-isolate"));
    command
        .arg(&cgroup.0)
        .arg(namespaces(left).join(","))
        .arg(scene.program("custody-launch"))
        // Whatever its number is here: with LSM programs the suite holds more than a hundred.
        .stdin(channel)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    carried.into_environment(&mut command);
    command.spawn().context("start custody-isolate")
}

/// The namespaces, by name, that custodyd makes at clone3(2). The mount namespace is always made,
/// as a vessel: the layer is the pivoted root in it.
fn namespaces(left: &Left) -> Vec<&'static str> {
    [
        (Layer::CgroupNamespace, "cgroup"),
        (Layer::IpcNamespace, "ipc"),
        (Layer::NetworkNamespace, "net"),
        (Layer::PidNamespace, "pid"),
        (Layer::UtsNamespace, "uts"),
    ]
    .into_iter()
    .filter(|(layer, _)| left.keeps(*layer))
    .map(|(_, name)| name)
    .chain(["mnt"])
    .collect()
}

struct Streams {
    stdin: fs::File,
    stdout: fs::File,
    stderr: fs::File,
    /// Open as long as the session: a front would have it.
    _listener: Option<OwnedFd>,
}

/// Plan, report, last word.
fn converse<T>(
    scene: &Scene,
    left: &Left,
    with: &With<'_>,
    ours: &OwnedFd,
    sealed: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(Streams, T)> {
    let probe = scene.program("custody-probe");
    let mut command = b"1\0".to_vec();
    command.extend_from_slice(probe.as_os_str().as_encoded_bytes());
    command.push(0);
    let command = custody_sys::memfd::sealed(c"command", &command)?;
    let programs = probe.parent().unwrap_or(Path::new("/")).to_owned();
    let shared = match with.workspace {
        Workspace::Shared if left.keeps(Layer::MountNamespace) => {
            Some(custody_sys::path::folder(scene.workspace())?)
        }
        Workspace::None | Workspace::Shared => None,
    };
    let plan = Plan {
        kind: Kind::Session(Session {
            id: SessionId(1),
            read_only: vec![programs.clone()],
            workspace: shared.is_some().then(|| launch::Workspace {
                path: scene.workspace().into(),
                owner_uid: scene.operator(),
                owner_gid: scene.operator(),
            }),
            programs: programs.join("session"),
            tty: None,
            listener: launch::LISTENER.into(),
            profile: with.profile,
            limits: Limits {
                processes: 256,
                open_files: 1024,
            },
        }),
        uid: APART_UID,
        gid: APART_UID,
        without: Layer::ALL
            .into_iter()
            .filter(|layer| !left.keeps(*layer))
            .collect(),
        fds: [Role::Command]
            .into_iter()
            .chain(shared.is_some().then_some(Role::Workspace))
            .collect(),
    };
    let fds: Vec<_> = [command.as_fd()]
        .into_iter()
        .chain(shared.as_ref().map(|folder| folder.as_fd()))
        .collect();
    channel::send(ours.as_fd(), &frame::datagram(&plan)?, &fds)?;
    let mut bytes = vec![0; launch::Report::CAP];
    let (len, fds) = channel::recv(ours.as_fd(), &mut bytes, channel::MAX_FDS)?;
    let report = frame::parse::<launch::Report>(bytes.get(..len).unwrap_or_default())?;
    let roles = match report {
        launch::Report::Failed { layer, step, errno } => {
            let layer = layer.map_or("no layer", Layer::name);
            bail!("{layer}: {step} (errno {errno})");
        }
        launch::Report::Sealed { fds, .. } => fds,
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

/// Gives the attack, reads what comes, until both ends are closed.
fn exchange(mut streams: Streams, attack: &Attack) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let attack = serde_json::to_vec(attack)?;
    let mut stderr = streams.stderr;
    let errors = thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    // A command that is gone already reads nothing: its output says why.
    drop(streams.stdin.write_all(&attack));
    drop(streams.stdin);
    let mut stdout = Vec::new();
    streams.stdout.read_to_end(&mut stdout)?;
    let stderr = errors
        .join()
        .map_err(|_panic| anyhow::anyhow!("the reader panicked"))??;
    Ok((stdout, stderr))
}

/// A cgroup of the run's own, for the hooks that it keeps.
/// With the layer, whoever is left in it ends with the run.
struct Cgroup(PathBuf, bool);

impl Cgroup {
    fn below(folder: &Path, kills: bool) -> anyhow::Result<Self> {
        let path = folder.join(format!("isolate-{}", super::scene::nonce()?));
        fs::create_dir(&path).with_context(|| format!("`{}`", path.display()))?;
        Ok(Self(path, kills))
    }
}

impl Cgroup {
    /// Does what may wait for the run's processes; where it lasts too long, they are killed.
    fn patient<T>(&self, what: impl FnOnce() -> T) -> T {
        let (over, waits) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                if waits.recv_timeout(arms::PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    // Gone already is as good.
                    drop(fs::write(self.0.join("cgroup.kill"), "1"));
                }
            });
            let done = what();
            drop(over);
            done
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What does not go now goes with the installation.
        if !self.1 {
            drop(fs::remove_dir(&self.0));
            return;
        }
        drop(fs::write(self.0.join("cgroup.kill"), "1"));
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
    }
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

/// The program `custody-isolate`: makes namespaces and becomes custody-launch, whose channel is
/// its standard input.
///
/// # Errors
/// When the kernel refuses a step.
pub fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next = || arguments.next().context("too few arguments");
    let (cgroup, names, program) = (next()?, next()?, next()?);
    if cgroup != "-" {
        fs::write(Path::new(&cgroup).join("cgroup.procs"), "0").context("join the cgroup")?;
    }
    let text = names.to_string_lossy().into_owned();
    let names: Vec<&str> = text.split(',').collect();
    if names.contains(&"pid") {
        // The next child is the first of the new namespace (unshare(2)).
        unshare(CloneFlags::CLONE_NEWPID).context("unshare CLONE_NEWPID")?;
        let rest: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| *name != "pid")
            .collect();
        let status = Command::new(std::env::current_exe()?)
            .arg("-")
            .arg(rest.join(","))
            .arg(&program)
            .status()?;
        anyhow::ensure!(status.success(), "{status}");
        return Ok(());
    }
    unshare(flags(&names)).context("unshare")?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).context("mount private")?;
    // The agent's home is in Landlock's rules; on a host's root it is not there.
    mount(
        Some("tmpfs"),
        "/home",
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .context("mount /home")?;
    fs::create_dir("/home/agent").context("mkdir /home/agent")?;
    let channel = std::io::stdin().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdin(fs::File::open("/dev/null")?)?;
    let placed = at_channel_number(channel)?;
    fcntl(&placed, FcntlArg::F_SETFD(FdFlag::empty()))?;
    // What a caller carries stays open beside it: that it is closed is the layer's to do.
    custody_sys::fd::leave_open(placed);
    let error = Command::new(program).exec();
    Err(error).context("execute custody-launch")
}

/// `channel` under the number where custody-launch looks for it.
fn at_channel_number(channel: OwnedFd) -> anyhow::Result<OwnedFd> {
    if channel.as_raw_fd() == launch::CHANNEL_FD {
        return Ok(channel);
    }
    // The lowest free number is taken (open(2)).
    let mut placed = OwnedFd::from(fs::File::open("/dev/null")?);
    anyhow::ensure!(
        placed.as_raw_fd() == launch::CHANNEL_FD,
        "descriptor {} is not free",
        launch::CHANNEL_FD
    );
    nix::unistd::dup2(&channel, &mut placed)?;
    Ok(placed)
}

fn flags(names: &[&str]) -> CloneFlags {
    names.iter().fold(CloneFlags::empty(), |flags, name| {
        flags
            | match *name {
                "cgroup" => CloneFlags::CLONE_NEWCGROUP,
                "ipc" => CloneFlags::CLONE_NEWIPC,
                "mnt" => CloneFlags::CLONE_NEWNS,
                "net" => CloneFlags::CLONE_NEWNET,
                "uts" => CloneFlags::CLONE_NEWUTS,
                _ => CloneFlags::empty(),
            }
    })
}

//! The isolating runs: custody-launch with a plan of the suite's own, which leaves layers out.
//!
//! The suite is root here and does what custodyd does: namespaces, cgroup, plan, the last word.
//! It changes no program: the same custody-launch, custody-init and probe run in every arm.

use std::{
    fs,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use custody_sys::channel;
use custody_wire::{
    launch::{self, Kind, Plan, Role, Session},
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
    launcher::{self, Ended, Streams},
    lsm::Lsm,
    scene::Scene,
};
use crate::{attempts::Workspace, probe::Attack};

/// How long processes that are killed may take to be gone.
const ENDED: Duration = Duration::from_secs(20);

/// A uid that owns nothing: the agent's, where the layer is in.
pub(super) const APART_UID: u32 = 1_900_999_002;

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
    let cgroup = Cgroup::below(folder, left)?;
    let (ours, theirs) = channel::pair_seqpacket().context("socketpair")?;
    if let Some(lsm) = lsm {
        lsm.open(&cgroup.path, with.profile)?;
        if let Some(mark) = lsm.mark() {
            setsockopt(&theirs, sockopt::Mark, &mark).context("SO_MARK")?;
        }
    }
    let programs = scene.program("custody-launch");
    let programs = programs.parent().unwrap_or(Path::new("/"));
    let mut command = launcher::command(
        programs,
        Some(&cgroup.path),
        |layer| left.keeps(layer),
        theirs,
    )?;
    with.carried.into_environment(&mut command);
    let mut ended = Ended(command.spawn().context("start custody-isolate")?);
    // Our copy of its end of the channel: with it open, its end would not be seen.
    drop(command);
    // While a session is launched its /dev is made: the hooks come then, as custodyd's let it.
    let hook = || {
        let attached = with.hooks.attach(&cgroup.path, |layer| left.keeps(layer))?;
        if let Some(lsm) = lsm {
            lsm.seal(&cgroup.path, with.profile)?;
        }
        Ok(attached)
    };
    let (streams, attached) = converse(scene, left, with, &ours, hook).map_err(|error| {
        let said = ended.said();
        error.context(format!("custody-launch: {said}"))
    })?;
    let attack = serde_json::to_vec(attack)?;
    let (stdout, stderr) = cgroup.patient(|| launcher::exchange(streams, &attack))?;
    // Attached until the run is over.
    drop(attached);
    arms::see(scene, &stdout, &stderr, nonce)
}

/// Plans the probe with the layers that are left.
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
            limits: launcher::LIMITS,
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
    launcher::converse(ours, &plan, &fds, sealed)
}

/// A cgroup of the run's own, for the hooks that it keeps.
/// With the layer, whoever is left in it ends with the run.
struct Cgroup {
    path: PathBuf,
    /// Whether its end kills who is in it.
    kills: bool,
    /// Whether it is empty by itself soon: the kernel ends all of a pid namespace after its first
    /// process, which nobody here waits for (pid_namespaces(7)). Who looked before would see killed
    /// processes as alive.
    empties: bool,
}

impl Cgroup {
    fn below(folder: &Path, left: &Left) -> anyhow::Result<Self> {
        let path = folder.join(format!("isolate-{}", super::scene::nonce()?));
        fs::create_dir(&path).with_context(|| format!("`{}`", path.display()))?;
        Ok(Self {
            path,
            kills: left.keeps(Layer::Cgroup),
            empties: left.keeps(Layer::PidNamespace),
        })
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
                    drop(fs::write(self.path.join("cgroup.kill"), "1"));
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
        if self.kills {
            // Gone already is as good.
            drop(fs::write(self.path.join("cgroup.kill"), "1"));
        }
        // An emulated machine takes its time to end them, and what is looked at next is who is left.
        // What does not go now goes with the installation.
        let end = Instant::now() + ENDED;
        while fs::remove_dir(&self.path).is_err()
            && (self.kills || self.empties)
            && Instant::now() < end
        {
            thread::sleep(Duration::from_millis(10));
        }
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

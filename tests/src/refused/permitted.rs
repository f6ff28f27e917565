//! The permitted configurations, and what is reached in them: by a witness outside the session, or by a
//! canary that its command had no other way to.

use std::{
    fs,
    io::{Read as _, Seek as _, Write as _},
    net::TcpListener,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{PermissionsExt as _, chown},
            net::{SocketAddr, UnixListener, UnixStream},
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use custody_wire::{layer::Layer, profile::Profile};
use nix::{
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::Pid,
};
use rustix::io::{FdFlags, fcntl_setfd};

use super::{
    place::{PLAIN, Place, Setting, listen},
    plan::{Planned, UID},
    tracer,
};
use crate::{
    ground::words,
    probe::{Address, Attack, Effect, How},
    suite::scene,
};

/// What a plan leaves out so that the command sees the host's files: the root of its own, and
/// Landlock, whose rules are for that.
const HOSTS_FILES: [Layer; 2] = [Layer::Landlock, Layer::MountNamespace];

/// How long a witness waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// A folder of the host, everyone's to enter, with the programs and a canary.
struct Bed {
    place: Place,
}

impl Bed {
    fn make() -> anyhow::Result<Self> {
        Ok(Self {
            place: Place::lay()?,
        })
    }

    fn programs(&self) -> PathBuf {
        self.place.host.programs()
    }

    /// A file with the canary, of `uid` and `mode`.
    fn file(&self, uid: u32, mode: u32) -> anyhow::Result<String> {
        let path = self.place.host.folder().join("canary");
        fs::write(&path, &self.place.canary)?;
        chown(&path, Some(uid), Some(uid))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path.display().to_string())
    }

    /// What a script printed under a plan without these layers must hold the canary.
    fn reads(&self, without: &[Layer], uid: u32, script: &str) -> anyhow::Result<String> {
        let programs = self.programs();
        let command = ["/bin/bash", "-c", script];
        let mut planned = Planned::new(&programs, without, &command);
        planned.uid = uid;
        self.saw(&planned.run()?)
    }

    fn saw(&self, said: &str) -> anyhow::Result<String> {
        ensure!(
            said.contains(&self.place.canary),
            "the canary was not read: {said}"
        );
        Ok("the canary was read".into())
    }
}

fn with(more: &[Layer]) -> Vec<Layer> {
    HOSTS_FILES.iter().chain(more).copied().collect()
}

/// A file of root's alone, by an agent that is root.
pub(crate) fn roots_file() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let file = bed.file(0, 0o600)?;
    bed.reads(&with(&[Layer::Uid]), UID, &format!("cat {file}"))
}

/// A file of another's, by an agent with his uid.
pub(crate) fn others_file() -> anyhow::Result<String> {
    const DYNAMIC: u32 = 61_300;
    let bed = Bed::make()?;
    let file = bed.file(DYNAMIC, 0o600)?;
    ensure!(
        bed.reads(&with(&[]), UID, &format!("cat {file}")).is_err(),
        "anyone reads it"
    );
    bed.reads(&with(&[]), DYNAMIC, &format!("cat {file}"))
}

/// A file of another's, by an agent with capabilities.
pub(crate) fn file_by_capability() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let file = bed.file(1_900_999_020, 0o600)?;
    let uid_alone = bed.reads(&with(&[Layer::Uid]), UID, &format!("cat {file}"));
    ensure!(uid_alone.is_err(), "it needs no capability");
    bed.reads(
        &with(&[Layer::Uid, Layer::Capabilities]),
        UID,
        &format!("cat {file}"),
    )
}

/// A file that everyone may read, by an agent that shares the host's mount namespace.
pub(crate) fn open_file() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let file = bed.file(0, 0o644)?;
    let script = format!("cat {file}");
    let own = bed.reads(&[Layer::Landlock], UID, &script);
    ensure!(own.is_err(), "its own mount namespace does not hold it");
    bed.reads(&with(&[]), UID, &script)
}

/// The credential's own file, whose mode lets everyone read it, by an agent that sees the host's files.
pub(crate) fn open_credential() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let token = bed.place.token();
    let script = format!("cat {}", token.display());
    let closed = bed.reads(&with(&[]), UID, &script);
    ensure!(closed.is_err(), "its mode does not hold it");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644))?;
    bed.reads(&with(&[]), UID, &script)
}

/// The credential's file, shown by a policy, to an agent that is root.
pub(crate) fn shown_credential() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let programs = bed.programs();
    let token = bed.place.token();
    let script = format!("cat {}", token.display());
    let command = ["/bin/bash", "-c", &script];
    let shown = [token.parent().unwrap_or(Path::new("/")).to_owned()];
    let mut planned = Planned::new(&programs, &[Layer::Uid], &command);
    planned.shown = &shown;
    bed.saw(&planned.run()?)
}

/// The environment of a process with the agent's uid.
pub(crate) fn environment_of_a_twin() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let holder = Holder::start(UID, &bed.place.canary)?;
    let script = format!("cat /proc/{}/environ", holder.0.id());
    bed.reads(&with(&[Layer::PidNamespace]), UID, &script)
}

/// What passes through custodyd, by who traces it, while a session of `dev` starts.
pub(crate) fn custodyd_by_tracer() -> anyhow::Result<String> {
    let place = Place::set()?;
    let canary = format!("canary-{}", scene::random()?);
    let folder = place.host.workspace(&canary)?;
    let pid = Pid::from_raw(place.host.pid("custodyd")?);
    let mut run = place.run(PLAIN, Profile::Dev);
    run.arg("--workdir").arg(&folder);
    run.args(["--", "/bin/sleep", "60"]).stderr(Stdio::piped());
    let session = || -> anyhow::Result<_> {
        let child = run.spawn()?;
        let runs = || place.host.log().contains("session runs");
        Ok((child, place.host.wait("the session runs", runs)))
    };
    let (session, found) =
        tracer::traced(pid, session, |pid| is_in_memory(pid, canary.as_bytes()))?;
    let (mut child, started) = session?;
    // custody-control stops the session when its caller is gone.
    child.kill()?;
    let output = child.wait_with_output()?;
    started.with_context(|| words(&output))?;
    ensure!(found?, "the operator's path is not in its memory");
    Ok("a session of `dev` started, and the tracer read the operator's path in custodyd".into())
}

/// A setuid program of root's, executed by an agent that may gain privileges.
pub(crate) fn setuid_program() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let file = bed.file(0, 0o600)?;
    let cat = bed.place.host.folder().join("cat");
    fs::copy("/bin/cat", &cat)?;
    fs::set_permissions(&cat, fs::Permissions::from_mode(0o4755))?;
    let script = format!("{} {file}", cat.display());
    // The filter needs no_new_privs (seccomp(2)).
    let open = [Layer::Capabilities, Layer::NoNewPrivs, Layer::Seccomp];
    let unarmed = bed.reads(&with(&[Layer::Capabilities, Layer::Seccomp]), UID, &script);
    ensure!(unarmed.is_err(), "no_new_privs does not hold it");
    bed.reads(&with(&open), UID, &script)
}

/// A setuid program of root's on a mount that honours it: the same file on one that does not gives
/// nothing (`nosuid` in mount(8)).
pub(crate) fn setuid_mount() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let file = bed.file(0, 0o600)?;
    let open = with(&[Layer::Capabilities, Layer::NoNewPrivs, Layer::Seccomp]);
    let by = |name: &str, flags| {
        let mount = Mounted::tmpfs(&bed.place.host.folder().join(name), flags)?;
        let cat = mount.0.join("cat");
        fs::copy("/bin/cat", &cat)?;
        fs::set_permissions(&cat, fs::Permissions::from_mode(0o4755))?;
        bed.reads(&open, UID, &format!("{} {file}", cat.display()))
    };
    let held = by("nosuid", MsFlags::MS_NOSUID);
    ensure!(held.is_err(), "`nosuid` does not hold it");
    by("honours", MsFlags::empty())
}

/// A file system in memory, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path, flags: MsFlags) -> anyhow::Result<Self> {
        fs::create_dir(at)?;
        mount(
            Some("none"),
            at,
            Some("tmpfs"),
            flags,
            Some("size=1m,mode=755"),
        )
        .context("mount(2)")?;
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whoever still sees it goes on; here it is gone.
        let _gone = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// A connection over TCP to a listener of the host's.
pub(crate) fn tcp() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let programs = bed.programs();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let nonce = scene::nonce()?;
    let witness = Witness::new(&nonce, move || Ok(listener.accept()?.0));
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo {nonce} >&3");
    let command = ["/bin/bash", "-c", &script];
    // cgroup eBPF is what would hold it last.
    let without = [Layer::Landlock, Layer::NetworkNamespace, Layer::Seccomp];
    let said = Planned::new(&programs, &without, &command).run()?;
    witness.saw(&said)
}

/// A connection to an abstract name of the host's network namespace.
pub(crate) fn abstract_name() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let nonce = scene::nonce()?;
    let address = SocketAddr::from_abstract_name(nonce.as_bytes())?;
    let listener = UnixListener::bind_addr(&address)?;
    let witness = Witness::new(&nonce, move || Ok(listener.accept()?.0));
    let without = [Layer::Landlock, Layer::NetworkNamespace];
    let said = speak(
        &bed,
        &without,
        Address::Abstract(nonce.clone()),
        &nonce,
        None,
        &[],
    )?;
    witness.saw(&said)
}

/// A signal to a process outside with the agent's uid: one that it can neither block nor ignore.
pub(crate) fn signal() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let programs = bed.programs();
    let mut holder = Holder::start(UID, "nothing")?;
    let script = format!("kill -KILL {}", holder.0.id());
    let command = ["/bin/bash", "-c", &script];
    let without = [Layer::Landlock, Layer::PidNamespace];
    let said = Planned::new(&programs, &without, &command).run()?;
    for _ in 0..200 {
        if let Some(status) = holder.0.try_wait()? {
            let by = status.signal();
            ensure!(by == Some(libc::SIGKILL), "it ended by itself: {status}");
            return Ok(format!("a process outside ended: {status}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    bail!("the process outside lives on: {said}")
}

/// A ring, where no filter refuses it.
pub(crate) fn ring() -> anyhow::Result<String> {
    const PYTHON: &str = "/usr/bin/python3";
    ensure!(Path::new(PYTHON).exists(), "not attempted: needs {PYTHON}");
    let bed = Bed::make()?;
    let programs = bed.programs();
    // io_uring_setup(2) is 425; parameters of 120 bytes, all zero.
    let script = "import ctypes, os\n\
                  c = ctypes.CDLL(None, use_errno=True)\n\
                  fd = c.syscall(425, 1, ctypes.create_string_buffer(120))\n\
                  print('ring', os.readlink(f'/proc/self/fd/{fd}') if fd >= 0 else ctypes.get_errno())";
    let command = [PYTHON, "-c", script];
    let held = Planned::new(&programs, &[], &command).run()?;
    ensure!(
        !held.contains("io_uring"),
        "the filter does not hold it: {held}"
    );
    let said = Planned::new(&programs, &[Layer::Seccomp], &command).run()?;
    ensure!(said.contains("io_uring"), "no ring: {said}");
    Ok(format!("io_uring_setup(2) made one: {}", said.trim()))
}

/// A setuid bit on a file of the workspace's owner, seen outside.
pub(crate) fn setuid_bit() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let programs = bed.programs();
    let folder = bed.place.host.workspace("work")?;
    let command = ["/bin/bash", "-c", "cp /bin/true made; chmod 6755 made"];
    let mut planned = Planned::new(&programs, &[Layer::Seccomp], &command);
    planned.workspace = Some(&folder);
    let said = planned.run()?;
    let mode = fs::metadata(folder.join("made"))
        .with_context(|| said.clone())?
        .permissions()
        .mode();
    ensure!(mode & 0o6000 == 0o6000, "mode {mode:o}: {said}");
    Ok(format!(
        "on the host a file of the owner has mode {:o}",
        mode & 0o7777
    ))
}

/// A core file with the memory of a command, in the workspace.
pub(crate) fn core_file() -> anyhow::Result<String> {
    let pattern = Setting::change("/proc/sys/kernel/core_pattern", "core")?;
    let bed = Bed::make()?;
    let said = crash(&bed)?;
    drop(pattern);
    let folder = bed.place.host.folder().join("work");
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let holds = fs::read(&path)?
            .windows(bed.place.canary.len())
            .any(|window| window == bed.place.canary.as_bytes());
        if holds {
            return Ok(format!("`{}` has the canary", path.display()));
        }
    }
    bail!("no core file has the canary: {said}")
}

/// A command that crashes without a limit for core files.
pub(super) fn crash_unlimited() -> anyhow::Result<String> {
    crash(&Bed::make()?)
}

fn crash(bed: &Bed) -> anyhow::Result<String> {
    let programs = bed.programs();
    let folder = bed.place.host.workspace("work")?;
    let script = format!("HELD={}; kill -SEGV $$", bed.place.canary);
    let command = ["/bin/bash", "-c", &script];
    let mut planned = Planned::new(&programs, &[Layer::ResourceLimits], &command);
    planned.workspace = Some(&folder);
    // The run inherits it, as a session without the layer would.
    let (soft, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, hard, hard)?;
    let said = planned.run();
    setrlimit(Resource::RLIMIT_CORE, soft, hard)?;
    said
}

/// An open file of the caller's that a command inherits besides its standard streams.
pub(crate) fn open_descriptor() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let mut file = tempfile::tempfile()?;
    file.write_all(bed.place.canary.as_bytes())?;
    file.rewind()?;
    let number = file.as_raw_fd();
    ensure!(number > 2, "it is a standard stream");
    // Unlike the caller, the command has no other way to it: the file has no name, and is root's.
    let inherits = |flags| {
        fcntl_setfd(&file, flags)?;
        Command::new("/bin/bash")
            .args(["-c", &format!("cat <&{number}")])
            .uid(UID)
            .gid(UID)
            .stdin(Stdio::null())
            .output()
            .context("bash")
    };
    let closed = inherits(FdFlags::CLOEXEC)?;
    ensure!(bed.saw(&words(&closed)).is_err(), "it needs no descriptor");
    let output = inherits(FdFlags::empty())?;
    bed.saw(&words(&output))?;
    Ok(format!("the canary was read through descriptor {number}"))
}

/// A socket as a standard stream: a way to whoever has the other end.
pub(crate) fn socket_stream() -> anyhow::Result<String> {
    let nonce = scene::nonce()?;
    let (ours, theirs) = UnixStream::pair()?;
    let witness = Witness::new(&nonce, move || Ok(ours));
    let output = Command::new("/bin/bash")
        .args(["-c", &format!("echo {nonce} >&0")])
        .uid(UID)
        .gid(UID)
        .stdin(OwnedFd::from(theirs))
        .output()?;
    witness.saw(&words(&output))
}

/// A socket at `path` under a plan: no hook of the cgroup's stands before it.
pub(super) fn socket_without_hooks(
    shown: Option<&str>,
    own: impl FnOnce(&Place, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let nonce = scene::nonce()?;
    let (path, folder, shows) = match shown {
        Some(name) => {
            let at = bed.place.shown();
            (at.join(name), None, vec![at])
        }
        None => {
            let folder = bed.place.host.workspace("work")?;
            (folder.join("app.sock"), Some(folder), Vec::new())
        }
    };
    let listener = listen(&path)?;
    own(&bed.place, &path)?;
    let witness = Witness::new(&nonce, move || Ok(listener.accept()?.0));
    let to = Address::Path(path);
    let said = speak(&bed, &[], to, &nonce, folder.as_deref(), &shows)?;
    witness.saw(&said)
}

/// The probe speaks to `address` under a plan: no hook of the cgroup's stands before it.
fn speak(
    bed: &Bed,
    without: &[Layer],
    address: Address,
    nonce: &str,
    workspace: Option<&Path>,
    shown: &[PathBuf],
) -> anyhow::Result<String> {
    let programs = bed.programs();
    let probe = programs.join("custody-probe").display().to_string();
    let input = order(address, nonce)?;
    let command = [probe.as_str()];
    let mut planned = Planned::new(&programs, without, &command);
    planned.input = &input;
    planned.workspace = workspace;
    planned.shown = shown;
    planned.run()
}

/// What the probe reads: to say `nonce` at `address`.
pub(super) fn order(address: Address, nonce: &str) -> anyhow::Result<Vec<u8>> {
    let attack = Attack::Local {
        to: address,
        how: How::Stream,
        effect: Effect {
            token: None,
            nonce: nonce.into(),
        },
    };
    Ok(serde_json::to_vec(&attack)?)
}

/// A FIFO in the workspace, under `dev`.
pub(crate) fn workspace_fifo() -> anyhow::Result<String> {
    let nonce = scene::nonce()?;
    in_dev(&format!("echo {nonce} > fifo"), |folder, _| {
        let fifo = folder.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
        // Both ways, so that neither waits for the other (fifo(7)).
        let end = fs::File::options().read(true).write(true).open(&fifo)?;
        Ok(Some(Witness::new(&nonce, move || Ok(end))))
    })
}

/// A credential in the workspace, under `dev`.
pub(crate) fn workspace_credential() -> anyhow::Result<String> {
    in_dev("cat .netrc", |folder, canary| {
        fs::write(
            folder.join(".netrc"),
            format!("machine a password {canary}\n"),
        )?;
        Ok(None)
    })
}

/// A script in a workspace of a session of `dev`: what it reached is seen by the witness, or the canary.
fn in_dev(
    script: &str,
    fill: impl FnOnce(&Path, &str) -> anyhow::Result<Option<Witness>>,
) -> anyhow::Result<String> {
    let place = Place::set()?;
    let folder = place.host.workspace("work")?;
    let witness = fill(&folder, &place.canary)?;
    for entry in fs::read_dir(&folder)? {
        chown(
            entry?.path(),
            Some(place.host.operator()),
            Some(place.host.operator()),
        )?;
    }
    let mut run = place.run(PLAIN, Profile::Dev);
    run.arg("--workdir").arg(&folder);
    let said = words(&place.shell(&mut run, script)?);
    match witness {
        Some(witness) => witness.saw(&said),
        None => {
            ensure!(
                said.contains(&place.canary),
                "the canary was not read: {said}"
            );
            Ok("a session of `dev` read the canary".into())
        }
    }
}

/// A credential in the environment, under `dev`.
pub(crate) fn environment() -> anyhow::Result<String> {
    let place = Place::set()?;
    let mut run = place.run(PLAIN, Profile::Dev);
    run.arg("--env")
        .arg(format!("SERVICE_API_KEY={}", place.canary));
    let said = words(&place.shell(&mut run, "echo $SERVICE_API_KEY")?);
    ensure!(said.contains(&place.canary), "{said}");
    Ok("a session of `dev` read the canary".into())
}

/// What others may read of a state that lies in the workspace.
pub(crate) fn state_in_workspace() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let programs = bed.programs();
    let folder = bed.place.host.workspace("work")?;
    fs::create_dir(folder.join("state"))?;
    fs::write(folder.join("state/decisions"), &bed.place.canary)?;
    let command = ["/bin/cat", "state/decisions"];
    let mut planned = Planned::new(&programs, &[], &command);
    planned.workspace = Some(&folder);
    bed.saw(&planned.run()?)
}

/// A folder in the bpffs that the hooks are pinned in.
pub(crate) fn bpffs() -> anyhow::Result<String> {
    let place = Place::set()?;
    makes_folder(&place, Path::new("/sys/fs/bpf"))
}

/// A cgroup beside the agents' own.
pub(crate) fn cgroupfs() -> anyhow::Result<String> {
    let place = Place::set()?;
    makes_folder(&place, place.host.cgroup())
}

/// An agent that sees the kernel's file system as root makes a folder in it.
fn makes_folder(place: &Place, at: &Path) -> anyhow::Result<String> {
    let programs = place.host.programs();
    let made = at.join(format!("refused-{}", scene::nonce()?));
    let script = format!("mkdir {}", made.display());
    let command = ["/bin/bash", "-c", &script];
    let without = with(&[Layer::Capabilities, Layer::Seccomp, Layer::Uid]);
    let said = Planned::new(&programs, &without, &command).run()?;
    fs::remove_dir(&made).with_context(|| format!("nothing was made: {said}"))?;
    Ok(format!("the agent made a folder in `{}`", at.display()))
}

/// A process that holds a canary in its environment.
struct Holder(Child);

impl Holder {
    fn start(uid: u32, canary: &str) -> anyhow::Result<Self> {
        let child = Command::new("/bin/sleep")
            .arg("60")
            .env("HELD", canary)
            .uid(uid)
            .gid(uid)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Who listens outside, and writes down what came.
pub(super) struct Witness {
    nonce: String,
    heard: mpsc::Receiver<bool>,
}

impl Witness {
    pub(super) fn new<S: std::io::Read>(
        nonce: &str,
        open: impl FnOnce() -> std::io::Result<S> + Send + 'static,
    ) -> Self {
        let (tell, heard) = mpsc::channel();
        let wanted = nonce.to_owned();
        let _detached = thread::spawn(move || {
            let came = open().is_ok_and(|mut stream| {
                let mut bytes = Vec::new();
                let mut chunk = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut chunk) {
                    bytes.extend_from_slice(chunk.get(..read).unwrap_or_default());
                    if String::from_utf8_lossy(&bytes).contains(&wanted) {
                        return true;
                    }
                }
                false
            });
            // Nobody may be waiting any more.
            let _unheard = tell.send(came);
        });
        Self {
            nonce: nonce.into(),
            heard,
        }
    }

    pub(super) fn saw(&self, said: &str) -> anyhow::Result<String> {
        self.saw_within(PATIENCE, said)
    }

    /// The same of something that is over: it came already, or not at all.
    pub(super) fn saw_within(&self, time: Duration, said: &str) -> anyhow::Result<String> {
        match self.heard.recv_timeout(time) {
            Ok(true) => Ok(format!("the witness outside heard {}", self.nonce)),
            Ok(false) | Err(_) => bail!("the witness heard nothing: {said}"),
        }
    }
}

/// Whether `wanted` stands in memory of `pid` that it may write.
pub(super) fn is_in_memory(pid: Pid, wanted: &[u8]) -> anyhow::Result<bool> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut memory = fs::File::open(format!("/proc/{pid}/mem"))?;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((from, to)) = range.split_once('-') else {
            continue;
        };
        if !rights.starts_with("rw") {
            continue;
        }
        let (from, to) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        let mut bytes = Vec::new();
        memory.seek(std::io::SeekFrom::Start(from))?;
        // What cannot be read is no memory (a guard page, a device).
        drop(
            (&memory)
                .take(to.saturating_sub(from))
                .read_to_end(&mut bytes),
        );
        if bytes.windows(wanted.len()).any(|window| window == wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

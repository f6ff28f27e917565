//! The permitted configurations, and what is reached in them: by a witness outside the session, or by a
//! canary that its command had no other way to.

use std::{
    fs,
    io::{Read as _, Seek as _, Write as _},
    net::TcpListener,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{PermissionsExt as _, chown},
            net::{SocketAddr, UnixListener, UnixStream},
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use custody_wire::{layer::Layer, profile::Profile, refused::Refused};
use nix::{
    sys::{
        ptrace,
        resource::{Resource, getrlimit, setrlimit},
        wait::waitpid,
    },
    unistd::Pid,
};

use super::{
    place::{PLAIN, Place, Setting, listen},
    plan::{Planned, UID},
    provoked::socket_name,
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

/// A file that everyone may read, by an agent that sees the host's files.
pub(crate) fn open_file() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let file = bed.file(0, 0o644)?;
    bed.reads(&with(&[]), UID, &format!("cat {file}"))
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

/// The same with nothing around it: whoever has the uid of a process that is dumpable.
pub(crate) fn environment_of_a_dumpable() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let holder = Holder::start(UID, &bed.place.canary)?;
    let output = Command::new("/bin/cat")
        .arg(format!("/proc/{}/environ", holder.0.id()))
        .uid(UID)
        .gid(UID)
        .output()?;
    bed.saw(&words(&output))
}

/// The memory of a process, by who traces it.
pub(crate) fn memory_by_tracer() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let holder = Holder::start(UID, &bed.place.canary)?;
    let pid = Pid::from_raw(i32::try_from(holder.0.id())?);
    ptrace::attach(pid).context("PTRACE_ATTACH")?;
    waitpid(pid, None)?;
    let found = is_in_memory(pid, bed.place.canary.as_bytes());
    ptrace::detach(pid, None)?;
    ensure!(found?, "the canary is not in its memory");
    Ok("the tracer read the canary in its memory".into())
}

/// What passes through custodyd, by who traces it, while a session of `dev` starts.
pub(crate) fn custodyd_by_tracer() -> anyhow::Result<String> {
    let place = Place::set()?;
    let canary = format!("canary-{}", scene::random()?);
    let folder = place.host.workspace(&canary)?;
    let pid = Pid::from_raw(place.host.pid("custodyd")?);
    ptrace::seize(pid, ptrace::Options::empty()).context("PTRACE_SEIZE")?;
    let mut run = place.run(PLAIN, Profile::Dev);
    run.arg("--workdir").arg(&folder);
    let mut child = run
        .args(["--", "/bin/sleep", "60"])
        .stderr(Stdio::piped())
        .spawn()?;
    let started = place.host.wait("the session runs", || {
        place.host.log().contains("session runs")
    });
    ptrace::interrupt(pid)?;
    waitpid(pid, None)?;
    let found = is_in_memory(pid, canary.as_bytes());
    ptrace::detach(pid, None)?;
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

/// A signal to a process outside with the agent's uid.
pub(crate) fn signal() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let programs = bed.programs();
    let mut holder = Holder::start(UID, "nothing")?;
    let script = format!("kill -TERM {}", holder.0.id());
    let command = ["/bin/bash", "-c", &script];
    let without = [Layer::Landlock, Layer::PidNamespace];
    let said = Planned::new(&programs, &without, &command).run()?;
    for _ in 0..200 {
        if let Some(status) = holder.0.try_wait()? {
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

/// A program of the host that the kernel runs as root when a command crashes.
pub(crate) fn core_pipe() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let marker = bed.place.host.folder().join("marker");
    let script = bed.place.host.folder().join("handler");
    fs::write(
        &script,
        format!("#!/bin/sh\nid -u > {}\n", marker.display()),
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let setting = Setting::change(
        "/proc/sys/kernel/core_pattern",
        &format!("|{}", script.display()),
    )?;
    let said = crash(&bed)?;
    let ran = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        fs::read_to_string(&marker)
            .ok()
            .filter(|text| !text.is_empty())
    });
    drop(setting);
    let uid = ran.with_context(|| format!("the kernel ran nothing: {said}"))?;
    Ok(format!(
        "the kernel ran the host's program as uid {}",
        uid.trim()
    ))
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

/// An open file of the caller's.
pub(crate) fn open_descriptor() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let mut file = tempfile::tempfile()?;
    file.write_all(bed.place.canary.as_bytes())?;
    file.rewind()?;
    let output = Command::new("/bin/cat")
        .uid(UID)
        .gid(UID)
        .stdin(OwnedFd::from(file))
        .output()?;
    bed.saw(&words(&output))
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

/// A socket of the host's that a policy shows.
pub(crate) fn shown_socket(which: Refused) -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let nonce = scene::nonce()?;
    let shown = [bed.place.shown()];
    let path = bed.place.shown().join(socket_name(which));
    let listener = listen(&path)?;
    let witness = Witness::new(&nonce, move || Ok(listener.accept()?.0));
    let said = speak(&bed, &[], Address::Path(path), &nonce, None, &shown)?;
    witness.saw(&said)
}

/// A socket that lies in the workspace.
pub(crate) fn workspace_socket() -> anyhow::Result<String> {
    let bed = Bed::make()?;
    let nonce = scene::nonce()?;
    let folder = bed.place.host.workspace("work")?;
    let path = folder.join("app.sock");
    let listener = listen(&path)?;
    chown(
        &path,
        Some(bed.place.host.operator()),
        Some(bed.place.host.operator()),
    )?;
    let witness = Witness::new(&nonce, move || Ok(listener.accept()?.0));
    let said = speak(&bed, &[], Address::Path(path), &nonce, Some(&folder), &[])?;
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
    let attack = Attack::Local {
        to: address,
        how: How::Stream,
        effect: Effect {
            token: None,
            nonce: nonce.into(),
        },
    };
    let input = serde_json::to_vec(&attack)?;
    let command = [probe.as_str()];
    let mut planned = Planned::new(&programs, without, &command);
    planned.input = &input;
    planned.workspace = workspace;
    planned.shown = shown;
    planned.run()
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
struct Witness {
    nonce: String,
    heard: mpsc::Receiver<bool>,
}

impl Witness {
    fn new<S: std::io::Read>(
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

    fn saw(&self, said: &str) -> anyhow::Result<String> {
        match self.heard.recv_timeout(PATIENCE) {
            Ok(true) => Ok(format!("the witness outside heard {}", self.nonce)),
            Ok(false) | Err(_) => bail!("the witness heard nothing: {said}"),
        }
    }
}

/// Whether `wanted` stands in memory of `pid` that it may write.
fn is_in_memory(pid: Pid, wanted: &[u8]) -> anyhow::Result<bool> {
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

//! The arms that need no service: the probe with every layer removed.

use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::{fs::PermissionsExt as _, net::UnixStream, process::CommandExt as _},
    },
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    net::{AddressFamily, SocketFlags, SocketType},
    process::PidfdFlags,
};

use super::{
    judge::Seen,
    scene::{SHARED_UID, Scene},
};
use crate::{
    attempts::{Carries, Owner, Proof},
    probe::{Attack, Report},
    witness::record::Seen as Recorded,
};

/// How long one arm may take: a probe that is stopped in it is killed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The variable that a caller carries a canary in.
pub const CARRIED: &str = "SERVICE_API_KEY";

/// What a caller carries into an arm, held open until the arm is over.
#[derive(Debug)]
pub struct Carried {
    /// A canary for the environment.
    pub environment: Option<String>,
    fd: Option<OwnedFd>,
    /// The other side of a terminal: without it there is none.
    master: Option<OwnedFd>,
}

impl Carried {
    /// Nothing.
    pub const fn nothing() -> Self {
        Self {
            environment: None,
            fd: None,
            master: None,
        }
    }

    /// Makes it.
    ///
    /// # Errors
    /// When the descriptor cannot be made.
    pub fn make(carries: Carries, scene: &Scene) -> anyhow::Result<Self> {
        let mut carried = Self::nothing();
        match carries {
            Carries::Nothing => {}
            Carries::Environment => carried.environment = Some(scene.carried().into()),
            Carries::File => {
                let file = memfd_create(c"carried", MFdFlags::MFD_CLOEXEC)?;
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                fs::write(path, scene.carried())?;
                carried.fd = Some(inherited(&file)?);
            }
            Carries::Folder => {
                let folder = fs::File::open(scene.carried_folder()?)?;
                carried.fd = Some(inherited(&folder)?);
            }
            Carries::Pidfd => {
                let pid = rustix::process::Pid::from_raw(scene.outsider());
                let pid = pid.context("the stand-in's pid")?;
                let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
                carried.fd = Some(inherited(&pidfd)?);
            }
            Carries::Console => carried.fd = Some(inherited(console()?)?),
            Carries::Ring => carried.fd = Some(inherited(crate::standin::ring::make()?)?),
            Carries::Terminal => {
                let pty = custody_sys::pty::open(Path::new("/dev/pts"))?;
                carried.fd = Some(inherited(&pty.slave)?);
                carried.master = Some(pty.master);
            }
            Carries::Tcp => carried.fd = Some(inherited(ip_socket(SocketType::STREAM)?)?),
            Carries::Udp => carried.fd = Some(inherited(ip_socket(SocketType::DGRAM)?)?),
            Carries::Connection => {
                let stream = UnixStream::connect(&scene.deputy_path)?;
                carried.fd = Some(inherited(&stream)?);
            }
        }
        Ok(carried)
    }

    /// The descriptor, if there is one. It stays open across execve(2).
    pub const fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// Puts it into `command`'s environment.
    pub fn into_environment(&self, command: &mut Command) {
        if let Some(canary) = &self.environment {
            command.env(CARRIED, canary);
        }
    }
}

/// A virtual console that nobody sees (console(4)).
///
/// # Errors
/// When there is none.
pub(crate) fn console() -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{Mode, open};
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    open("/dev/tty63", flags, Mode::empty())
}

fn ip_socket(kind: SocketType) -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
}

/// A copy that stays open across execve(2), above the numbers that programs place things at.
fn inherited(fd: impl AsFd) -> anyhow::Result<OwnedFd> {
    const ABOVE: i32 = 50;
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, ABOVE)?;
    fcntl(&copy, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(copy)
}

/// Runs the probe with every layer removed: the uid of who owns the target, the host's namespaces, the
/// caller's environment and descriptors.
///
/// # Errors
/// When the probe cannot be started or the witness's record not be read.
pub fn reach(
    scene: &Scene,
    (owner, stderr): (Owner, Stderr),
    attack: &Attack,
    nonce: &str,
    carried: &Carried,
) -> anyhow::Result<Seen> {
    let mut command = Command::new(scene.program("custody-probe"));
    let uid = match owner {
        Owner::Operator => scene.operator(),
        Owner::Root => 0,
        Owner::Standin => SHARED_UID,
    };
    command.uid(uid).gid(uid).current_dir("/");
    carried.into_environment(&mut command);
    run(scene, (command, stderr), attack, nonce)
}

/// Gives `attack` to `command` and sees what comes of it.
///
/// # Errors
/// When the command cannot be started or the witness's record not be read.
pub fn run(
    scene: &Scene,
    (mut command, stderr): (Command, Stderr),
    attack: &Attack,
    nonce: &str,
) -> anyhow::Result<Seen> {
    let mut written = None;
    let terminal = match stderr {
        Stderr::File => {
            let file = OperatorsFile::begin()?;
            command.stderr(file.opened.try_clone()?);
            written = Some(file);
            None
        }
        Stderr::Pipe => {
            command.stderr(Stdio::piped());
            None
        }
        Stderr::Terminal => {
            let pty = custody_sys::pty::open(Path::new("/dev/pts")).context("a pty")?;
            command.stderr(pty.slave);
            Some(pty.master)
        }
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the arm")?;
    // Its copy of the terminal's slave: with the child's own gone, the master comes to its end.
    drop(command);
    let shown = terminal.map(|master| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // The end of a pty is an error (EIO, pty(7)); what came before it is there.
            drop(fs::File::from(master).read_to_end(&mut bytes));
            bytes
        })
    });
    if let Some(mut stdin) = child.stdin.take() {
        // A child that is gone already reads nothing: its output says why.
        drop(stdin.write_all(&serde_json::to_vec(attack)?));
    }
    let watched = i32::try_from(child.id()).unwrap_or(0);
    let end = Instant::now() + PATIENCE;
    let output = thread::scope(|scope| {
        let waiting = scope.spawn(move || child.wait_with_output());
        while !waiting.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        if !waiting.is_finished() {
            let pid = nix::unistd::Pid::from_raw(watched);
            let killed = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            // It may have ended by itself in this moment.
            debug_assert!(matches!(killed, Ok(()) | Err(nix::errno::Errno::ESRCH)));
        }
        waiting.join()
    })
    .map_err(|_panic| anyhow::anyhow!("the arm's reader panicked"))??;
    let stderr = match (shown, written) {
        (None, None) => output.stderr,
        (None, Some(file)) => file.end()?,
        (Some(reader), _) => reader
            .join()
            .map_err(|_panic| anyhow::anyhow!("the terminal's reader panicked"))?,
    };
    see(scene, &output.stdout, &stderr, nonce)
}

/// What an operator writes to his own file before an arm, and after it.
pub const OPERATORS_LINES: [&str; 2] =
    ["the operator's first line\n", "the operator's last line\n"];

/// What stands there besides where the arm left the open file in another mode.
pub const OTHER_MODE: &str = "the open file has another mode";

/// A file that a shell has open, and its command inherits: both have one offset and one mode
/// (open(2)).
struct OperatorsFile {
    opened: fs::File,
    mode: OFlags,
}

impl OperatorsFile {
    fn begin() -> anyhow::Result<Self> {
        let mut opened = tempfile::tempfile()?;
        // Whoever the arm runs as may open it anew.
        opened.set_permissions(fs::Permissions::from_mode(0o666))?;
        opened.write_all(OPERATORS_LINES[0].as_bytes())?;
        let mode = fcntl_getfl(&opened)?;
        Ok(Self { opened, mode })
    }

    /// What stands in it at the end.
    fn end(mut self) -> anyhow::Result<Vec<u8>> {
        let mode = fcntl_getfl(&self.opened)?;
        fcntl_setfl(&self.opened, self.mode)?;
        self.opened.write_all(OPERATORS_LINES[1].as_bytes())?;
        let mut bytes = Vec::new();
        self.opened.seek(SeekFrom::Start(0))?;
        self.opened.read_to_end(&mut bytes)?;
        if mode != self.mode {
            bytes.extend_from_slice(OTHER_MODE.as_bytes());
        }
        Ok(bytes)
    }
}

/// What an arm's standard error is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stderr {
    /// A file of the operator's, as by `2> file` of a shell that goes on to use it.
    File,
    /// A pipe.
    Pipe,
    /// A terminal: a pty whose other end the suite reads.
    Terminal,
}

impl Stderr {
    /// What `proof` needs.
    pub const fn of(proof: Proof) -> Self {
        match proof {
            Proof::Effect
            | Proof::Heard(_)
            | Proof::Outside(_)
            | Proof::Protected(_)
            | Proof::Step(_) => Self::Pipe,
            Proof::Shown(_) => Self::Terminal,
            Proof::Written(_) => Self::File,
        }
    }
}

/// How long an effect may be on its way to the witness when nothing refused it: one processor, as an
/// emulated machine has, may not come to run the witness for seconds. It is waited for only as long
/// as somebody has something to do ([`AT_REST`]).
const ON_ITS_WAY: Duration = Duration::from_secs(10);

/// So many looks in a row that find witness and stand-ins asleep, and nothing is on its way: what was
/// handed to one of them made it run at once (`try_to_wake_up`, kernel/sched/core.c).
const AT_REST: u32 = 10;

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `done`, no longer than something may be on its way. Each look comes after one at
/// witness and stand-ins: what they did between the two is seen.
///
/// # Errors
/// When a look fails.
pub fn come_to_rest(
    scene: &Scene,
    mut done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let until = Instant::now() + ON_ITS_WAY;
    let mut at_rest = 0;
    loop {
        at_rest = if scene.is_at_rest() { at_rest + 1 } else { 0 };
        if done()? || at_rest >= AT_REST || Instant::now() >= until {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// What the witness has recorded under `nonce` by now.
///
/// # Errors
/// When its record cannot be read.
pub fn witnessed(scene: &Scene, nonce: &str) -> anyhow::Result<Option<String>> {
    let effects = scene.effects(nonce).context("the witness's record")?;
    Ok(effects.first().map(Recorded::in_words))
}

/// What the witness and the bytes say by now. What comes later is taken up when the row is over, and
/// once more at the end of the run.
///
/// # Errors
/// When the witness's record cannot be read.
pub fn see(scene: &Scene, stdout: &[u8], stderr: &[u8], nonce: &str) -> anyhow::Result<Seen> {
    let report = serde_json::from_slice::<Report>(stdout).ok();
    let canary = scene
        .canary_in(stdout)
        .or_else(|| scene.canary_in(stderr))
        .map(|whose| format!("{whose} was read"));
    let reached = match witnessed(scene, nonce)? {
        Some(proof) => Some(proof),
        None => canary,
    };
    let noise = String::from_utf8_lossy(if stderr.is_empty() { stdout } else { stderr });
    Ok(Seen {
        nonce: nonce.into(),
        protected: reached.is_some(),
        by_own_proof: false,
        reached,
        report,
        noise: noise.chars().take(600).collect(),
    })
}

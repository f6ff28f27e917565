//! custodyd → custody-launch: one plan. Back: what each layer says of itself.
//!
//! The channel is descriptor [`CHANNEL_FD`]. custodyd sends the [`Plan`] with its descriptors in
//! the order of [`Plan::fds`]; custody-launch builds, drops and seals, sends [`Report`] (with its
//! own descriptors in the order of [`Report::fds`]), waits for [`Go`] and executes.
//!
//! Before a session's plan there may be one [`Ready`]: custody-launch does what every session needs
//! and then waits for the plan. It was told of no session, and serves one.
//!
//! A session goes on with custody-init, which keeps the channel (close-on-exec) and sends one
//! [`Outcome`] when the command ended or could not be executed; then it exits, and with pid 1 the
//! whole pid namespace. A service has no channel after [`Go`]: the parent has its pidfd.
//!
//! | after [`Go`] | what comes | exit status of pid 1 |
//! |---|---|---|
//! | command ended | [`Outcome::Exited`] | its code |
//! | command was killed | [`Outcome::Killed`] | 128 + signal |
//! | command not executed | [`Outcome::NotExecuted`] | 127 for ENOENT, else 126 |
//! | custody-init not executed | [`Report::Failed`] | 125 |
//! | session killed from outside | end of the channel | signal |

use std::path::PathBuf;

use gate::id::SessionId;
use serde::{Deserialize, Serialize};

use crate::{Message, layer, layer::Layer, profile::Profile};

/// The descriptor of the channel in custody-launch.
pub const CHANNEL_FD: i32 = 3;

/// The most environment and argument bytes in the command memfd: ARG_MAX with the default stack
/// of 8 MiB is 2 MiB (execve(2)).
pub const COMMAND_CAP: usize = 2 << 20;

/// To a launcher that is started before there is a plan: what every session needs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ready {
    /// [`Session::programs`] of the plan that is to come.
    pub programs: PathBuf,
}

impl Message for Ready {
    const CAP: usize = 8 << 10;
    const KIND: u8 = 5;
}

/// What custody-launch is to build.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// A session of an agent, or a service of ours.
    pub kind: Kind,
    /// The uid, its own.
    pub uid: u32,
    /// The gid, its own.
    pub gid: u32,
    /// Layers to leave out. Empty in every plan that custodyd makes: only the bypass suite, which
    /// is root already, hands over another.
    pub without: Vec<Layer>,
    /// What the descriptors beside the plan are.
    pub fds: Vec<Role>,
}

/// A session of an agent, or a service of ours.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Kind {
    /// Confined in full: mounts, namespaces, Landlock, seccomp; ends in custody-init as pid 1.
    Session(Session),
    /// One of our programs under its own uid.
    Service(Service),
}

/// A confined session.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// Folders of the host to show read-only at the same place, besides the system's own.
    pub read_only: Vec<PathBuf>,
    /// Where the workspace is, outside and inside; its folder is [`Role::Workspace`].
    pub workspace: Option<Workspace>,
    /// The folder with custody-init and custody-bridge, shown read-only at [`PROGRAMS`].
    pub programs: PathBuf,
    /// A private pty, or pipes.
    pub tty: Option<WindowSize>,
    /// The listener's path inside.
    pub listener: PathBuf,
    /// The profile: `dev` lets a process trace another of the same session.
    pub profile: Profile,
    /// What it may use at most.
    pub limits: Limits,
}

/// Where custody-init and custody-bridge are inside a session.
pub const PROGRAMS: &str = "/run/custody/bin";

/// The path of the session's listener.
pub const LISTENER: &str = "/run/custody/session.sock";

/// The workspace of a session, written in place (`direct`, a named weakness).
///
/// Refused: a path through a symlink, one that is not where the descriptor leads, one with nested
/// mounts, and one that is, lies below or holds a place of the session's own: `/tmp` most of all,
/// for every unix socket below `/tmp/` may be connected to. The last element of [`Report::Sealed`]
/// says what was made in the folder.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Workspace {
    /// The absolute path, the same outside and inside.
    pub path: PathBuf,
    /// The uid that owns the folder outside; never 0.
    pub owner_uid: u32,
    /// The gid that owns the folder outside.
    pub owner_gid: u32,
}

/// Rows and columns of a terminal (ioctl_tty(2)).
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct WindowSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// Limits of a session that the launcher sets: getrlimit(2), and sizes of tmpfs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Limits {
    /// The most bytes that its tmpfs hold, together.
    pub memory: u64,
    /// RLIMIT_NPROC.
    pub processes: u64,
    /// RLIMIT_NOFILE.
    pub open_files: u64,
}

/// One of our programs under its own uid.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Service {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, without the program's name. Never a secret.
    pub arguments: Vec<String>,
    /// Files and folders it may read.
    pub read: Vec<PathBuf>,
    /// Folders it may write (its own state).
    pub write: Vec<PathBuf>,
    /// Files and folders whose programs it may run besides, confined as it is.
    pub execute: Vec<PathBuf>,
    /// Whether it may make IP sockets; custodyd's hooks say to where.
    pub network: Network,
}

/// Whether a service sees a network at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Network {
    /// The host's, held by the hooks of its cgroup.
    Host,
    /// An empty network namespace, and no socket but AF_UNIX.
    None,
}

/// What a descriptor beside the plan or the report is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Role {
    /// The command: a sealed memfd of NUL-ended strings: the count of arguments in decimal, the
    /// arguments, then `NAME=VALUE` for each environment variable.
    Command,
    /// A descriptor that a service gets under this number, 3 and up, in the order of the plan. A
    /// session gets it, under any number from 4 up, only where the plan leaves out [`Layer::Fds`].
    Inherit,
    /// The session's listener (report).
    Listener,
    /// The master side of the session's pty (report).
    Master,
    /// Standard error: our end of a pipe (report), or the session's (plan).
    Stderr,
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// The workspace folder, `O_PATH | O_DIRECTORY`.
    Workspace,
}

impl Message for Plan {
    const CAP: usize = 64 << 10;
    const KIND: u8 = 1;
}

/// What custody-launch did, before it executes anything.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Report {
    /// It stopped: the step and errno. Nothing was executed.
    Failed {
        /// The layer that could not be had; none for a failure outside the layers.
        layer: Option<Layer>,
        /// The step, in the kernel's words: a system call or a file.
        step: String,
        /// errno(3), 0 where there is none.
        errno: i32,
    },
    /// Everything is in place; it waits for [`Go`].
    Sealed {
        /// One for each layer.
        layers: Vec<layer::Report>,
        /// What the descriptors beside the report are.
        fds: Vec<Role>,
        /// What had to be made in the workspace, relative to it, to be mounted over: a name that
        /// is not there cannot be held. `.git/hooks`, an empty folder, and `.git/commondir`, a file
        /// that says `.` and so changes nothing. To be removed when no session has the folder any
        /// more, if they are as they were made: rmdir(2); unlink(2) if the file still says `.`.
        placeholders: Vec<PathBuf>,
    },
}

impl Message for Report {
    const CAP: usize = 64 << 10;
    const KIND: u8 = 2;
}

/// custodyd's word that the layers suffice.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Go;

impl Message for Go {
    const CAP: usize = 16;
    const KIND: u8 = 3;
}

/// How the command ended, from custody-init.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Outcome {
    /// It ended by itself.
    Exited {
        /// Its exit status, 0 to 255.
        code: i32,
    },
    /// A signal ended it.
    Killed {
        /// Which, signal(7).
        signal: i32,
    },
    /// It was not executed: not found, no permission, no executable format.
    NotExecuted {
        /// errno(3) of execve(2).
        errno: i32,
    },
}

impl Message for Outcome {
    const CAP: usize = 32;
    const KIND: u8 = 4;
}

//! custodyd and each of control, gate and vault: orders one way, notices the other.
//!
//! Each border is one `SOCK_SEQPACKET` pair made by custodyd before the program started, so the
//! descriptor itself says who speaks. Orders are small and bounded; custodyd never parses what an
//! agent, an operator or a server wrote.

use std::net::SocketAddr;

use gate::{
    chain::keys::Certificate,
    digest::Digest,
    id::{CredentialLabel, PolicyName, SessionId, ToolName},
};
use serde::{Deserialize, Serialize};

use crate::{
    Message,
    launch::WindowSize,
    layer::{self, Layer},
    profile::Profile,
    revoke::Revoked,
};

/// The descriptor of this channel in control, gate and vault.
pub const CHANNEL_FD: i32 = 3;

/// The most sessions that one [`ControlNotice::Counted`] speaks of: each takes 37 bytes at most.
pub const COUNTED_MAX: usize = 800;

/// What stands for the session of a worker that is no session's: control draws no such number.
pub const NO_SESSION: SessionId = SessionId(0);

/// The most addresses that one worker's egress holds: what a name usually has, twice.
pub const EGRESS_MAX: usize = 16;

/// The most bytes that custodyd says of a refused configuration; a path in them may be long.
pub const CONFIGURATION_WORDS_MAX: usize = 8 << 10;

/// control → custodyd.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum ControlOrder {
    /// It can serve operators, and waits for [`ControlNotice::Serve`]. The first message, said once.
    Ready,
    /// Take something back, for good. Answered by [`ControlNotice::Heeded`].
    Revoke {
        /// Numbered by control.
        number: u64,
        /// What.
        what: Revoked,
    },
    /// Send a signal to the session's command (through custody-init).
    Signal {
        /// Which.
        session: SessionId,
        /// signal(7); custodyd refuses those that the CLI does not forward.
        signal: i32,
    },
    /// Start a session. Beside it: the operator's connection as control accepted it, the command
    /// memfd, then the workspace folder if `workspace`.
    Start(Start),
    /// End a session: every process of it is killed.
    Stop {
        /// Which.
        session: SessionId,
    },
    /// A tool that was locked goes on. Answered by [`ControlNotice::Heeded`].
    Unlock {
        /// Numbered by control.
        number: u64,
        /// Which tool, of every policy that has it.
        tool: ToolName,
    },
}

/// The order to start a session.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Start {
    /// Drawn by control; custodyd refuses one that lives.
    pub session: SessionId,
    /// The policy; gate and vault have loaded the same bytes.
    pub policy: PolicyName,
    /// Who asked. custodyd reads it from the connection itself (SO_PEERCRED) and refuses an order
    /// that says another.
    pub caller_uid: u32,
    /// The session that it is delegated from, which must run: it ends with it, and what takes the one
    /// back takes back the other.
    pub from: Option<SessionId>,
    /// The workspace's absolute path, resolved by control from the descriptor; at most 4,096
    /// bytes (PATH_MAX). The descriptor counts, the path is where it is shown.
    pub workspace: Option<String>,
    /// A stricter profile than the policy's; custodyd refuses a weaker one.
    pub profile: Option<Profile>,
    /// A private pty of this size, or pipes.
    pub tty: Option<WindowSize>,
}

impl Message for ControlOrder {
    const CAP: usize = 8 << 10;
    const KIND: u8 = 10;
}

/// custodyd → control.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum ControlNotice {
    /// What the hooks did for sessions up to now, of those for whom it changed: at most
    /// [`COUNTED_MAX`].
    Counted(Vec<(SessionId, Counts)>),
    /// The session's command ended, and everything of the session is gone.
    Ended {
        /// Which.
        session: SessionId,
        /// How.
        end: End,
    },
    /// What came of an order that is answered.
    Heeded {
        /// Its number.
        number: u64,
        /// Done, or why not.
        outcome: Result<(), String>,
    },
    /// The reviewers' page was started. Beside it: the channel to it, a stream of
    /// [`Request`](crate::operator::Request)s and answers in their order. Whoever speaks there is the page.
    Page,
    /// The session did not start; nothing of it is left.
    Refused {
        /// Which.
        session: SessionId,
        /// Why.
        refusal: StartRefusal,
    },
    /// Every service serves: operators may be answered. Said once, after [`ControlOrder::Ready`].
    Serve,
    /// The session runs. Beside it: the pty's master, or stdin, stdout and stderr.
    Started {
        /// Which.
        session: SessionId,
        /// The uid that it got.
        uid: u32,
        /// The profile that it runs under.
        profile: Profile,
        /// What each layer said.
        layers: Vec<layer::Report>,
        /// What is open that a stricter profile closes, each in a sentence.
        weaknesses: Vec<String>,
    },
}

/// How often the hooks let something of a session through and refused it, its front and workers
/// included. Let through: what the network hooks see, and passed descriptors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Counts {
    /// Let through.
    pub allowed: u64,
    /// Refused.
    pub refused: u64,
}

/// How a session ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum End {
    /// The command exited.
    Exited {
        /// Its exit status.
        code: u8,
    },
    /// The command was killed.
    Killed {
        /// By which signal.
        signal: i32,
    },
    /// The command could not be executed.
    NotExecuted {
        /// execve(2)'s errno.
        errno: i32,
    },
    /// The session was ended from outside: stopped, or a program that it rests on died.
    Stopped {
        /// Why.
        why: String,
    },
}

/// Why a session does not start.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error, Deserialize, Serialize)]
pub enum StartRefusal {
    /// The profile refuses this configuration of the host or the session (`crate::refused`).
    #[error("refused configuration {id} (profile `{profile}`): {words}")]
    Configuration {
        /// Its name.
        id: String,
        /// What was found, what to do, and the names of others that were found: at most
        /// [`CONFIGURATION_WORDS_MAX`] bytes.
        words: String,
        /// The profile's name.
        profile: String,
    },
    /// A step of the launch failed outside the layers.
    #[error("the session could not be started: {step} (errno {errno})")]
    Failed {
        /// The step.
        step: String,
        /// errno(3), 0 where there is none.
        errno: i32,
    },
    /// A layer that the profile requires does not hold in full.
    #[error("profile `{profile}` requires layer `{}`, which is not full: {detail}", layer.name())]
    Layer {
        /// Which.
        layer: Layer,
        /// The profile's name.
        profile: String,
        /// The kernel's answer.
        detail: String,
    },
    /// Every uid of the range is in use.
    #[error("every uid of the agents' range is in use; stop a session or widen `[uids.agents]`")]
    NoUid,
    /// The order itself is wrong: unknown policy, a session that lives.
    #[error("{why}")]
    Order {
        /// Why.
        why: String,
    },
    /// The workspace cannot be given to a session.
    #[error("workspace `{path}`: {why}")]
    Workspace {
        /// Its path.
        path: String,
        /// Why, and what to do.
        why: String,
    },
}

impl Message for ControlNotice {
    const CAP: usize = 32 << 10;
    const KIND: u8 = 11;
}

/// resolver → custodyd: it serves. Its only message, on [`RESOLVER_FD`].
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Serves;

/// The descriptor on which the resolver says [`Serves`]; [`CHANNEL_FD`] leads to the vault.
pub const RESOLVER_FD: i32 = 4;

impl Message for Serves {
    const CAP: usize = 16;
    const KIND: u8 = 16;
}

/// custodyd → gate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum GateNotice {
    /// The instance's word for the key that signs the decision records.
    Certified(Box<Certificate>),
    /// A front was started for this session. Beside it: the front's channel. The gate drops it
    /// unless control opened the session with the same policy.
    Front {
        /// Which.
        session: SessionId,
        /// The policy that custodyd launched it under.
        policy: PolicyName,
    },
    /// The session is over: forget it.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// Beside it: the channel to a (new) vault. Outstanding permits are void.
    Vault,
    /// Beside it: the channel to a (new) control.
    Control,
}

impl Message for GateNotice {
    const CAP: usize = 4 << 10;
    const KIND: u8 = 12;
}

/// gate → custodyd, and the same from the vault inside [`VaultOrder`]. The first, right after the
/// start, also says that the service serves.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Head {
    /// The position of the newest line that is on disk.
    pub position: u64,
    /// Its digest. custodyd notes it in the journal, so that a cut tail shows.
    pub digest: Digest,
}

impl Message for Head {
    const CAP: usize = 256;
    const KIND: u8 = 13;
}

/// custodyd → vault.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum VaultNotice {
    /// The instance's word for the key that signs the receipts.
    Certified(Box<Certificate>),
    /// Beside it: a descriptor of a credential's file, checked by custodyd to be root's alone.
    Credential {
        /// Its label.
        label: CredentialLabel,
    },
    /// The session is over: its workers are gone.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// Beside it: the channel to a (new) gate.
    Gate,
    /// A tool that an earlier run of the vault locked.
    Locked {
        /// Of which policy.
        policy: PolicyName,
        /// Which.
        tool: ToolName,
    },
    /// A session starts, under this policy: the vault holds it to that policy's floors.
    Opened {
        /// Which.
        session: SessionId,
        /// Its policy.
        policy: PolicyName,
    },
    /// Beside it: the channel to the resolver.
    Resolver,
    /// Every [`VaultNotice::Credential`] of the configuration was sent.
    Ready,
    /// Beside it: a descriptor of a reviewer's public keys, checked by custodyd to be root's to write.
    Reviewer {
        /// The file's name without `.pub`.
        name: String,
    },
    /// Every reviewer was sent: from now on these count, and no others.
    Reviewers,
    /// Beside it: a descriptor of the list of keys that count no longer, checked like a reviewer's.
    RevokedKeys,
    /// Something was taken back: its workers are killed, and it is used no more.
    Revoked(Revoked),
    /// An operator has looked: the tool goes on.
    Unlocked {
        /// Which, of every policy that has it.
        tool: ToolName,
    },
    /// The worker that an order asked for. Beside it: its channel, then its pidfd.
    Worker {
        /// The order's number.
        order: u64,
    },
    /// The worker could not be started, or ended.
    WorkerRefused {
        /// The order's number.
        order: u64,
        /// Why.
        why: String,
    },
}

impl Message for VaultNotice {
    const CAP: usize = 8 << 10;
    const KIND: u8 = 14;
}

/// vault → custodyd.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum VaultOrder {
    /// The newest line on disk.
    Head(Head),
    /// Reading an effect back did not show what its server had answered, and the tool is locked.
    /// A new run of the vault is told so.
    Locked {
        /// Of which policy.
        policy: PolicyName,
        /// Which.
        tool: ToolName,
    },
    /// Start a worker for one credential in one session.
    Start {
        /// Numbered by the vault.
        order: u64,
        /// For which session.
        session: SessionId,
        /// With which credential, by label.
        label: CredentialLabel,
        /// Where it may connect, and nowhere else: at most [`EGRESS_MAX`].
        egress: Vec<SocketAddr>,
    },
    /// Start a worker that reads back what an earlier run of the vault left open. It is no
    /// session's: the session may be over.
    Recover {
        /// Numbered by the vault.
        order: u64,
        /// Under which policy.
        policy: PolicyName,
        /// With which credential, by label.
        label: CredentialLabel,
        /// Where it may connect, and nowhere else: at most [`EGRESS_MAX`].
        egress: Vec<SocketAddr>,
    },
    /// Start the program that verifies a tool's effects, as the policy names it: a worker without a
    /// credential and without a network, answered as one.
    Verify {
        /// Numbered by the vault.
        order: u64,
        /// For which session; [`NO_SESSION`] for what an earlier run of the vault left open.
        session: SessionId,
        /// Under which policy.
        policy: PolicyName,
        /// Of which tool.
        tool: ToolName,
    },
    /// End a worker.
    Stop {
        /// The number of the order that started it.
        order: u64,
    },
}

impl Message for VaultOrder {
    const CAP: usize = 8 << 10;
    const KIND: u8 = 15;
}

//! CLI ↔ control: what operators, reviewers and host applications ask for.
//!
//! The caller is who the kernel says (SO_PEERCRED, unix(7)); no message names him.
//!
//! A request's descriptors come after its frame, beside one byte of their own ([`BESIDE`]), when control
//! has said that it takes them ([`Answer::Give`]), which it does when it knows who asks, for what, and
//! that he may. Whoever drops the last copy of a descriptor waits for what it leads to (a socket that
//! lingers, a file on FUSE), so none is taken from just anyone, and where the kernel knows
//! SO_PASSRIGHTS (6.16) none can be sent before.

use std::collections::BTreeMap;

use gate::{
    approval::{Needs, Scope},
    digest::Digest,
    id::{OwnedName, PolicyName, SessionId, TenantName, ToolName, ValueName},
    meaning::Subject,
};
use serde::{Deserialize, Serialize};

use crate::{
    Message,
    launch::WindowSize,
    layer,
    profile::Profile,
    revoke::Revoked,
    session::{Part, Signed, Told, Waits},
    supervise::{Counts, End},
};

/// Where control listens.
pub const SOCKET: &str = "/run/custody/control.sock";

/// The byte that a request's descriptors go beside, after [`Answer::Give`].
pub const BESIDE: u8 = 0;

/// CLI → control.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Approve a call that waits.
    Approve {
        /// Which.
        of: Judged,
        /// Once, or more often.
        scope: Scope,
        /// The statement that the caller signed, where the tool needs it.
        signed: Option<Signed>,
    },
    /// A page takes the token of a login link for a ticket. For custody-review alone.
    Enter {
        /// The token.
        token: Ticket,
    },
    /// Which sessions are there?
    List,
    /// A link with which the caller's browser logs in to the reviewers' page.
    Login,
    /// A reviewer asks by the page. For custody-review alone.
    Page {
        /// Who he is: what he was given when he entered.
        ticket: Ticket,
        /// What he asks.
        what: Box<OfPage>,
    },
    /// Which calls wait for a person? A page of those that the caller may see.
    Pending {
        /// Behind which call the page begins.
        after: Option<Behind>,
        /// Those too that wait no longer.
        all: bool,
    },
    /// Refuse a call that waits.
    Refuse {
        /// Which.
        of: Judged,
        /// Why; the agent is told.
        why: String,
    },
    /// Run a command confined. After [`Answer::Give`], beside [`BESIDE`]: the command memfd, then the
    /// workspace if `workspace`. For `custody doctor`'s policy nothing is asked for.
    Run(Run),
    /// Show a call that waits, or waited.
    Show {
        /// What it is called.
        pending: u64,
        /// Whose call it is, where several daemons share what they keep.
        session: Option<SessionId>,
    },
    /// Take something back, for good. Root alone; a session also whose it is.
    Revoke(Revoked),
    /// Send a signal to the session that this connection runs.
    Signal {
        /// signal(7).
        signal: i32,
    },
    /// Is the service whole?
    Status,
    /// End a session.
    Stop {
        /// Which.
        session: SessionId,
    },
    /// Say something to a session of the caller's own.
    Tell {
        /// Which.
        session: SessionId,
        /// What.
        told: Told,
    },
    /// A tool that was locked goes on. Root alone.
    Unlock {
        /// Which, of every policy that has it.
        tool: ToolName,
    },
}

/// A secret that stands for a reviewer: of a login link, or of the page that he entered with it.
#[derive(Clone, Copy, Eq, PartialEq, Deserialize, Serialize)]
pub struct Ticket(pub [u8; 32]);

/// It is a secret: not even its length is told.
impl core::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ticket")
    }
}

/// What a reviewer may ask by the page.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum OfPage {
    /// [`Request::Approve`], without a signature.
    Approve {
        /// Which.
        of: Judged,
        /// Once, or more often.
        scope: Scope,
    },
    /// The ticket is to be void.
    Leave,
    /// [`Request::Pending`].
    Pending {
        /// Behind which call the page begins.
        after: Option<Behind>,
    },
    /// [`Request::Refuse`].
    Refuse {
        /// Which.
        of: Judged,
        /// Why; the agent is told.
        why: String,
    },
    /// [`Request::Show`].
    Show {
        /// What it is called.
        pending: u64,
        /// Whose call it is.
        session: SessionId,
    },
}

/// Behind which call a page begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Behind {
    /// Since when that call waited, in milliseconds since 1970.
    pub since: u64,
    /// The session whose call it is.
    pub session: SessionId,
    /// What it is called.
    pub pending: u64,
}

/// A call that a reviewer judges, by what he was shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Judged {
    /// The session whose call it is.
    pub session: SessionId,
    /// What it is called.
    pub pending: u64,
    /// The digest of the bytes that were shown, taken by the program that showed them.
    pub digest: Digest,
}

/// Run a command confined.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Run {
    /// The policy; the configuration's only one if none is named.
    pub policy: Option<PolicyName>,
    /// A stricter profile than the policy's.
    pub profile: Option<Profile>,
    /// A session of the caller's that this one is delegated from, and what of it is given. Policy, subject,
    /// tenant and trusted values are that one's then.
    pub from: Option<Part>,
    /// Whether the workspace's descriptor comes too.
    pub workspace: bool,
    /// Trusted values; the configuration says who may set which.
    pub values: BTreeMap<ValueName, String>,
    /// Owned sets.
    pub owned: BTreeMap<OwnedName, Vec<String>>,
    /// What the task needs, if not all that the policy has: JSON, a `gate::session::Scope`.
    pub scope: Option<Vec<u8>>,
    /// The end user for whom the session works.
    pub subject: Option<Subject>,
    /// What the person asked for.
    pub task: Option<String>,
    /// In whose name it works.
    pub tenant: Option<TenantName>,
    /// A private pty of this size, or pipes.
    pub tty: Option<WindowSize>,
}

impl Message for Request {
    const CAP: usize = 1 << 20;
    const KIND: u8 = 60;
}

/// control → CLI.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Answer {
    /// Done.
    Done,
    /// The session's command ended.
    Ended {
        /// How.
        end: End,
    },
    /// The token was good, and is used up.
    Entered {
        /// What the page asks with from now on.
        ticket: Ticket,
    },
    /// The request may be: send what goes beside it.
    Give,
    /// The link. It works once, for a few minutes.
    Login {
        /// Where.
        url: String,
    },
    /// Calls that wait and that the caller may see, oldest first.
    Pending {
        /// A page of them.
        calls: Vec<PendingView>,
        /// Where the next page begins, if there is one.
        next: Option<Behind>,
    },
    /// Not done.
    Refused {
        /// Why, and what to do now.
        why: String,
    },
    /// The sessions that the caller may see.
    Sessions(Vec<SessionView>),
    /// A call that waits, or waited.
    Shown(Box<Shown>),
    /// The session runs. Beside it: the pty's master, or stdin, stdout and stderr.
    Started {
        /// Which.
        session: SessionId,
        /// The profile that it runs under.
        profile: Profile,
        /// What each layer said.
        layers: Vec<layer::Report>,
        /// What is open that a stricter profile closes, each in a sentence.
        weaknesses: Vec<String>,
    },
    /// The service.
    Status {
        /// Its version.
        version: String,
        /// The policies that the caller may use.
        policies: Vec<PolicyName>,
    },
}

/// A call in a list of those that wait.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PendingView {
    /// What it is called.
    pub pending: u64,
    /// The session whose call it is.
    pub session: SessionId,
    /// Its tool.
    pub tool: ToolName,
    /// The session's policy.
    pub policy: PolicyName,
    /// Who asked for the session.
    pub caller_uid: u32,
    /// Since when it waits, in milliseconds since 1970.
    pub since: u64,
    /// Until when it waits, in milliseconds since 1970.
    pub expires: u64,
    /// What it takes to approve it.
    pub needs: Needs,
    /// Why it waits: the first reason's rule.
    pub rule: String,
    /// Where it is.
    pub state: State,
}

/// A call that waits, or waited, whole.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Shown {
    /// The call.
    pub waits: Waits,
    /// Where it is.
    pub state: State,
    /// Who answered, if somebody did.
    pub answered: Option<Said>,
    /// When and how it ended, if it did.
    pub over: Option<Ended>,
    /// Why the caller may not answer it; none if he may.
    pub not_yours: Option<String>,
}

/// Where a call that waited is, as control keeps it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum State {
    /// Approved; what came of it is not known yet.
    Approved,
    /// Approved and performed.
    Done,
    /// Approved, and nothing was done.
    Failed,
    /// Approved, and it may have been performed.
    InDoubt,
    /// Nobody answered in its time, or its session ended.
    Lapsed,
    /// Refused.
    Refused,
    /// It waits.
    Waiting,
}

impl State {
    /// The same in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Lapsed => "lapsed",
            Self::Refused => "refused",
            Self::Waiting => "waiting",
        }
    }
}

/// What a reviewer said.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Said {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Who.
    pub uid: u32,
    /// The fingerprint of the key that he signed with, if he did.
    pub key: Option<String>,
    /// How far his approval goes; none if he refused.
    pub scope: Option<Scope>,
}

/// How it ended.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Ended {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// In words.
    pub why: String,
}

/// A session in a list.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SessionView {
    /// Which.
    pub session: SessionId,
    /// Its policy.
    pub policy: PolicyName,
    /// The profile that it runs under.
    pub profile: Profile,
    /// Its uid.
    pub uid: u32,
    /// Who started it.
    pub caller_uid: u32,
    /// The session that it was delegated from.
    pub from: Option<SessionId>,
    /// For how long, in seconds.
    pub seconds: u64,
    /// What its hooks did, as custodyd said last; it does so every few seconds.
    pub counts: Option<Counts>,
    /// The workspace's path.
    pub workspace: Option<String>,
}

impl Message for Answer {
    const CAP: usize = 2 << 20;
    const KIND: u8 = 61;
}

//! The vault's state, and its loop.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
    os::fd::OwnedFd,
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use custody_ledger::{
    key::KeyError,
    tail::OpenError,
    writer::{StartError, Writer},
};
use custody_service::{
    clock::Clock, folders::Folders, places::Places, policies::PoliciesError, reason,
};
use custody_wire::{
    permit::Answer,
    revoke::Revoked,
    supervise::{Head, VaultOrder},
};
use gate::{
    chain::key_id,
    digest::Digest,
    id::{PolicyName, SessionId},
    mutant::Mutant,
    nonce::Nonce,
    record::{Bound, Effect, Verification},
};
use tokio::sync::Notify;

use crate::{
    approvals,
    credential::Credentials,
    custodyd::{Custodyd, Notice, NoticeError, stream},
    doubts::{Doubt, Doubts},
    gate_link::{self, Link},
    locks::Locks,
    policies::{self, Policies},
    receipts::Receipts,
    recover,
    resolver::Resolver,
    reviewers::Reviewers,
    session::Session,
    spent::{SPENT_MAX, Spent},
    workers::{self, Means, Workers},
};

/// How often idle workers are looked for, and the newest line on disk is told.
const SWEEP: Duration = Duration::from_secs(5);

/// What a vault is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where things are.
    pub places: Folders,
    /// Who must own the policies: root, outside of tests.
    pub policy_owner: u32,
    /// The clocks.
    pub clock: Rc<dyn Clock>,
    /// After how long without a request a worker ends.
    pub idle: Duration,
}

impl Config {
    /// The configuration of a real vault.
    pub fn new(places: Folders, clock: Rc<dyn Clock>) -> Self {
        Self {
            places,
            policy_owner: 0,
            clock,
            idle: workers::IDLE,
        }
    }
}

/// Why a vault ended otherwise than with custodyd.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The chain of the receipts cannot be opened.
    #[error("the receipts cannot be opened")]
    Chain(#[source] OpenError),
    /// The chain of the receipts failed.
    #[error("the receipts failed; the vault ends, and says what is in doubt when it starts again")]
    ChainFailed,
    /// The receipts' key cannot be had.
    #[error("no key for the receipts")]
    Key(#[source] KeyError),
    /// The channel to custodyd failed.
    #[error("the channel to custodyd is not usable")]
    Notices(#[source] NoticeError),
    /// The policies cannot be loaded.
    #[error("the policies cannot be loaded")]
    Policies(#[source] PoliciesError),
    /// The kernel gave no random bytes.
    #[error("getrandom(2) failed: {why}")]
    Random {
        /// Its words.
        why: String,
    },
    /// The chain of the receipts cannot be read from its last start on.
    #[error("cannot read `{folder}`: {why}")]
    Scan {
        /// The folder.
        folder: PathBuf,
        /// Why.
        why: String,
    },
}

/// The vault.
#[derive(Debug)]
pub(crate) struct Vault {
    pub(crate) audience: Digest,
    pub(crate) epoch: [u8; 16],
    pub(crate) clock: Rc<dyn Clock>,
    pub(crate) credentials: RefCell<Credentials>,
    pub(crate) custodyd: Custodyd,
    pub(crate) locks: Locks,
    pub(crate) receipts: Receipts,
    pub(crate) resolver: Rc<Resolver>,
    pub(crate) reviewers: RefCell<Reviewers>,
    pub(crate) spent: RefCell<Spent>,
    pub(crate) statements: RefCell<Spent>,
    /// The streams of all sessions.
    pub(crate) streams: Places,
    /// Boot time in nanoseconds and the host's in milliseconds, when it started.
    started: (u64, u64),
    pub(crate) workers: Workers,
    broken: RefCell<Option<NoticeError>>,
    breaks: Notify,
    gate: RefCell<Option<Rc<Link>>>,
    /// Counts the gates that custodyd announced: only the newest counts.
    gate_turn: Cell<u64>,
    /// What an earlier run left open, until it is read back.
    left: RefCell<Vec<Doubt>>,
    /// Policies that were taken back.
    revoked: RefCell<BTreeSet<PolicyName>>,
    /// The calls of all sessions on their way.
    pub(crate) calls: Places,
    policies: Policies,
    sessions: RefCell<HashMap<SessionId, Rc<Session>>>,
}

/// Serves until custodyd closes the channel. To be run inside a [`tokio::task::LocalSet`].
///
/// # Errors
/// When the vault cannot start, or its receipts fail.
pub async fn serve(config: Config, channel: OwnedFd) -> Result<(), VaultError> {
    let idle = config.idle;
    let vault = Rc::new(start(config, channel)?);
    let mut sweep = tokio::time::interval(SWEEP.min(idle));
    // The first goes out at once: it also says that the vault serves.
    let mut told = None;
    loop {
        tokio::select! {
            notice = vault.custodyd.next() => match notice {
                Ok(notice) => vault.heed(notice),
                Err(NoticeError::Closed) => return Ok(()),
                Err(error) => return Err(VaultError::Notices(error)),
            },
            error = vault.broken() => return Err(VaultError::Notices(error)),
            () = vault.receipts.failure() => return Err(VaultError::ChainFailed),
            _now = sweep.tick() => {
                vault.workers.sweep(idle, &vault.custodyd);
                vault.tell_head(&mut told);
            }
        }
    }
}

fn start(config: Config, channel: OwnedFd) -> Result<Vault, VaultError> {
    let places = &config.places;
    let policies =
        policies::load(&places.policies, config.policy_owner).map_err(VaultError::Policies)?;
    let private = places.state.join("receipts.key");
    let public = places.public.join("receipts.pub");
    let mut epoch = [0; 16];
    getrandom::fill(&mut epoch).map_err(|error| VaultError::Random {
        why: error.to_string(),
    })?;
    let opened = Writer::<Effect>::open_signing(&places.chain, &private, &public);
    let (writer, tail, key) = opened.map_err(|error| match error {
        StartError::Chain(error) => VaultError::Chain(error),
        StartError::Key(error) => VaultError::Key(error),
    })?;
    tracing::info!(?tail, "receipts opened");
    let audience = key_id(&key);
    let own = custody_ledger::key::all_published(&public).map_err(VaultError::Key)?;
    let doubts = Doubts::read(&places.chain, &own).map_err(|error| VaultError::Scan {
        folder: places.chain.clone(),
        why: reason::chain_of(&error),
    })?;
    let receipts = Receipts::new(writer, Rc::clone(&config.clock));
    let (left, lost) = doubts.part(|doubt| recover::can_be(doubt, &policies));
    // First the doubts that stay, then the line that names all others before it.
    lost.into_iter()
        .try_for_each(|doubt| doubt.stays(&receipts, Verification::UNSUPPORTED))
        .and_then(|()| {
            receipts.append(|at| Effect::Started {
                at,
                epoch: Nonce(epoch),
                open: left.iter().map(|doubt| doubt.intent).collect(),
                version: env!("CARGO_PKG_VERSION").into(),
            })
        })
        .map_err(|_failed| VaultError::ChainFailed)?;
    let custodyd =
        Custodyd::new(channel).map_err(|error| VaultError::Notices(NoticeError::Io(error)))?;
    let started = (config.clock.boot_ns(), config.clock.unix_ms());
    Ok(Vault {
        audience,
        epoch,
        clock: config.clock,
        credentials: RefCell::default(),
        custodyd,
        receipts,
        resolver: Rc::default(),
        reviewers: RefCell::default(),
        spent: RefCell::new(Spent::new(SPENT_MAX)),
        started,
        statements: RefCell::new(Spent::new(approvals::STATEMENTS_MAX)),
        streams: Places::new(crate::ALL_STREAMS_MAX),
        workers: Workers::default(),
        broken: RefCell::default(),
        breaks: Notify::new(),
        gate: RefCell::default(),
        locks: Locks::default(),
        gate_turn: Cell::new(0),
        left: RefCell::new(left),
        revoked: RefCell::default(),
        calls: Places::new(crate::ALL_CALLS),
        policies,
        sessions: RefCell::default(),
    })
}

impl Vault {
    /// What the start of a worker needs.
    pub(crate) fn means(&self) -> Means<'_> {
        Means {
            credentials: &self.credentials,
            custodyd: &self.custodyd,
            resolver: &self.resolver,
        }
    }

    /// What permits must name.
    pub(crate) fn hello(&self) -> Answer {
        Answer::Hello {
            audience: self.audience,
            epoch: self.epoch,
        }
    }

    /// Milliseconds since 1970 by a clock that is not set back while the vault runs: what expired stays
    /// expired.
    pub(crate) fn unix_ms(&self) -> u64 {
        let (boot_ns, unix_ms) = self.started;
        let since = self.clock.boot_ns().saturating_sub(boot_ns) / 1_000_000;
        self.clock.unix_ms().max(unix_ms.saturating_add(since))
    }

    /// The session, if it is open.
    pub(crate) fn session(&self, session: SessionId) -> Option<Rc<Session>> {
        self.sessions.borrow().get(&session).map(Rc::clone)
    }

    /// From now on this gate's permits count, and no other's. False if a newer one was announced
    /// meanwhile.
    pub(crate) fn set_gate(&self, turn: u64, link: &Rc<Link>) -> bool {
        let newest = turn == self.gate_turn.get();
        if newest && let Some(earlier) = self.gate.replace(Some(Rc::clone(link))) {
            earlier.end();
        }
        newest
    }

    /// The gate is gone.
    pub(crate) fn forget_gate(&self, link: &Rc<Link>) {
        let mut gate = self.gate.borrow_mut();
        if gate.as_ref().is_some_and(|it| Rc::ptr_eq(it, link)) {
            *gate = None;
        }
    }

    /// Heeds every notice that custodyd has sent by now. Called before each permit is judged: what
    /// custodyd said before the gate asked counts, in whatever order the two channels are read.
    pub(crate) fn catch_up(self: &Rc<Self>) {
        while let Some(notice) = self.custodyd.at_hand() {
            match notice {
                Ok(notice) => self.heed(notice),
                // The loop sees the end by itself.
                Err(NoticeError::Closed) => return,
                Err(error) => {
                    drop(self.broken.borrow_mut().replace(error));
                    self.breaks.notify_one();
                    return;
                }
            }
        }
    }

    /// Ready when [`Vault::catch_up`] found the channel broken.
    async fn broken(&self) -> NoticeError {
        loop {
            let broken = self.broken.borrow_mut().take();
            match broken {
                Some(error) => return error,
                None => self.breaks.notified().await,
            }
        }
    }

    /// An effect that its server claimed is not there.
    pub(crate) fn mismatched(&self, effect: &Bound, policy: &PolicyName, locks: bool, why: &str) {
        let locked = locks && self.locks.lock(policy, &effect.tool);
        if locked {
            // A new run of the vault hears it from custodyd.
            self.custodyd.order_or_lose(&VaultOrder::Locked {
                policy: policy.clone(),
                tool: effect.tool.clone(),
            });
        }
        tracing::error!(
            call = %effect.call,
            tool = %effect.tool,
            session = %effect.session,
            %policy,
            why,
            locked,
            "mismatched: the server answered that it was done, and reading it back does not show it"
        );
    }

    fn heed(self: &Rc<Self>, notice: Notice) {
        match notice {
            Notice::Certified(certificate) => self.receipts.certified(*certificate),
            Notice::Credential(label, fd) => {
                self.workers.replaced(&label, &self.custodyd);
                self.credentials.borrow_mut().take(label, fd);
            }
            Notice::Ended(session) => self.end(session),
            Notice::Gate(fd) => self.meet_gate(fd),
            Notice::Locked(policy, tool) => {
                let _was_not = self.locks.lock(&policy, &tool);
            }
            Notice::Opened(session, policy) => self.open(session, &policy),
            Notice::Ready => {
                tracing::info!("every credential was sent");
                self.look_back();
            }
            Notice::Reviewer(name, fd) => self.reviewers.borrow_mut().take(&name, fd),
            Notice::Reviewers => self.reviewers.borrow_mut().renew(),
            Notice::RevokedKeys(fd) => self.reviewers.borrow_mut().take_revoked(fd),
            Notice::Resolver(fd) => match stream(fd) {
                Ok(stream) => self.resolver.replace(stream),
                Err(error) => tracing::error!(%error, "the resolver's channel is not usable"),
            },
            Notice::Revoked(what) => self.revoked(&what),
            Notice::Unlocked(tool) => self.locks.unlock(&tool),
            Notice::Worker {
                order,
                channel,
                pid,
            } => self
                .workers
                .started(order, Ok((channel, pid)), &self.custodyd),
            Notice::WorkerRefused { order, why } => {
                self.workers.started(order, Err(why), &self.custodyd);
            }
        }
    }

    /// Reads back what an earlier run left open, beside everything else.
    fn look_back(self: &Rc<Self>) {
        let left = self.left.take();
        if left.is_empty() {
            return;
        }
        let vault = Rc::clone(self);
        drop(tokio::task::spawn_local(async move {
            // That the chain failed ends the vault elsewhere; then the next run looks.
            let _done = recover::recover(&vault, left).await;
        }));
    }

    /// Every policy that is loaded.
    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Custodyd has cut what is in use; here it is used no more.
    fn revoked(&self, what: &Revoked) {
        if Mutant::VaultRevocation.is_on() {
            return;
        }
        tracing::warn!(%what, "revoked");
        match what {
            Revoked::Credential(label) => {
                self.credentials.borrow_mut().revoke(label);
                self.workers.cut(label, &self.custodyd);
            }
            Revoked::Policy(name) => {
                self.revoked.borrow_mut().insert(name.clone());
                let under: Vec<SessionId> = self
                    .sessions
                    .borrow()
                    .iter()
                    .filter(|(_id, session)| session.loaded.policy.name() == name)
                    .map(|(id, _session)| *id)
                    .collect();
                under.into_iter().for_each(|session| self.end(session));
            }
            Revoked::Session(session) => self.end(*session),
        }
    }

    /// Whether a policy was taken back.
    pub(crate) fn is_revoked(&self, policy: &PolicyName) -> bool {
        self.revoked.borrow().contains(policy)
    }

    fn meet_gate(self: &Rc<Self>, fd: OwnedFd) {
        // The old key is void now, not only when the new gate has spoken.
        if let Some(earlier) = self.gate.take() {
            earlier.end();
        }
        let turn = self.gate_turn.get().saturating_add(1);
        self.gate_turn.set(turn);
        let vault = Rc::clone(self);
        match stream(fd) {
            Ok(stream) => drop(tokio::task::spawn_local(async move {
                let why = gate_link::serve(vault, turn, stream).await;
                tracing::warn!(why = reason::chain_of(&why), "the gate is gone");
            })),
            Err(error) => tracing::error!(%error, "the gate's channel is not usable"),
        }
    }

    fn open(&self, session: SessionId, policy: &PolicyName) {
        // A number that lives is never opened again: whatever was there is over.
        self.end(session);
        if self.is_revoked(policy) {
            tracing::error!(%session, %policy, "session opened under a policy that was revoked");
            return;
        }
        let Some(loaded) = self.policies.get(policy) else {
            // Without a policy nothing is open: every permit of the session is refused.
            tracing::error!(%session, %policy, "session opened under an unknown policy");
            return;
        };
        let opened = Rc::new(Session::new(loaded));
        drop(self.sessions.borrow_mut().insert(session, opened));
        tracing::info!(%session, %policy, "session opened");
    }

    fn end(&self, session: SessionId) {
        let ended = self.sessions.borrow_mut().remove(&session);
        if let Some(ended) = ended {
            ended.end();
            tracing::info!(%session, "session ended");
        }
        self.workers.forget(session);
    }

    fn tell_head(&self, told: &mut Option<u64>) {
        let head = self.receipts.synced();
        if *told != Some(head.position) {
            *told = Some(head.position);
            self.custodyd.order_or_lose(&VaultOrder::Head(Head {
                position: head.position,
                digest: head.digest,
            }));
        }
    }
}

//! The gate's state, and its loop.

use std::{cell::RefCell, os::fd::OwnedFd, rc::Rc, time::Duration};

use custody_ledger::{
    key::KeyError,
    tail::OpenError,
    writer::{StartError, Writer},
};
use custody_service::{clock::Clock, folders::Folders, policies::PoliciesError, reason};
use custody_wire::{frame::FrameError, supervise::Head};
use ed25519_dalek::SigningKey;
use gate::{
    chain::{ChainName, key_id},
    id::{PolicyName, SessionId},
    record::{Decision, Why},
};
use tokio::{
    task::{self, AbortHandle},
    time::{MissedTickBehavior, interval},
};
use zeroize::Zeroizing;

use crate::{
    book::{Book, Unrecorded},
    control,
    deadlines::Deadlines,
    front,
    notices::{Notice, NoticeError, Notices, stream},
    outbox::Outbox,
    policies::{self, Policies},
    session::Sessions,
    vault::Vault,
    wait,
};

/// How often custodyd is told the newest record on disk, if there is a newer one.
const HEADS: Duration = Duration::from_secs(5);

/// What a gate is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where things are.
    pub places: Folders,
    /// Who must own the policies: root, outside of tests.
    pub policy_owner: u32,
    /// The clocks.
    pub clock: Rc<dyn Clock>,
}

impl Config {
    /// The configuration of a real gate.
    pub fn new(places: Folders, clock: Rc<dyn Clock>) -> Self {
        Self {
            places,
            policy_owner: 0,
            clock,
        }
    }
}

/// Why a gate ended otherwise than with custodyd.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The chain of the decisions cannot be opened.
    #[error("the decision records cannot be opened")]
    Chain(#[source] OpenError),
    /// The decisions' key cannot be had.
    #[error("no key for the decision records")]
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
    /// The list of a policy's tools is longer than an answer may be.
    #[error("policy `{name}` has more tools than one answer holds")]
    Tools {
        /// The policy.
        name: PolicyName,
        /// What is too long.
        source: FrameError,
    },
    /// The start could not be recorded.
    #[error("the start cannot be recorded")]
    Unrecorded,
}

/// The gate.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) book: Book,
    pub(crate) clock: Rc<dyn Clock>,
    pub(crate) deadlines: Deadlines,
    pub(crate) outbox: Outbox,
    /// Made at each start, never on disk: no permit outlives this process.
    pub(crate) permit_key: SigningKey,
    pub(crate) policies: Policies,
    pub(crate) sessions: Sessions,
    pub(crate) vault: Vault,
}

/// Why a session is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Closer {
    /// The end of a session that it was delegated from.
    Above,
    Control,
    Custodyd,
}

/// Serves until custodyd closes its channel. To be run inside a `tokio::task::LocalSet`.
///
/// # Errors
/// When it cannot start, or the channel breaks.
pub async fn serve(config: Config, channel: OwnedFd) -> Result<(), GateError> {
    let keeper = Rc::new(start(config)?);
    let notices =
        Notices::new(channel).map_err(|error| GateError::Notices(NoticeError::Io(error)))?;
    let ends = Ends::default();
    let mut ticks = interval(HEADS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first goes out at once, whatever it is: it also says that the gate serves.
    let mut told = None;
    loop {
        tokio::select! {
            notice = notices.next() => match notice {
                Ok(notice) => meet(&keeper, &ends, notice),
                Err(NoticeError::Closed) => return Ok(()),
                Err(error) => return Err(GateError::Notices(error)),
            },
            due = keeper.deadlines.due(keeper.clock.as_ref()) => {
                for (position, session) in due {
                    wait::expire(&keeper, &session, position);
                }
            }
            () = keeper.vault.came() => control::announce_signed(&keeper),
            _now = ticks.tick() => {
                let synced = keeper.book.synced();
                if told != Some(synced) {
                    told = Some(synced);
                    notices.head(Head {
                        position: synced.position,
                        digest: synced.digest,
                    });
                }
            }
        }
    }
}

fn start(config: Config) -> Result<Keeper, GateError> {
    let Config {
        places,
        policy_owner,
        clock,
    } = config;
    let policies = policies::load(&places.policies, policy_owner)?;
    let chain = ChainName::Decisions;
    let private = places.state.join(format!("{chain}.key"));
    let public = places.public.join(format!("{chain}.pub"));
    let (writer, tail, _key) =
        Writer::open_signing(&places.chain, &private, &public).map_err(|error| match error {
            StartError::Chain(error) => GateError::Chain(error),
            StartError::Key(error) => GateError::Key(error),
        })?;
    tracing::info!(
        ?tail,
        head = writer.head().position,
        policies = policies.len(),
        "started"
    );
    let mut secret = Zeroizing::new([0_u8; 32]);
    getrandom::fill(secret.as_mut()).map_err(|error| GateError::Random {
        why: error.to_string(),
    })?;
    let permit_key = SigningKey::from_bytes(&secret);
    let book = Book::new(writer, Rc::clone(&clock));
    let started = Decision::Started {
        at: book.now(),
        permit_key: key_id(&permit_key.verifying_key()),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let _place = book
        .record(&started)
        .map_err(|Unrecorded| GateError::Unrecorded)?;
    Ok(Keeper {
        book,
        clock,
        deadlines: Deadlines::default(),
        outbox: Outbox::default(),
        permit_key,
        policies,
        sessions: Sessions::default(),
        vault: Vault::default(),
    })
}

/// The tasks of the channels of which there is one at a time.
#[derive(Debug, Default)]
struct Ends {
    control: RefCell<Option<AbortHandle>>,
    vault: RefCell<Option<AbortHandle>>,
}

fn replace(place: &RefCell<Option<AbortHandle>>, task: AbortHandle) {
    if let Some(earlier) = place.borrow_mut().replace(task) {
        earlier.abort();
    }
}

fn meet(keeper: &Rc<Keeper>, ends: &Ends, notice: Notice) {
    match notice {
        Notice::Certified(certificate) => keeper.book.certified(*certificate),
        Notice::Control(fd) => {
            let Some(stream) = usable(fd) else { return };
            let keeper = Rc::clone(keeper);
            let task = task::spawn_local(async move {
                let why = control::serve(&keeper, stream).await;
                tracing::info!(why = reason::chain_of(&why), "the channel to control ended");
            });
            replace(&ends.control, task.abort_handle());
        }
        Notice::Ended(session) => keeper.close(session, Closer::Custodyd),
        Notice::Front(session, policy, fd) => keeper.front(session, &policy, fd),
        Notice::Vault(fd) => {
            // Now, not when the new one has said hello: the permits of the old one are void.
            keeper.vault.forget();
            let Some(stream) = usable(fd) else { return };
            let keeper = Rc::clone(keeper);
            let task = task::spawn_local(async move {
                let key = keeper.permit_key.verifying_key().to_bytes();
                let why = keeper.vault.serve(stream, key).await;
                tracing::warn!(
                    why = reason::chain_of(&why),
                    "the channel to the vault ended"
                );
            });
            replace(&ends.vault, task.abort_handle());
        }
    }
}

fn usable(fd: OwnedFd) -> Option<tokio::net::UnixStream> {
    stream(fd)
        .inspect_err(|error| tracing::warn!(%error, "custodyd sent no stream"))
        .ok()
}

impl Keeper {
    /// Milliseconds of a clock that does not run back.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.boot_ns() / 1_000_000
    }

    /// Gives a front its session, if control opened it under this policy.
    fn front(self: &Rc<Self>, id: SessionId, policy: &PolicyName, fd: OwnedFd) {
        let Some(session) = self.sessions.under(id, policy) else {
            tracing::warn!(session = %id, %policy, "a front of no open session was dropped");
            return;
        };
        let Some(stream) = usable(fd) else { return };
        let keeper = Rc::clone(self);
        let served = Rc::clone(&session);
        let task = task::spawn_local(async move {
            let why = front::serve(&keeper, &served, stream).await;
            tracing::info!(session = %served.id, why = reason::chain_of(&why), "a front ended");
        });
        session.fronted_by(task.abort_handle());
    }

    /// Ends a session, once, and with it those that were delegated from it; nothing of any other one
    /// changes.
    pub(crate) fn close(&self, id: SessionId, closer: Closer) {
        self.close_one(id, closer);
        for below in self.sessions.below(id) {
            self.close_one(below, Closer::Above);
        }
    }

    fn close_one(&self, id: SessionId, closer: Closer) {
        let Some(session) = self.sessions.close(id) else {
            return;
        };
        let why = match closer {
            Closer::Above => "a session that it was delegated from is over",
            Closer::Control => "control closed it",
            Closer::Custodyd => "custodyd ended it",
        };
        tracing::info!(session = %session.id, why, "session closed");
        let waiting = session.pending.borrow_mut().take_all();
        for waiting in &waiting {
            self.deadlines
                .remove(waiting.deadline_ms, waiting.decision.position);
            wait::lapse(self, &session, waiting, wait::ENDED);
        }
        let record = Decision::Closed {
            at: self.book.now(),
            session: session.id,
            why: Why::from(why),
        };
        if self.book.record(&record).is_err() {
            // Closed all the same: the failure is in the log.
        }
    }
}

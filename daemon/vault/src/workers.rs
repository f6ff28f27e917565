//! Every worker: started when a call needs it, kept for the next, ended when idle.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    os::fd::OwnedFd,
    rc::Rc,
    time::Duration,
};

use custody_service::reason;
use custody_wire::{
    perform::Placement,
    supervise::{NO_SESSION, VaultOrder},
};
use gate::{
    id::{CredentialLabel, SessionId},
    origin::Origin,
    policy,
};
use tokio::{
    sync::{Mutex, oneshot},
    time::timeout,
};

use crate::{
    credential::Credentials,
    custodyd::Custodyd,
    egress::{self, EgressError},
    resolver::Resolver,
    session::Session,
    worker::{Start, Worker},
};

/// How long custodyd may take to start a worker.
const START: Duration = Duration::from_secs(10);

/// After this long without a request a worker ends, and with it one more copy of the credential.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// After this long a worker is replaced at the next request, so that names are resolved again.
const AGE_MAX: Duration = Duration::from_secs(300);

type Key = (SessionId, CredentialLabel);
type Slot = Rc<Mutex<Option<Rc<Worker>>>>;
pub(crate) type Started = Result<(OwnedFd, OwnedFd), String>;

/// Every worker.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// One lock for each session and credential: a start that takes long holds up nobody else.
    slots: RefCell<HashMap<Key, Slot>>,
    starting: RefCell<HashMap<u64, oneshot::Sender<Started>>>,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorker {
    /// Its egress is refused.
    #[error(transparent)]
    Egress(EgressError),
    /// It could not be started.
    #[error("no worker could be started: {why}")]
    NotStarted {
        /// Why.
        why: String,
    },
}

/// Whom a worker is for, and what it needs to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) session: SessionId,
    pub(crate) open: &'a Session,
    pub(crate) label: &'a CredentialLabel,
    pub(crate) rules: &'a policy::Credential,
    pub(crate) origin: &'a Origin,
}

/// The vault's parts that a start needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means<'a> {
    pub(crate) credentials: &'a RefCell<Credentials>,
    pub(crate) custodyd: &'a Custodyd,
    pub(crate) resolver: &'a Resolver,
}

impl Workers {
    /// A worker that may go to the wanted origin: the one that is there, or a new one.
    pub(crate) async fn find(
        &self,
        wanted: Wanted<'_>,
        means: Means<'_>,
    ) -> Result<Rc<Worker>, NoWorker> {
        let key = (wanted.session, wanted.label.clone());
        let slot = Rc::clone(self.slots.borrow_mut().entry(key).or_default());
        let mut place = slot.lock().await;
        if wanted.open.is_over() {
            return Err(NoWorker::NotStarted {
                why: "the session ended".into(),
            });
        }
        if let Some(worker) = &*place {
            let usable = worker.lives()
                && worker.age() < AGE_MAX
                && worker.addresses(wanted.origin).is_some();
            if usable {
                worker.taken();
                return Ok(Rc::clone(worker));
            }
        }
        if let Some(earlier) = place.take() {
            retire(earlier, means.custodyd);
        }
        let worker = self.start(wanted, means).await?;
        *place = Some(Rc::clone(&worker));
        Ok(worker)
    }

    async fn start(&self, wanted: Wanted<'_>, means: Means<'_>) -> Result<Rc<Worker>, NoWorker> {
        let not_started = |why| NoWorker::NotStarted { why };
        let addresses = egress::of(&wanted.rules.floor, wanted.origin, means.resolver)
            .await
            .map_err(NoWorker::Egress)?;
        let each: BTreeSet<SocketAddr> = addresses.values().flatten().copied().collect();
        let order = means.custodyd.number();
        let (label, egress) = (wanted.label.clone(), each.into_iter().collect());
        let asked = if wanted.session == NO_SESSION {
            VaultOrder::Recover {
                order,
                policy: wanted.open.loaded.policy.name().clone(),
                label,
                egress,
            }
        } else {
            VaultOrder::Start {
                order,
                session: wanted.session,
                label,
                egress,
            }
        };
        let (channel, pid) = self
            .ordered(order, &asked, means.custodyd)
            .await
            .map_err(not_started)?;
        let end = |why| {
            means.custodyd.order_or_lose(&VaultOrder::Stop { order });
            not_started(why)
        };
        // A copy for this worker, made now and dropped when it is sent.
        let credential = match means.credentials.borrow().find(wanted.label) {
            Ok(credential) => credential.hand_over().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let start = Start {
            order,
            session: wanted.session,
            label: wanted.label,
            placement: Placement::Header {
                name: wanted.rules.placement.header.clone(),
                prefix: wanted.rules.placement.prefix.clone(),
            },
            credential: credential.map_err(end)?,
            addresses,
        };
        Worker::begin(start, channel, pid).await.map_err(end)
    }

    /// The channel and the pidfd of what custodyd starts on an order.
    pub(crate) async fn ordered(
        &self,
        order: u64,
        asked: &VaultOrder,
        custodyd: &Custodyd,
    ) -> Started {
        let (started, start) = oneshot::channel();
        drop(self.starting.borrow_mut().insert(order, started));
        let outcome = match custodyd.order(asked).await {
            Ok(()) => timeout(START, start).await,
            Err(error) => Ok(Ok(Err(error.to_string()))),
        };
        drop(self.starting.borrow_mut().remove(&order));
        match outcome {
            Ok(Ok(started)) => started.map_err(|why| reason::plain(&why)),
            Ok(Err(_dropped)) => Err("the session ended".into()),
            // It may come later: then it is ended, see `started`.
            Err(_late) => Err("custodyd did not answer in time".into()),
        }
    }

    /// custodyd answered an order to start.
    pub(crate) fn started(&self, order: u64, answer: Started, custodyd: &Custodyd) {
        let waiting = self.starting.borrow_mut().remove(&order);
        let unwanted = match waiting {
            Some(started) => started.send(answer),
            None => Err(answer),
        };
        match unwanted {
            Ok(()) => {}
            // Nobody waits any more: it must not stay.
            Err(Ok(_fds)) => custodyd.order_or_lose(&VaultOrder::Stop { order }),
            Err(Err(why)) => self.ended(order, &why),
        }
    }

    /// A worker that had started has ended.
    fn ended(&self, order: u64, why: &str) {
        let slots: Vec<_> = self.slots.borrow().values().cloned().collect();
        for slot in slots {
            // A slot that is locked has no worker yet, or its channel's end says the same.
            if let Ok(place) = slot.try_lock()
                && let Some(worker) = &*place
                && worker.order() == order
            {
                worker.die(why);
            }
        }
    }

    /// The session is over, and custodyd has ended its workers.
    pub(crate) fn forget(&self, session: SessionId) {
        let mut gone = Vec::new();
        self.slots.borrow_mut().retain(|(of, _label), slot| {
            let stays = *of != session;
            if !stays {
                gone.push(Rc::clone(slot));
            }
            stays
        });
        for slot in gone {
            if let Ok(mut place) = slot.try_lock()
                && let Some(worker) = place.take()
            {
                worker.die("the session ended");
            }
        }
    }

    /// The credential was replaced: its workers hold the old one.
    pub(crate) fn replaced(&self, label: &CredentialLabel, custodyd: &Custodyd) {
        self.retire_where(custodyd, |of, _worker| of == label);
    }

    /// The credential was taken back: custodyd kills its workers, and whoever waits for one is told.
    pub(crate) fn cut(&self, label: &CredentialLabel, custodyd: &Custodyd) {
        let slots: Vec<Slot> = self
            .slots
            .borrow()
            .iter()
            .filter(|((_session, of), _slot)| of == label)
            .map(|(_key, slot)| Rc::clone(slot))
            .collect();
        for slot in slots {
            // A slot that is locked has no worker yet, and will get none.
            if let Ok(mut place) = slot.try_lock()
                && let Some(worker) = place.take()
            {
                worker.die("its credential was revoked");
                custodyd.order_or_lose(&VaultOrder::Stop {
                    order: worker.order(),
                });
            }
        }
    }

    /// Ends every worker that nobody has had for [`IDLE`], or that is dead.
    pub(crate) fn sweep(&self, idle: Duration, custodyd: &Custodyd) {
        self.retire_where(custodyd, |_label, worker| {
            !worker.lives() || (!is_held(worker, 1) && worker.idle() >= idle)
        });
    }

    fn retire_where(
        &self,
        custodyd: &Custodyd,
        which: impl Fn(&CredentialLabel, &Rc<Worker>) -> bool,
    ) {
        self.slots.borrow_mut().retain(|(_session, label), slot| {
            let Ok(mut place) = slot.try_lock() else {
                return true;
            };
            match &*place {
                Some(worker) if !which(label, worker) => return true,
                Some(_) | None => {}
            }
            if let Some(worker) = place.take() {
                retire(worker, custodyd);
            }
            // Somebody may hold the empty slot and be about to lock it.
            drop(place);
            Rc::strong_count(slot) > 1
        });
    }
}

/// Whether a call has it, beside `ours` of our own: one that it performs, or one that is found it and still
/// writes its intent, which takes as long as the disk does.
fn is_held(worker: &Rc<Worker>, ours: usize) -> bool {
    worker.performs() || Rc::strong_count(worker) > ours
}

/// Takes a worker out of use. What it performs at the moment, or is about to, comes to its end first.
fn retire(worker: Rc<Worker>, custodyd: &Custodyd) {
    if !is_held(&worker, 1) || !worker.lives() {
        worker.die("no more needed");
        custodyd.order_or_lose(&VaultOrder::Stop {
            order: worker.order(),
        });
    } else {
        // The calls that are on their way hold it; when the last lets go, its channel closes and
        // the worker's process ends with it.
        tracing::debug!(order = worker.order(), "replaced while it performs");
    }
}

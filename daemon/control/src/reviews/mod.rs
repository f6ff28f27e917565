//! Calls that wait for a person: kept, shown to reviewers, answered once.
//!
//! The gate says which calls wait; here they are kept on disk, and whoever may is told and asked. An
//! answer goes three steps, each durable before the next: the row becomes approved, then taken, then the
//! gate is told. So after a crash an approval that was not taken was never used, and one that was is in
//! doubt until the gate's records say more. Where the gate says that it used nothing of an approval and that
//! the call waits as before, the approval is given back, and the call may be answered again.
//!
//! | module | what |
//! |---|---|
//! | [`answer`] | a reviewer approves or refuses |
//! | [`keep`] | what the gate says unasked |
//! | [`notify`] | reviewers hear that a call waits |
//! | [`pace`] | how often people are asked, and say yes |
//! | [`prune`] | what is over is forgotten in the end |
//! | [`rights`] | who may see, and who may answer |
//! | [`show`] | lists, and a call whole |
//! | [`web`] | the page: login links, tickets, what is asked with one |
//!
//! **Invariant:** who may answer is decided on what the kernel says of the caller and on root's rules; a
//! uid of a session, a front or a worker never may. A call that cannot be kept is refused, not held.

mod answer;
mod keep;
mod notify;
mod pace;
mod prune;
mod rights;
mod show;
mod web;

use std::{net::SocketAddr, path::Path, sync::Arc};

use custody_approvals::{Sqlite, Store, StoreError};
use custody_config::{Approvals, Config, Review, Uids};
use custody_service::clock::{BootClock, Clock as _};
use gate::id::SessionId;
use tokio::{sync::mpsc, task::spawn_blocking};

use self::{
    notify::{Note, Notifier},
    pace::Pace,
    web::Web,
};

pub(crate) use answer::{approve, refuse};
pub use keep::carry;
pub use prune::prune;
pub(crate) use show::{list, show};
pub use web::serve_pages;
pub(crate) use web::{login, not_the_page};

/// Where calls wait, and who may answer.
#[derive(Debug)]
pub struct Desk {
    /// Or why there is none: then every call that would wait is refused.
    store: Result<Arc<dyn Store>, String>,
    /// Which daemon of this host this is.
    instance: String,
    rules: Vec<Review>,
    uids: Uids,
    limits: Approvals,
    questions: Pace<SessionId>,
    answers: Pace<u32>,
    notes: mpsc::Sender<Note>,
    page: Option<SocketAddr>,
    web: Web,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum DeskError {
    /// There is no store.
    #[error("approvals cannot be kept: {why}")]
    NoStore {
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that asked it is gone.
    #[error("the store of approvals did not answer; look at the service's log")]
    Thread,
}

impl Desk {
    /// Opens the store in `folder` and ends what an earlier life of this daemon left open there. The
    /// future tells reviewers, for ever.
    pub fn open(
        folder: &Path,
        instance: String,
        config: &Config,
        page: Option<SocketAddr>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (notes, noted) = mpsc::channel(NOTES);
        let desk = Self {
            store: open(folder, &instance),
            instance,
            rules: config.review.clone(),
            uids: config.uids,
            limits: config.approvals,
            questions: Pace::default(),
            answers: Pace::default(),
            notes,
            page,
            web: Web::default(),
        };
        let notifier = Notifier::new(config.notify.clone());
        (desk, notifier.carry(noted))
    }

    /// A session is over: what waits of it lapses.
    pub async fn close(&self, session: SessionId) {
        self.questions.forget(&session);
        let closed = self
            .ask(move |store, now| store.close(session, "its session ended", now))
            .await;
        match closed {
            Ok(0) => {}
            Ok(calls) => tracing::info!(%session, calls, "calls that waited are over"),
            Err(error) => tracing::error!(%session, %error, "calls that waited are not closed"),
        }
    }

    /// Asks the store on a thread that may wait for the disk.
    async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn Store, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, DeskError> {
        let store = match &self.store {
            Ok(store) => Arc::clone(store),
            Err(why) => return Err(DeskError::NoStore { why: why.clone() }),
        };
        let asked = spawn_blocking(move || what(&*store, now()));
        match asked.await {
            Ok(answer) => {
                if let Err(error) = &answer
                    && let Some(source) = std::error::Error::source(error)
                {
                    tracing::error!(%error, %source, "the store of approvals");
                }
                Ok(answer?)
            }
            Err(error) => {
                tracing::error!(%error, "the store of approvals");
                Err(DeskError::Thread)
            }
        }
    }
}

/// The most notes that wait to be told; what is beyond is in the list all the same.
const NOTES: usize = 64;

fn open(folder: &Path, instance: &str) -> Result<Arc<dyn Store>, String> {
    let opened = Sqlite::open(folder).and_then(|store| {
        let ended = store.restart(instance, "the service was started again", now())?;
        if ended > 0 {
            tracing::warn!(ended, "calls waited when the service ended");
        }
        Ok(store)
    });
    match opened {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => {
            let why = custody_service::reason::chain_of(&error).to_string();
            tracing::error!(why, "no call can wait for a person");
            Err(why)
        }
    }
}

/// In milliseconds since 1970.
fn now() -> u64 {
    BootClock.unix_ms()
}
